/** Requests that begin a run: spawn, resume and replay. */

import { z } from "zod";
import { OPTION_NAMES, optionsOf } from "../options/option-list.ts";
import { optionSchemas } from "../options/option-schemas.ts";
import { ResendKey, Target, Uuid } from "./fields.ts";

/** What the client says of itself, whichever way the run begins. */
function ofClient() {
  const flag = z.boolean().optional();
  const file = z.object({ dev: z.number(), ino: z.number() });
  return {
    /** Regular files that the client prints to: what it writes there is no change of the run. */
    outputs: z.array(file).max(10).optional(),
    /** Of the run's events, stream only questions, notices and the end. */
    quiet: flag,
    /** A user is at the client's terminal. */
    attended: flag,
  };
}

/** The client's notices about the start of the run, such as a stdin that it did not read to its end. */
function Notices() {
  return z.array(z.string().max(1000)).max(20).optional();
}

export function SpawnRequest() {
  // A schema costs more to build than to use: fields of one kind share theirs.
  const text = z.string().optional();
  const texts = z.array(z.string()).optional();
  const flag = z.boolean().optional();
  return z
    .object({
      ...optionSchemas(OPTION_NAMES),
      /** With `chat` it may be empty: then the run waits for its first message. */
      intent: z.string(),
      /** Instead of a model, this workflow starts agents. Without a source it is a saved one. */
      workflow: z
        .object({
          name: z.string().min(1).max(200),
          source: text,
          args: z.unknown().optional(),
          /** Instead of a script: the nodes of a compose file. */
          graph: z.unknown().optional(),
          /** The source is a script of the agent shell. */
          shell: z.literal(true).optional(),
        })
        .optional(),
      /** Tools that the user has allowed beside the agent's: their calls need no question. */
      unasked: texts,
      /** Absolute. Absent: the parent's folder, else the daemon's folder for runs without one. */
      cwd: text,
      /** The spawner's whole environment: the daemon keeps it in memory only. Absent: the parent's, else the daemon's. */
      env: z.record(z.string(), z.string()).optional(),
      /** Names of the variables given by `--env`. */
      env_given: texts,
      /** Names of variables that reach programs even if they are on no list (`--env NAME` with `base`). */
      env_passed: texts,
      /** Text attached from stdin. */
      input: text,
      /** A part of `input` is text of others: whose. */
      input_origin: text,
      notices: Notices(),
      parent_uuid: Uuid().optional(),
      ...ofClient(),
      /** A conversation: after each answer the run waits for a message (`send_message`) instead of ending. */
      chat: flag,
      /** A user typed `rnix "…"`: the setting `ask` counts as in a conversation. */
      by_hand: flag,
      /** Answer with pid and uuid only: no stream. */
      detach: flag,
    })
    .refine(({ intent, chat }) => intent !== "" || chat === true, {
      path: ["intent"],
      message: "expected a text that is not empty",
    });
}

export type SpawnRequest = z.infer<ReturnType<typeof SpawnRequest>>;

export function ResumeRequest() {
  const flag = z.boolean().optional();
  return Target().extend({
    /** The first message to its model. */
    input: z.string().min(1).optional(),
    /** Text attached to `input` from stdin. */
    attached: z.string().optional(),
    /** Of `input`, as in `send_message`. */
    key: ResendKey().optional(),
    notices: Notices(),
    /** A new run begins with its steps. The run itself may be live and does not change. */
    fork: flag,
    /** A new run begins with the conversation of a foreign run and nothing else of it. The user has agreed. */
    adopt: flag,
    /** With `fork` or `adopt`: the last step to take over. Absent: the last that is recorded. */
    from_step: z.int().positive().optional(),
    /** Limits are those of the whole run, including its earlier usage. Absent: as before. */
    ...optionSchemas(optionsOf("resume"), 1),
    /** The caller's whole environment, for keys. Absent: the run's own if it is still in memory, else the daemon's. */
    env: z.record(z.string(), z.string()).optional(),
    ...ofClient(),
    /** A chat is suspended as soon as it would wait for a message: the caller sends no other. */
    until_answer: flag,
    /** Follow the answer with the events of the run, like a spawn. */
    stream: flag,
  });
}

export type ResumeRequest = z.infer<ReturnType<typeof ResumeRequest>>;

export function ReplayRequest() {
  return Target().extend({
    /** Where its tools are executed, absolute: the run's own folder by default. */
    folder: z.string().optional(),
    /** How results are compared (docs/replay.md). Absent: normalized, without what differs between any two runs. */
    compare: z.enum(["usual", "exact", "state"]).optional(),
    trust: z.boolean().optional(),
    /** The caller's whole environment. Absent: the daemon's. */
    env: z.record(z.string(), z.string()).optional(),
    ...ofClient(),
  });
}

export type ReplayRequest = z.infer<ReturnType<typeof ReplayRequest>>;
