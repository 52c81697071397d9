/** The changes of a run's state, which its process record holds. */

import type { ProcInfo, StateEvent } from "./schema.ts";

/** Changes that a record holds: the latest ones. */
const MAX_STATES = 100;

/** Returns the states with that of `info`, if it is another one. `next`: takes a number. */
export function withState(
  states: readonly StateEvent[],
  info: ProcInfo,
  next: () => number,
): readonly StateEvent[] {
  const last = states.at(-1);
  const state = stateOf(info, last);
  if (last?.pid === info.pid && (last.state === state || (state === "continued" && last.state !== "paused")))
    return states;
  const { pid, created_at_ms, ended_at_ms } = info;
  const at = state === "made" ? created_at_ms : (ended_at_ms ?? Date.now());
  return [...states, { n: next(), ts: new Date(at).toISOString(), t: "state" as const, state, pid }].slice(
    -MAX_STATES,
  );
}

function stateOf(info: ProcInfo, last: StateEvent | undefined): StateEvent["state"] {
  if (info.state === "suspended") return "suspended";
  if (info.ended_at_ms !== null) return "ended";
  if (info.is_paused) return "paused";
  if (last === undefined) return "made";
  return last.pid === info.pid ? "continued" : "resumed";
}
