/** Shows only the end of a run: its answer on stdout, its failures on stderr. */

import type { Receipt, StreamEvent } from "../../protocol/methods.ts";
import type { Io } from "../io.ts";
import { endLines } from "./end.ts";
import { printable } from "./format.ts";
import type { RunOutput } from "./run-output.ts";
import { type Style, styleOf } from "./style.ts";

/** Without progress, where the answer is not streamed either: it needs no state of the run. */
export class QuietView implements RunOutput {
  readonly io: Io;
  protected readonly style: Style;
  readonly left = new Promise<null>(() => {});
  /** What the command that resumes the run needs. */
  readonly #resumeFlags: readonly string[] | undefined;
  /** The answer goes to stdout as text; else stdout belongs to JSON. */
  readonly #printsAnswer: boolean;

  constructor(io: Io, o: { answer: boolean; resumeFlags?: readonly string[] }) {
    this.io = io;
    this.style = styleOf(io, io.stderr);
    this.#resumeFlags = o.resumeFlags;
    this.#printsAnswer = o.answer;
  }

  show(event: StreamEvent): void {
    if (event.type === "complete") this.end(event.payload, { isQuiet: true, isShown: false });
  }

  /** Prints the end. `isShown`: the answer was printed as it arrived. */
  protected end(receipt: Receipt, { isQuiet, isShown }: { isQuiet: boolean; isShown: boolean }): void {
    const result = receipt.result ?? "";
    if (this.#printsAnswer && !isShown && result !== "") {
      const { stdout } = this.io;
      const text = stdout.isTTY ? printable(result) : result;
      stdout.write(text.endsWith("\n") ? text : `${text}\n`);
    }
    for (const { text, isProgress } of endLines(receipt, this.style, this.#resumeFlags))
      if (!isProgress || !isQuiet) this.say(text);
  }

  say(line: string): void {
    this.io.stderr.write(`${line}\n`);
  }

  notice(_text: string): void {}

  warn(notice: string): void {
    this.say(this.style.yellow(`note: ${notice}`));
  }

  listen(): void {}

  async close(): Promise<void> {}
}
