/** Questions of runs to a person, as clients see them. */

import type { AskAnswer, AskedCall, AskQuestion, AskVerdict } from "../run/ask-schema.ts";

export type { AskAnswer, AskedCall, AskQuestion, AskVerdict };

/** One open question of a run. `answer_user {request_id, answers[]}` answers it, with one answer for each of `questions`. */
export interface AskUser {
  request_id: string;
  /** `permission`: whether a tool call may be made. `question`: the model asks. */
  kind: "permission" | "question";
  /** The process that asks: the run that the client follows, or one below it. */
  pid: number;
  uuid: string;
  agent: string;
  /** 0 for a run that no run has spawned. */
  depth: number;
  intent: string;
  step: number;
  /** The tool call that waits; null for a call that no step has. */
  call_id: string | null;
  asked_at_ms: number;
  /** When its time is over, and `--on-ask` decides; null: it waits as long as a client of the conversation is attached. */
  until_ms: number | null;
  /** The tool call of a permission; else null. */
  call: AskedCall | null;
  questions: AskQuestion[];
}

/** A question that waits for an answer, with its project. */
export interface ListedAsk extends AskUser {
  /** `live`: the run waits for it now. `suspended`: the answer resumes the run. */
  state: "live" | "suspended";
  project: string;
}

/** A question is over. */
export interface AskClosed {
  pid: number;
  uuid: string;
  request_id: string;
  /** null: it has none. */
  verdict: AskVerdict["verdict"] | null;
  /** The run was suspended, and waits for the answer. */
  parked?: true;
  by: AskVerdict["by"] | null;
  via?: string;
  text?: string;
}
