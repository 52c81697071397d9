/** An open file of an MCP server. */

import { type Data, type FileStat, SyscallError, type VFSFile } from "rnix/plugin";

/** What one open file does: on a read without a write before it, and on a write. */
export interface Operation {
  name: string;
  read?(signal: AbortSignal): Promise<string>;
  write?(input: Record<string, unknown>, signal: AbortSignal): Promise<string>;
}

/** An open file of a server: one operation, whose answer is read in pieces. */
export class AnswerFile implements VFSFile {
  readonly #operation: Operation;
  #answer: string | undefined;

  constructor(operation: Operation) {
    this.#operation = operation;
  }

  async write(data: Data, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const { name, write } = this.#operation;
    if (!write) throw new SyscallError("PERMISSION", `${name} can only be read.`);
    this.#answer = await write(parsed(name, data), signal);
  }

  async read(max: number, signal: AbortSignal): Promise<string> {
    signal.throwIfAborted();
    const { name, read } = this.#operation;
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
    return { name: this.#operation.name, size: 0, isDevice: true, devicePath: this.#operation.name };
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
