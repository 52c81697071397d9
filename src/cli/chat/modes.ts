/** The mode of a conversation: the command /ask, its cycle by Shift+Tab, and the question that ends a plan. */

import { ASK_MODES, type AskMode, MODE_ABOUTS } from "../../lib/ask-modes.ts";
import type { AskUser } from "../../protocol/methods.ts";
import type { ProgressPayload } from "../../protocol/stream.ts";
import { usageError } from "../exit.ts";
import type { RunState } from "../transcript/run-state.ts";
import type { ChatActions } from "./actions.ts";
import type { Link } from "./link.ts";

/** From the strictest to the laxest, as Shift+Tab goes through them. */
const CYCLE: readonly AskMode[] = ASK_MODES.toReversed();

/** The id of the question about a plan, which is this terminal's own. */
export const PLAN_QUESTION = "plan";
/** The message to the model when its plan is accepted. */
export const CARRY_OUT = "I accept the plan. Carry it out.";

export async function ask(chat: ChatActions, name: string): Promise<void> {
  const named = CYCLE.find((mode) => mode === name);
  if (name !== "" && named === undefined)
    throw usageError(`there is no mode ${JSON.stringify(name)}: expected ${CYCLE.join(", ")}`);
  const choices = CYCLE.map((mode) => ({
    value: mode,
    label: mode,
    about: `${mode === chat.mode ? "in use: " : ""}${MODE_ABOUTS[mode]}`,
  }));
  const mode = named ?? (await chat.pick("Which mode?", choices));
  if (mode === null) return;
  const now = await chat.setMode(mode);
  const above = now === mode ? "" : `; its parent's mode counts, not ${mode}`;
  chat.print(`mode ${now}: ${MODE_ABOUTS[now]}${above}`);
}

export async function modeValues(): Promise<{ value: string; about: string }[]> {
  return CYCLE.map((value) => ({ value, about: MODE_ABOUTS[value] }));
}

export function modeAfter(mode: AskMode): AskMode {
  return CYCLE[(CYCLE.indexOf(mode) + 1) % CYCLE.length] ?? mode;
}

/** Changes the mode of a live run. It is shown at once, so that the next Shift+Tab continues from it. */
export async function changeMode(
  { uuid, state }: { uuid: string; state: Pick<RunState, "mode"> },
  link: Link,
  mode: AskMode,
): Promise<AskMode> {
  const before = state.mode;
  state.mode = mode;
  try {
    state.mode = (await link.request("set_mode", { uuid, mode })).mode;
    return state.mode;
  } catch (error) {
    state.mode = before;
    throw error;
  }
}

type Head = Extract<ProgressPayload, { event: "spawn" }>;

export function planQuestion({ pid, uuid, agent, intent }: Head, now: number): AskUser {
  const accepted = (["edits", "outside"] as const).map((mode) => ({
    id: mode,
    label: `Yes, in the mode ${mode}`,
    about: MODE_ABOUTS[mode],
  }));
  return {
    request_id: PLAN_QUESTION,
    kind: "question",
    pid,
    uuid,
    agent,
    depth: 0,
    intent,
    step: 0,
    call_id: null,
    asked_at_ms: now,
    until_ms: null,
    call: null,
    questions: [{ question: "Carry out this plan?", options: accepted, multi: false, text: true }],
  };
}
