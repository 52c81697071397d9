/** The end of a past conversation, in short: what was asked and what was answered. */

import { plural } from "../output/format.ts";
import { type Look, plainLines, wrapTo } from "../terminal/look.ts";
import { renderMarkdown } from "../terminal/markdown.ts";
import { messageText } from "../transcript/inbox-blocks.ts";
import type { LogEntry } from "../transcript/transcript.ts";
import { withoutAttachments } from "./outbox.ts";

/** Turns that are shown; the earlier ones are counted. */
const SHOWN_TURNS = 20;
const ASKED_LINES = 4;
const ANSWER_LINES = 12;
/** The last answer is what the user continues from. */
const LAST_ANSWER_LINES = 30;

interface Turn {
  asked: string;
  calls: number;
  answer: string;
}

export class PastTurns {
  #turns: Turn[] = [];
  #count = 0;

  take({ kind, text }: LogEntry): void {
    const asked = kind === "inbox" ? messageText(text) : "";
    if (asked !== "") {
      this.#count++;
      this.#turns.push({ asked: withoutAttachments(asked), calls: 0, answer: "" });
      this.#turns = this.#turns.slice(-SHOWN_TURNS);
    }
    const turn = this.#turns.at(-1);
    if (turn === undefined) return;
    if (kind === "tool") turn.calls++;
    if (kind === "text" && text.trim() !== "") turn.answer = text;
  }

  get isEmpty(): boolean {
    return this.#count === 0;
  }

  lines(columns: number, look: Look): string[] {
    const earlier = this.#count - this.#turns.length;
    const lines =
      earlier === 0
        ? []
        : [look.dim(`${look.mark.ellipsis} ${plural(earlier, "earlier message")}: rnix log shows all of it`)];
    for (const [at, { asked, calls, answer }] of this.#turns.entries()) {
      const isLast = at === this.#turns.length - 1;
      lines.push(
        "",
        ...cutLines(wrapTo(plainLines(asked).join("\n"), columns - 2), ASKED_LINES, look).map(
          (line, row) => `${row === 0 ? look.cyan(look.mark.message) : " "} ${line}`,
        ),
      );
      if (calls > 0) lines.push(look.dim(`  ${plural(calls, "tool call")}`));
      if (answer !== "")
        lines.push(
          "",
          ...cutLines(renderMarkdown(answer, columns, look), isLast ? LAST_ANSWER_LINES : ANSWER_LINES, look),
        );
    }
    return lines;
  }
}

function cutLines(lines: string[], most: number, look: Look): string[] {
  if (lines.length <= most + 1) return lines;
  return [...lines.slice(0, most), look.dim(`${look.mark.ellipsis} ${lines.length - most} more lines`)];
}
