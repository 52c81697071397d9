/** Shows a run of the agent shell: what it prints on stdout, its notes on stderr, and nothing else. */

import type { StreamEvent } from "../../protocol/methods.ts";
import { EXIT } from "../exit.ts";
import type { Io } from "../io.ts";
import { printable } from "../output/format.ts";
import { QuietView } from "../output/quiet-view.ts";

export class ShellView extends QuietView {
  #printed = "";

  constructor(io: Io) {
    super(io, { answer: true });
  }

  override show(event: StreamEvent): void {
    if (event.type === "text_delta") this.#print(event.payload.text);
    else if (event.type === "progress" && event.payload.event === "notice") this.say(event.payload.text);
    else if (event.type === "complete") {
      const { result, exit_code } = event.payload;
      // Of much output, a slow reader may have missed some.
      if (result?.startsWith(this.#printed)) this.#print(result.slice(this.#printed.length));
      // With a result the script has chosen its exit code itself.
      if (result === null && exit_code !== EXIT.ok) this.end(event.payload, { isQuiet: true, isShown: true });
    }
  }

  override say(text: string): void {
    const { stderr } = this.io;
    stderr.write(`${stderr.isTTY ? printable(text) : text}\n`);
  }

  #print(text: string): void {
    const { stdout } = this.io;
    this.#printed += text;
    stdout.write(stdout.isTTY ? printable(text) : text);
  }
}
