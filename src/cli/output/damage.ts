/** Formats what is missing in a record or a stream. */

import { damagedFileText } from "../../lib/damage-text.ts";
import type { DamagedLines, StreamEvent } from "../../protocol/methods.ts";

/** Which lines of a run's records were left out because they can't be read. */
export function damageText(damaged: readonly DamagedLines[]): string {
  return damaged.map((lost) => `${lost.file}: ${damagedFileText(lost)}\n`).join("");
}

/** What is missing in a stream, as its last event reports it. */
export function endText(payload: Eof, what: string): string {
  const { dropped = 0, damaged = [] } = payload ?? {};
  const slow = dropped > 0 ? `${dropped} ${what} were dropped: this terminal was too slow\n` : "";
  return `${slow}${damageText(damaged)}`;
}

type Eof = Extract<StreamEvent, { type: "eof" }>["payload"];
