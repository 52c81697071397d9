/** What is drawn below the run: waiting messages, the input line or a list, sub-agents, and a hint. */

import type { TerminalSize } from "../io.ts";
import type { InputLine } from "../terminal/input-line.ts";
import { cutTo, type Look } from "../terminal/look.ts";
import type { Frame } from "../terminal/screen.ts";
import type { WaitingMessage } from "./outbox.ts";

const MAX_WAITING = 4;

interface BelowParts {
  line: InputLine;
  /** Shown in the place of the input line. */
  list?(columns: number): string[] | null;
  waiting(): readonly WaitingMessage[];
  agents?(columns: number): string[];
  /** The answer to an aside, while it is asked. */
  aside?(columns: number): string[];
  /** The mode, which is shown also while a question takes the place of the line. */
  mode?(): string;
  /** One line at the bottom, behind the mode. */
  hint(): string;
  placeholder?(): string;
}

export class BelowLine {
  readonly #parts: BelowParts;
  readonly #look: Look;

  constructor(parts: BelowParts, look: Look) {
    this.#parts = parts;
    this.#look = look;
  }

  frame({ columns, rows }: TerminalSize): Frame {
    const look = this.#look;
    const parts = this.#parts;
    const above = [...(parts.aside?.(columns) ?? []), ...this.#waiting(columns)];
    const rule = look.dim(look.mark.rule.repeat(columns));
    const under = [...(parts.agents?.(columns) ?? []), ...this.#bottom(columns, parts.hint())];
    const list = parts.list?.(columns);
    if (list) return { lines: [...above, rule, ...list, ...under].slice(-rows) };
    const { lines, cursor } = parts.line.view(columns);
    const placeholder = parts.placeholder?.() ?? "";
    if (parts.line.isEmpty && placeholder !== "")
      lines[0] = `${lines[0]} ${look.dim(cutTo(placeholder, columns - 3, look))}`.replace(/ {2}/, " ");
    // The input line stays visible; everything else is cut first.
    const room = Math.max(0, rows - lines.length - 1);
    const kept = under.slice(0, room);
    const top = room - kept.length > 0 ? above.slice(-(room - kept.length)) : [];
    return {
      lines: [...top, rule, ...lines, ...kept],
      cursor: { row: top.length + 1 + cursor.row, column: cursor.column },
    };
  }

  /** What stays below a question that takes the place of the input line. */
  foot(columns: number): string[] {
    return [...this.#waiting(columns), ...this.#bottom(columns, "")];
  }

  #bottom(columns: number, hint: string): string[] {
    const text = [this.#parts.mode?.() ?? "", hint].filter(Boolean).join("  ");
    return text === "" ? [] : [this.#look.dim(cutTo(`  ${text}`, columns, this.#look))];
  }

  #waiting(columns: number): string[] {
    const look = this.#look;
    const waiting = this.#parts.waiting();
    if (waiting.length === 0) return [];
    const lines = waiting.slice(-MAX_WAITING).map(({ shown, when }) => {
      const label = when === "next_step" ? "next step" : "after this answer";
      const [first = "", ...more] = shown.split("\n");
      const text = more.length === 0 ? first : `${first} … +${more.length} lines`;
      return look.dim(cutTo(`${look.mark.lastBranch} ${label}: ${text}`, columns, look));
    });
    const hidden = waiting.length - MAX_WAITING;
    const count = hidden > 0 ? [look.dim(`  ${hidden} more wait`)] : [];
    return [...count, ...lines];
  }
}
