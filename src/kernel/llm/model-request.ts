import {
  type ImageRef,
  type LLMMessage,
  type LLMRequest,
  type Message,
  SyscallError,
} from "../../plugin/index.ts";

/** A request as the kernel holds it: with its images by name, since thousands may wait for their turn. */
export interface ModelRequest extends Omit<LLMRequest, "messages"> {
  messages: Message[];
}

/** Gives an image that the conversation names, in base64. */
export type ReadImage = (image: ImageRef, signal: AbortSignal) => Promise<string>;

/** The request as it is written to a model device: whole. */
export async function writtenRequest(
  request: ModelRequest,
  kept: { readImage?: ReadImage },
  signal: AbortSignal,
): Promise<string> {
  if (!request.messages.some(({ images }) => images !== undefined)) return JSON.stringify(request);
  if (kept.readImage === undefined) {
    throw new SyscallError(
      "INTERNAL",
      "The conversation has images, and nobody here knows where they are kept.",
    );
  }
  const messages: LLMMessage[] = [];
  for (const { images = [], ...message } of request.messages) {
    const read: LLMMessage["images"] = [];
    for (const image of images)
      read.push({ media_type: image.media_type, data: await kept.readImage(image, signal) });
    messages.push(read.length === 0 ? message : { ...message, images: read });
  }
  return JSON.stringify({ ...request, messages });
}
