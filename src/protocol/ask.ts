/** Questions of runs to a person, as clients see them. */

import type { AskAnswer, AskedCall, AskQuestion, AskVerdict, OpenAsk } from "../run/ask-schema.ts";

export type { AskAnswer, AskedCall, AskQuestion, AskVerdict };

/** An open question, without an answer. `answer_user {request_id, answers[]}` takes one for each of `questions`. */
export interface AskUser extends Omit<OpenAsk, "id" | "answers" | "answered_by"> {
  request_id: string;
  /** The process that asks: the run that the client follows, or one below it. */
  pid: number;
  uuid: string;
  agent: string;
  /** 0 for a run that no run has spawned. */
  depth: number;
  intent: string;
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
  /** null: the question has none. */
  verdict: AskVerdict["verdict"] | null;
  /** The run was suspended, and waits for the answer. */
  parked?: true;
  by: AskVerdict["by"] | null;
  via?: string;
  text?: string;
}
