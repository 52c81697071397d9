/** Formats the instants and triggers of jobs for people. */

import { localZone } from "../../lib/time-zone.ts";
import type { JobTrigger } from "../../plugin/index.ts";
import { formatElapsed } from "../output/format.ts";

const DAY_MS = 86_400_000;

/** The wall clock of a zone at this time: `2027-01-05 09:00:00`. */
export function wallTime(ms: number, tz: string): string {
  return new Intl.DateTimeFormat("sv-SE", {
    timeZone: tz,
    dateStyle: "short",
    timeStyle: "medium",
  }).format(ms);
}

/** `Mon 2027-01-05 09:00`, with seconds only where there are some. */
export function instantText(iso: string, tz: string): string {
  const ms = Date.parse(iso);
  const day = new Intl.DateTimeFormat("en-GB", { timeZone: tz, weekday: "short" }).format(ms);
  return `${day} ${wallTime(ms, tz).replace(/:00$/, "")}`;
}

/** A time near now for a narrow column: `14:05`, `Mon 03:00`, `2027-01-05`. */
export function shortTime(iso: string, now: number): string {
  const ms = Date.parse(iso);
  const tz = localZone();
  const wall = wallTime(ms, tz);
  const clock = wall.slice(11, 16);
  if (wall.slice(0, 10) === wallTime(now, tz).slice(0, 10)) return clock;
  const day = new Intl.DateTimeFormat("en-GB", { timeZone: tz, weekday: "short" }).format(ms);
  if (Math.abs(ms - now) < 6 * DAY_MS) return `${day} ${clock}`;
  return wall.slice(0, 10);
}

/** `in 3h02m`, or `12m05s ago`. */
export function distance(iso: string, now: number): string {
  const ms = Date.parse(iso) - now;
  return ms >= 0 ? `in ${formatElapsed(ms)}` : `${formatElapsed(-ms)} ago`;
}

/** A trigger as it is given to `rnix cron add`. */
export function triggerText(trigger: JobTrigger): string {
  if ("cron" in trigger) return trigger.cron;
  if ("every" in trigger) return `@every ${trigger.every}`;
  if ("at" in trigger) return `at ${trigger.at}`;
  if ("on_change" in trigger) return `on change of ${trigger.on_change.join(", ")}`;
  if ("on_idle" in trigger) return `after ${trigger.on_idle} idle`;
  if ("on_hook" in trigger) return `on hook ${trigger.on_hook}`;
  const on = trigger.on === undefined || trigger.on === "success" ? "" : ` (${trigger.on})`;
  return `after ${trigger.after}${on}`;
}

/** The zone that a trigger's times are in. */
export function zoneOf(trigger: JobTrigger): string {
  return ("tz" in trigger ? trigger.tz : undefined) ?? localZone();
}
