import { type Data, type FileStat, SyscallError, type VFSFile } from "rnix/plugin";

/** What one open file does: a read without a write before it, and a write. */
export interface Answers {
  name: string;
  read?(signal: AbortSignal): Promise<string>;
  write?(input: Record<string, unknown>, signal: AbortSignal): Promise<string>;
}

/** An open file below a server: one operation, and its answer in pieces. */
export class AnswerFile implements VFSFile {
  readonly #answers: Answers;
  #answer: string | undefined;

  constructor(answers: Answers) {
    this.#answers = answers;
  }

  async write(data: Data, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const { name, write } = this.#answers;
    if (!write) throw new SyscallError("PERMISSION", `${name} can only be read.`);
    this.#answer = await write(parsed(name, data), signal);
  }

  async read(max: number, signal: AbortSignal): Promise<string> {
    signal.throwIfAborted();
    const { name, read } = this.#answers;
    if (this.#answer === undefined) {
      if (!read) throw new SyscallError("INVALID", `${name}: write its input first, then read the answer.`);
      this.#answer = await read(signal);
    }
    const piece = this.#answer.slice(0, max);
    this.#answer = this.#answer.slice(max);
    return piece;
  }

  async close(): Promise<void> {}

  async stat(): Promise<FileStat> {
    return { name: this.#answers.name, size: 0, isDevice: true, devicePath: this.#answers.name };
  }
}

function parsed(name: string, data: Data): Record<string, unknown> {
  const text = typeof data === "string" ? data : new TextDecoder().decode(data);
  let input: unknown;
  try {
    input = JSON.parse(text);
  } catch (cause) {
    throw new SyscallError("INVALID", `${name}: expected a JSON object, got ${text.slice(0, 100)}`, {
      cause,
    });
  }
  if (typeof input === "object" && input !== null && !Array.isArray(input)) return { ...input };
  throw new SyscallError("INVALID", `${name}: expected a JSON object, got ${text.slice(0, 100)}`);
}
