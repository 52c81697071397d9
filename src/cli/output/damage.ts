import { damagedFileText } from "../../lib/damage-text.ts";
import type { DamagedLines, StreamEvent } from "../../protocol/methods.ts";

/** What of a run's records was left out because it can't be read. */
export function damageText(damaged: readonly DamagedLines[]): string {
  return damaged.map((lost) => `${lost.file}: ${damagedFileText(lost)}\n`).join("");
}

/** What the end of a stream tells of what is missing in it. */
export function endText(payload: Eof, what: string): string {
  const { dropped = 0, damaged = [] } = payload ?? {};
  const slow = dropped > 0 ? `${dropped} ${what} were dropped: this terminal was too slow\n` : "";
  return `${slow}${damageText(damaged)}`;
}

type Eof = Extract<StreamEvent, { type: "eof" }>["payload"];
