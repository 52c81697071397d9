/** Formats what a process does now. */

import type { Activity } from "../../protocol/methods.ts";
import { formatElapsed } from "./format.ts";
import type { Style } from "./style.ts";

/** "Bash npm test · 12s", "waiting for the rate limit of openai · 40s left". */
export function doingText({ text, since_ms, until_ms }: Activity, now: number, style: Style): string {
  const time = until_ms === null ? seconds(now - since_ms) : `${seconds(until_ms - now)} left`;
  return `${text}${style.glyph.dot}${time}`;
}

/** Whole seconds: parts of one are over before they are read. */
function seconds(ms: number): string {
  const whole = Math.max(0, Math.floor(ms / 1000));
  return whole < 60 ? `${whole}s` : formatElapsed(whole * 1000);
}
