import { SyscallError } from "rnix/plugin";

/** Characters of one line: a tool's whole result stands in one. */
const LONGEST = 64 * 1024 * 1024;

/** Cuts what a program prints into lines. */
export class Lines {
  readonly #decoder = new TextDecoder();
  #parts: string[] = [];
  #length = 0;

  /** The lines that this piece ends. DRIVER for one that is too long. */
  add(data: Uint8Array): string[] {
    const [first = "", ...more] = this.#decoder.decode(data, { stream: true }).split("\n");
    this.#parts.push(first);
    this.#length += first.length;
    if (this.#length > LONGEST) {
      throw new SyscallError("DRIVER", `The CLI printed a line of more than ${LONGEST} characters.`, {
        retryable: false,
      });
    }
    if (more.length === 0) return [];
    const rest = more.pop() ?? "";
    const lines = [this.#parts.join(""), ...more];
    this.#parts = [rest];
    this.#length = rest.length;
    return lines.filter((line) => line.trim() !== "");
  }

  /** A last line that nothing ended. */
  end(): string[] {
    const line = this.#parts.join("") + this.#decoder.decode();
    this.#parts = [];
    return line.trim() === "" ? [] : [line];
  }
}

/** A line that is no JSON is none of the protocol: a warning of the runtime, say. */
export function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (thrown) {
    if (thrown instanceof SyntaxError) return undefined;
    throw thrown;
  }
}
