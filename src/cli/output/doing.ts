/** Formats what a process does now. */

import type { Activity } from "../../protocol/methods.ts";
import { formatSeconds } from "./format.ts";
import type { Style } from "./style.ts";

/** "Bash npm test · 12s", "waiting for the rate limit of openai · 40s left". */
export function doingText({ text, since_ms, until_ms }: Activity, now: number, style: Style): string {
  const time = until_ms === null ? formatSeconds(now - since_ms) : `${formatSeconds(until_ms - now)} left`;
  return `${text}${style.glyph.dot}${time}`;
}
