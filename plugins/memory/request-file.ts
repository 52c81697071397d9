/** An open file of a device that answers requests. */

import {
  type Data,
  type FileStat,
  O_RDONLY,
  O_WRONLY,
  type OpenFlag,
  SyscallError,
  type VFSFile,
} from "rnix/plugin";
import { Request } from "./request.ts";

export interface Answers {
  device: string;
  /** Answers what was written. */
  answer(request: Request, signal: AbortSignal): Promise<string>;
  /** What a read returns before anything is written; absent where that makes no sense. */
  shown?(signal: AbortSignal): Promise<string>;
}

/** A write makes one request, and reads return its answer. */
export class RequestFile implements VFSFile {
  readonly #flags: OpenFlag;
  readonly #answers: Answers;
  #text: string | undefined;
  #at = 0;

  constructor(flags: OpenFlag, answers: Answers) {
    this.#flags = flags;
    this.#answers = answers;
  }

  async write(data: Data, signal: AbortSignal): Promise<void> {
    const { device } = this.#answers;
    if (this.#flags === O_RDONLY) {
      throw new SyscallError("PERMISSION", `${device} is open for reading only: a request can't be written.`);
    }
    signal.throwIfAborted();
    this.#text = await this.#answers.answer(new Request(device, data), signal);
    this.#at = 0;
  }

  async read(max: number, signal: AbortSignal): Promise<string> {
    const { device, shown } = this.#answers;
    if (this.#flags === O_WRONLY) {
      throw new SyscallError("PERMISSION", `${device} is open for writing only: it can't be read.`);
    }
    signal.throwIfAborted();
    if (this.#text === undefined && !shown) {
      throw new SyscallError("INVALID", `${device}: write a request first, as a JSON object.`);
    }
    this.#text ??= await this.#answers.shown?.(signal);
    const part = (this.#text ?? "").slice(this.#at, this.#at + max);
    this.#at += part.length;
    return part;
  }

  async close(): Promise<void> {}

  async stat(): Promise<FileStat> {
    const { device } = this.#answers;
    return { name: device.slice("/dev/".length), size: 0, isDevice: true, devicePath: device };
  }
}
