/** A model request whose images are references. */

import {
  type ImageRef,
  type LLMMessage,
  type LLMRequest,
  type Message,
  SyscallError,
} from "../../plugin/index.ts";

/** A model request whose images are references: thousands of requests may wait in memory. */
export interface ModelRequest extends Omit<LLMRequest, "messages"> {
  messages: Message[];
}

/** Reads an image of the conversation, as base64. */
export type ReadImage = (image: ImageRef, signal: AbortSignal) => Promise<string>;

/** The request as it is written to a model device, with its images. */
export async function writtenRequest(
  request: ModelRequest,
  device: { readImage?: ReadImage },
  signal: AbortSignal,
): Promise<string> {
  if (!request.messages.some(({ images }) => images !== undefined)) return JSON.stringify(request);
  if (device.readImage === undefined) {
    throw new SyscallError("INTERNAL", "The conversation has images, but the device can't read them.");
  }
  const messages: LLMMessage[] = [];
  for (const { images = [], ...message } of request.messages) {
    const read: LLMMessage["images"] = [];
    for (const image of images)
      read.push({ media_type: image.media_type, data: await device.readImage(image, signal) });
    messages.push(read.length === 0 ? message : { ...message, images: read });
  }
  return JSON.stringify({ ...request, messages });
}
