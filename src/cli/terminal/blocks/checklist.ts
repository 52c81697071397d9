/** The list that a plugin shows while a run works, such as its tasks: one line for each item. */

import type { ChecklistItem } from "../../../plugin/index.ts";
import { printable } from "../../output/format.ts";
import { cutTo, type Look } from "../look.ts";

/** At most `rows` lines. Of a long list, finished items are left out first, then the last ones. */
export function checklistLines(
  items: readonly ChecklistItem[],
  { columns, rows }: { columns: number; rows: number },
  look: Look,
): string[] {
  const open = items.filter(isOpen);
  if (open.length === 0 || rows < 1) return [];
  if (items.length <= rows) return items.map((item) => itemLine(item, columns, look));
  const closed = items.length - open.length;
  const head = closed > 0 && rows > 1 ? [look.dim(`  ${look.mark.done} ${closed} done`)] : [];
  const room = rows - head.length;
  const active = [
    ...open.filter(({ state }) => state === "active"),
    ...open.filter(({ state }) => state === "open"),
  ];
  const kept = new Set(active.slice(0, open.length > room && room > 1 ? room - 1 : room));
  const hidden = open.length - kept.size;
  const more = hidden > 0 && room > 1 ? [look.dim(`  ${look.mark.ellipsis} ${hidden} more`)] : [];
  const shown = open.filter((item) => kept.has(item));
  return [...head, ...shown.map((item) => itemLine(item, columns, look)), ...more];
}

function isOpen({ state }: ChecklistItem): boolean {
  return state === "open" || state === "active";
}

function itemLine({ text, state, note }: ChecklistItem, columns: number, look: Look): string {
  const words = printable(text);
  const added = note === undefined ? "" : look.dim(`  ${printable(note)}`);
  const line = {
    open: `${look.mark.waiting} ${words}`,
    active: `${look.cyan(look.mark.message)} ${look.bold(words)}`,
    done: look.dim(`${look.mark.done} ${words}`),
    dropped: look.dim(`${look.mark.failed} ${words}`),
  }[state];
  return cutTo(`  ${line}${added}`, columns, look);
}
