/** The open model device of a process, and the requests that are written to it. */

import {
  type Data,
  type ImageRef,
  type LLMMessage,
  type LLMRequest,
  type Message,
  SyscallError,
} from "../../plugin/index.ts";
import type { FileSystem } from "../file-system.ts";
import type { Process } from "../process/process.ts";
import type { Secrets } from "../process/secrets.ts";

/** A model device as the gate uses it: the kernel binds it to Write and Read on the process's LLM file. */
export interface ModelDevice {
  write(data: string, signal: AbortSignal): Promise<void>;
  read(max: number, signal: AbortSignal): Promise<Data>;
  /** Required when the conversation has images. */
  readImage?: ReadImage;
  /** Keys to redact from the answer, also when the answer splits them over several events. */
  readonly secrets?: Secrets;
}

/** The open model device of one process, as the gate uses it. */
export class ModelDeviceFile implements ModelDevice {
  reads = 0;
  readBytes = 0;
  readonly #files: FileSystem;
  readonly #proc: Process;
  readonly #fd: number | undefined;

  /** `fd`: another open file than the process's own. */
  constructor(files: FileSystem, proc: Process, fd?: number) {
    this.#files = files;
    this.#proc = proc;
    this.#fd = fd;
  }

  write(data: string, signal: AbortSignal): Promise<void> {
    return this.#files.write(this.#proc, this.#fd ?? this.#proc.model.fd, data, signal);
  }

  async read(max: number, signal: AbortSignal): Promise<Data> {
    const data = await this.#files.readQuietly(this.#proc, this.#fd ?? this.#proc.model.fd, max, signal);
    this.reads++;
    this.readBytes += data.length;
    return data;
  }

  get secrets(): Secrets {
    return this.#proc.secrets;
  }

  async readImage(image: ImageRef): Promise<string> {
    return Buffer.from(await this.#proc.record.readBlob(image)).toString("base64");
  }
}

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
