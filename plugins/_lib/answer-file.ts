/** The open file of a device that answers requests. */

import { type Data, type FileStat, SyscallError, type VFSFile } from "rnix/plugin";

export interface Answers {
  /** Its path, for messages and `stat`. */
  device: string;
  /** Answers what was written. Absent: the file can only be read. */
  answer?(request: string, signal: AbortSignal): Promise<string>;
  /** What a read returns before anything was written. Absent: a request must be written first. */
  content?(signal: AbortSignal): Promise<string>;
}

/** A write makes one request, and reads return its answer. The kernel has checked the flags of the open file. */
export class AnswerFile implements VFSFile {
  readonly #answers: Answers;
  /** What is left to read; undefined before the first request. */
  #text: string | undefined;

  constructor(answers: Answers) {
    this.#answers = answers;
  }

  async write(data: Data, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const { device, answer } = this.#answers;
    if (!answer) throw new SyscallError("PERMISSION", `${device} can only be read.`);
    this.#text = undefined;
    this.#text = await answer(typeof data === "string" ? data : new TextDecoder().decode(data), signal);
  }

  async read(max: number, signal: AbortSignal): Promise<string> {
    signal.throwIfAborted();
    const { device, content } = this.#answers;
    if (this.#text === undefined) {
      if (!content)
        throw new SyscallError("INVALID", `${device}: write a request first, then read its answer.`);
      this.#text = await content(signal);
    }
    const part = this.#text.slice(0, max);
    this.#text = this.#text.slice(part.length);
    return part;
  }

  async close(): Promise<void> {
    this.#text = "";
  }

  async stat(): Promise<FileStat> {
    const { device } = this.#answers;
    return { name: device.replace("/dev/", ""), size: 0, isDevice: true, devicePath: device };
  }
}
