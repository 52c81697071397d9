/** The open file of /dev/fs, which runs the operations of the file tools. */

import {
  type Data,
  type FileStat,
  O_RDONLY,
  O_WRONLY,
  type OpenContext,
  type OpenFlag,
  SyscallError,
  type VFSFile,
} from "rnix/plugin";
import { edit } from "./edit/edit.ts";
import { throwIfAborted } from "./errors.ts";
import { parseOperation } from "./operations.ts";
import { Confinement } from "./paths/confinement.ts";
import { read } from "./read.ts";
import { glob } from "./search/glob.ts";
import { grep } from "./search/grep.ts";
import { write } from "./write.ts";

/** An open /dev/fs: a write runs one operation, and reads return its answer. */
export class OperationFile implements VFSFile {
  readonly #flags: OpenFlag;
  readonly #context: OpenContext;
  readonly #confinement: Confinement;
  #answer: string | undefined;
  #at = 0;

  constructor(flags: OpenFlag, context: OpenContext) {
    this.#flags = flags;
    this.#context = context;
    this.#confinement = new Confinement(context);
  }

  async write(data: Data, signal: AbortSignal): Promise<void> {
    if (this.#flags === O_RDONLY) {
      throw new SyscallError(
        "PERMISSION",
        "/dev/fs is open for reading only: an operation can't be written.",
      );
    }
    throwIfAborted(signal);
    this.#answer = undefined;
    this.#at = 0;
    this.#answer = await this.#run(typeof data === "string" ? data : new TextDecoder().decode(data), signal);
  }

  async read(max: number): Promise<Data> {
    if (this.#flags === O_WRONLY) {
      throw new SyscallError("PERMISSION", "/dev/fs is open for writing only: the answer can't be read.");
    }
    if (this.#answer === undefined) {
      throw new SyscallError(
        "INVALID",
        '/dev/fs: write an operation first, like {"op":"read","path":"README.md"}. /dev/fs/<path> is a file itself.',
      );
    }
    const piece = this.#answer.slice(this.#at, this.#at + max);
    this.#at += piece.length;
    return piece;
  }

  async close(): Promise<void> {
    this.#answer = undefined;
  }

  async stat(): Promise<FileStat> {
    return { name: "fs", size: this.#answer?.length ?? 0, isDevice: true, devicePath: "/dev/fs" };
  }

  #run(text: string, signal: AbortSignal): Promise<string> {
    const operation = parseOperation(text);
    switch (operation.op) {
      case "read":
        return read(this.#confinement, operation, signal);
      case "write":
        return write(this.#confinement, this.#context, operation, signal);
      case "edit":
        return edit(this.#confinement, this.#context, operation, signal);
      case "glob":
        return glob(this.#confinement, this.#context, operation, signal);
      case "grep":
        return grep(this.#confinement, this.#context, operation, signal);
    }
  }
}
