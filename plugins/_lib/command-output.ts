/** The output of a command, as the model is shown it. */

import { type Child, type ExitInfo, SyscallError } from "rnix/plugin";

/** Characters of output that are shown from its beginning and from its end. */
const HEAD_CHARS = 10_000;
const TAIL_CHARS = 20_000;
/** Output up to this size is kept in memory; a larger one is in the file of `exec`. */
const MEMORY_CHARS = 64 * 1024;

/** The output of a command: all of it while it is small, then its beginning and end. */
export class CommandOutput {
  readonly #decoders = { 1: new TextDecoder(), 2: new TextDecoder() };
  #head = "";
  #tail = "";
  #length = 0;
  readonly #show: (text: string) => void;

  /** `show` gets the output while the command runs. */
  constructor(show: (text: string) => void) {
    this.#show = show;
  }

  /** Each stream has its own decoder: a piece of one may arrive within a character of the other. */
  add(fd: 1 | 2, data: Uint8Array): void {
    this.#add(this.#decoders[fd].decode(data, { stream: true }));
  }

  addRemark(text: string): void {
    this.#add(`\n[${text}]\n`);
  }

  end(): void {
    this.#add(this.#decoders[1].decode());
    this.#add(this.#decoders[2].decode());
  }

  /** Whether there is more output than is shown. */
  get truncated(): boolean {
    return this.#length > HEAD_CHARS + TAIL_CHARS;
  }

  get inMemory(): string | undefined {
    return this.#length <= MEMORY_CHARS ? this.#head + this.#tail : undefined;
  }

  /** `isComplete`: the file holds all of the output. */
  shown(file: string | undefined, isComplete: boolean): string {
    const text = this.#head + this.#tail;
    if (!this.truncated) return text.replace(/\n$/, "");
    const head = trimPair(text.slice(0, HEAD_CHARS));
    const tail = text.slice(-TAIL_CHARS).replace(/\n$/, "");
    const where =
      file === undefined
        ? "The rest was not saved."
        : `${isComplete ? "The whole output" : "What was saved of it"} is in ${file}`;
    return `${head}\n[… ${this.#length - HEAD_CHARS - TAIL_CHARS} of ${this.#length} characters left out here. ${where} …]\n${tail}`;
  }

  #add(text: string): void {
    if (text !== "") this.#show(text);
    this.#length += text.length;
    const room = HEAD_CHARS - this.#head.length;
    this.#head += text.slice(0, Math.max(0, room));
    this.#tail += text.slice(Math.max(0, room));
    // Truncated now and then, not for each piece.
    if (this.#tail.length > 2 * MEMORY_CHARS) this.#tail = this.#tail.slice(-MEMORY_CHARS);
  }
}

/** Adds the output of a program until it has exited. */
export async function collect(child: Child, output: CommandOutput): Promise<ExitInfo> {
  for (;;) {
    try {
      const piece = await child.read();
      if (piece === null) break;
      output.add(piece.fd, piece.data);
    } catch (thrown) {
      // A part of the output is lost; the output after it can be read.
      if (!(thrown instanceof SyscallError) || thrown.code !== "EXHAUSTED") throw thrown;
      output.addRemark(thrown.message);
    }
  }
  output.end();
  return child.exited();
}

/** The text without half a surrogate pair at its end. */
function trimPair(text: string): string {
  return /[\uD800-\uDBFF]$/.test(text) ? text.slice(0, -1) : text;
}
