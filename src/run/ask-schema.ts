/** The schemas of a question to a person, and of its answer, as they are in a run's records. */

import { z } from "zod";

/** One choice that a person has. */
const AskOption = z.object({ id: z.string(), label: z.string(), about: z.string().optional() });

/** One question. A request may hold several; each has one answer. */
export const AskQuestion = z.lazy(() =>
  z.object({
    question: z.string(),
    header: z.string().optional(),
    options: z.array(AskOption),
    /** Several options may be chosen. */
    multi: z.boolean(),
    /** A text may come with the choice, or in its place. */
    text: z.boolean(),
    /** The ids that count when no answer comes in time. Absent: no answer. */
    default: z.array(z.string()).optional(),
    /** The text that counts then, of a question without options. */
    default_text: z.string().optional(),
  }),
);

/** The answer to one question: ids of options, and a text. Neither: a question of the model's that the user skipped. */
export const AskAnswer = z.lazy(() =>
  z.object({
    choices: z.array(z.string()).max(100),
    text: z.string().max(20_000).optional(),
    /** With "always": the rules that the person has written in place of those that were offered. */
    rules: z.array(z.string().min(1).max(1_000)).min(1).max(20).optional(),
  }),
);

/** The tool call that needs a person's yes. */
const AskedCall = z.lazy(() =>
  z.object({
    tool: z.string().nullable(),
    path: z.string(),
    /** The field of the input that rules are about, such as a command line; for other tools the whole input. */
    subject: z.string(),
    input: z.record(z.string(), z.unknown()),
    /** The characters of an input that was too long to be kept: `input` is empty. */
    input_chars: z.number().optional(),
    /** The file that was opened, when it is not the one that the call names. */
    opened: z.string().optional(),
    /** The ask rules that match. */
    rules: z.array(z.string()),
    /** Why it is asked: clauses that follow "asked because". Absent in older records. */
    why: z.array(z.string()).optional(),
    /** The model's own reason, if the call has one. */
    reason: z.string().optional(),
    /** The folder that a yes opens to the run, which is outside of its project. */
    opens: z.object({ dir: z.string(), write: z.boolean() }).optional(),
    /** The rules that "always" would allow. Empty: it can't be offered. */
    always: z.array(z.string()),
  }),
);

/** A question of a run that has no verdict yet. It is in the process record while it is open. */
export const OpenAsk = z.lazy(() =>
  z.object({
    id: z.string(),
    kind: z.enum(["permission", "question"]),
    step: z.number(),
    /** The tool call that waits; null for a call that no step has. */
    call_id: z.string().nullable(),
    asked_at_ms: z.number(),
    /** When its time is over; null: it waits as long as a client of the conversation is attached. */
    until_ms: z.number().nullable(),
    call: AskedCall.nullable(),
    questions: z.array(AskQuestion),
    /** Given while the run was suspended, and taken when it resumes. */
    answers: z.array(AskAnswer).optional(),
    answered_by: z.string().optional(),
  }),
);

/** The verdict of one question, in the record of its tool call. */
export const AskVerdict = z.lazy(() =>
  z.object({
    id: z.string(),
    verdict: z.enum(["yes", "always", "always_project", "no", "answered"]),
    /** Who gave it: the user, `--on-ask`, or the end of the time for an answer. */
    by: z.enum(["user", "on_ask", "expiry", "rule"]),
    /** How the user answered: "terminal", "rnix answer". With `rule`: the rule that an answer to another question allowed. */
    via: z.string().optional(),
    /** The command line, path or input that it is about, shortened. */
    what: z.string(),
    /** The ask rules that matched. */
    rules: z.array(z.string()),
    /** Why it was asked: clauses that follow "because". */
    why: z.array(z.string()).optional(),
    /** The rules that an "always" has allowed. */
    allowed: z.array(z.string()).optional(),
    /** The reason of a no, the instruction that came with a yes, or the answers to the model's questions. */
    text: z.string().optional(),
    /** Of the model's questions: one for each of them. */
    answers: z.array(AskAnswer).optional(),
    asked_at: z.string(),
    waited_ms: z.number(),
  }),
);

export type AskQuestion = z.infer<typeof AskQuestion>;
export type AskAnswer = z.infer<typeof AskAnswer>;
export type AskedCall = z.infer<typeof AskedCall>;
export type OpenAsk = z.infer<typeof OpenAsk>;
export type AskVerdict = z.infer<typeof AskVerdict>;
