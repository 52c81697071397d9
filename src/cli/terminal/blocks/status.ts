/** The bottom of the live view: what the run does now, and the footer with its use of tokens, money, window and time. */

import { callLine } from "../../output/call-text.ts";
import {
  formatCost,
  formatCount,
  formatElapsed,
  formatSeconds,
  oneLine,
  plural,
} from "../../output/format.ts";
import { runningMs } from "../../transcript/call-block.ts";
import type { RunState } from "../../transcript/run-state.ts";
import type { CallBlock } from "../../transcript/transcript.ts";
import { cutTo, type Look, plainLines, spinnerAt, wrapTo } from "../look.ts";

interface Place {
  columns: number;
  now: number;
  /** Keys that the user may not know, on the right if there is room. */
  hints: readonly string[];
  /** The running calls have lines of their own. */
  showsCalls: boolean;
}

/** What the run does now, with a spinner and the time it has taken so far. */
export function statusLines(state: RunState, place: Place, look: Look): string[] {
  if (state.retry !== null) return retryLines(state.retry, place, look);
  const { columns, now } = place;
  const { text, sinceMs, untilMs, isStill } = doing(state, place, look);
  const clock = [
    ...(now - sinceMs < 1000 ? [] : [formatSeconds(now - sinceMs)]),
    ...(untilMs === null || untilMs <= now ? [] : [`${formatSeconds(untilMs - now + 999)} left`]),
  ].map((part) => `${look.glyph.dot}${part}`);
  const room = columns - 2 - Bun.stringWidth(clock.join(""));
  const mark = isStill ? look.yellow(look.mark.waiting) : look.cyan(spinnerAt(look, now));
  const shown = cutTo(oneLine(text, room), room, look);
  const left = `${mark} ${isStill ? look.yellow(shown) : shown}${look.dim(clock.join(""))}`;
  return [left + hint(place, Bun.stringWidth(left), look)];
}

function retryLines(retry: NonNullable<RunState["retry"]>, { columns, now }: Place, look: Look): string[] {
  const parts = [
    `attempt ${retry.attempt} failed`,
    now < retry.untilMs ? `next in ${formatSeconds(retry.untilMs - now + 999)}` : "asking again",
    ...(retry.endMs > now + 1000 ? [`gives up in ${formatElapsed(retry.endMs - now)}`] : []),
  ];
  const [reason = ""] = plainLines(retry.message);
  const why = wrapTo(reason, columns - 2).slice(0, 2);
  return [
    `${look.yellow(spinnerAt(look, now))} ${look.yellow(cutTo(parts.join(look.glyph.dot), columns - 2, look))}`,
    ...why.map((line) => look.dim(`  ${line}`)),
  ];
}

interface Doing {
  text: string;
  sinceMs: number;
  untilMs: number | null;
  /** It waits for a person: nothing moves. */
  isStill: boolean;
}

function doing(state: RunState, { now, showsCalls }: Place, look: Look): Doing {
  const { activity, thought, isAnswering, calls } = state;
  const since = activity?.since_ms ?? now;
  if (thought !== null) return moving("thinking", thought.sinceMs);
  if (isAnswering) return moving("answering", since);
  const [first] = calls.values();
  // A program that is the model calls tools while it answers.
  const isWork = activity === null || activity.kind === "tool" || activity.kind === "model";
  if (first !== undefined && showsCalls && isWork) {
    const ran = [...calls.values()].map((call) => runningMs(call, now));
    return moving(callsText([...calls.values()]), now - Math.max(...ran));
  }
  if (activity === null) {
    if (first === undefined)
      return moving(state.head === null ? "starting" : "waiting for the model", state.openedMs);
    return moving(
      calls.size === 1 ? callLine(first.name, first.input, 200, look.cwd) : `${calls.size} calls`,
      now - runningMs(first, now),
    );
  }
  const isStill = ["paused", "input", "ask"].includes(activity.kind);
  return { text: activity.text, sinceMs: since, untilMs: activity.until_ms, isStill };
}

function callsText(calls: readonly CallBlock[]): string {
  const [first] = calls;
  if (calls.length === 1 && first !== undefined) {
    return first.name === "Agent" ? "an agent works" : `running ${first.name}`;
  }
  const agents = calls.filter(({ name }) => name === "Agent").length;
  return agents === calls.length ? `${agents} agents work` : `running ${calls.length} calls`;
}

function moving(text: string, sinceMs: number): Doing {
  return { text, sinceMs, untilMs: null, isStill: false };
}

/** As many of the hints as have room, right-aligned. */
function hint({ columns, hints }: Place, used: number, look: Look): string {
  for (let count = hints.length; count > 0; count--) {
    const text = hints.slice(0, count).join(look.glyph.dot);
    const gap = columns - used - Bun.stringWidth(text);
    if (gap >= 3) return " ".repeat(gap) + look.dim(text);
  }
  return "";
}

/** Agent, model and use on one line; what matters least is left out where the line is too long. */
export function footerLine(
  state: RunState,
  { columns, now, place = "" }: { columns: number; now: number; place?: string },
  look: Look,
): string {
  const { head, step, tokens, costUsd, contextTokens, contextWindow, units } = state;
  if (head === null) return "";
  const share =
    contextTokens === null
      ? ""
      : contextWindow === null
        ? `${formatCount(contextTokens)} in context`
        : `${percent(contextTokens / contextWindow)} of ${formatCount(contextWindow)}`;
  // The larger the number, the sooner the part is left out.
  const parts: [number, string][] = [
    [6, place],
    [5, head.agent],
    [2, head.model],
    [1, units.size === 0 ? "" : plural(units.size, "unit")],
    [4, step === 0 ? "" : `step ${step}`],
    [0, tokens === 0 ? "" : `${formatCount(tokens)} tokens`],
    [1, costUsd === null ? "" : formatCost(costUsd)],
    [1, share],
    [3, formatSeconds(state.elapsedMs(now))],
  ];
  const shown = parts.filter(([, text]) => text !== "");
  const text = (): string => shown.map(([, part]) => oneLine(part, 40)).join(look.glyph.dot);
  while (shown.length > 1 && Bun.stringWidth(text()) > columns - 2) {
    const least = Math.max(...shown.map(([rank]) => rank));
    shown.splice(
      shown.findIndex(([rank]) => rank === least),
      1,
    );
  }
  return look.dim(`  ${cutTo(text(), columns - 2, look)}`);
}

function percent(share: number): string {
  return share > 0 && share < 0.01 ? "<1%" : `${Math.round(share * 100)}%`;
}
