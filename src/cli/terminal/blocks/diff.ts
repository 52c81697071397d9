/** The diff of an edit, from the result of Edit: lines with their numbers, in red and green. */

import { cutTo, type Look, plainLines } from "../look.ts";

export interface DiffLine {
  mark: "+" | "-" | " " | "…";
  /** The line's number in the file: in the new one, except of a removed line. */
  number: number | null;
  text: string;
}

/** The lines of the unified diff in a result; null if it holds none. */
export function editDiff(result: string): DiffLine[] | null {
  const lines: DiffLine[] = [];
  let before = 0;
  let after = 0;
  for (const line of plainLines(result)) {
    const head = /^@@ -(\d+),\d+ \+(\d+),\d+ @@/.exec(line);
    if (head) {
      if (lines.length > 0) lines.push({ mark: "…", number: null, text: "" });
      before = Number(head[1]);
      after = Number(head[2]);
    } else if (before > 0 || after > 0) {
      const text = line.slice(1);
      const left = /^\[… (\d+) more lines\]$/.exec(text);
      if (left || line.startsWith("[…")) {
        lines.push({ mark: "…", number: null, text: left ? text.slice(1, -1) : line.slice(1, -1) });
        if (left && line[0] !== "+") before += Number(left[1]);
        if (left && line[0] !== "-") after += Number(left[1]);
      } else if (line[0] === "-") lines.push({ mark: "-", number: before++, text });
      else if (line[0] === "+") lines.push({ mark: "+", number: after++, text });
      else {
        before++;
        lines.push({ mark: " ", number: after++, text });
      }
    }
  }
  return lines.length === 0 ? null : lines;
}

/** Each line cut to `width` columns: number, mark, text. */
export function diffLines(lines: readonly DiffLine[], width: number, look: Look): string[] {
  const digits = Math.max(2, ...lines.map(({ number }) => String(number ?? "").length));
  return lines.map(({ mark, number, text }) => {
    if (mark === "…")
      return look.dim(`${" ".repeat(digits)} ${look.mark.ellipsis} ${text.replace(/^… /, "")}`.trimEnd());
    const at = String(number ?? "").padStart(digits);
    const shown = `${mark} ${cutTo(text, width - digits - 3, look)}`.trimEnd();
    if (mark === " ") return look.dim(`${at} ${shown}`.trimEnd());
    return `${look.dim(at)} ${mark === "+" ? look.green(shown) : look.red(shown)}`;
  });
}
