/** The schemas of steps: steps.jsonl, and step.journal for the open one. */

import { z } from "zod";
import { lazy } from "../lib/caches.ts";
import { SCHEMA_VERSION } from "../lib/schema-version.ts";
import { AskVerdict } from "./ask-schema.ts";
import { KeptFile, Message, Usage } from "./message.ts";
import { NUMBERED } from "./numbered.ts";

/** A result that is stored beside the records, in a file named by its hash (src/store/runs/blob-store.ts). */
const KeptRef = z.object({
  /** Relative to the run's folder. */
  file: KeptFile,
  sha256: z.string(),
  bytes: z.number(),
});

/** The record of one tool call. State `unknown`: it started, and no end was recorded. */
export const ToolCallRecord = z.lazy(() =>
  z.object({
    id: z.string(),
    name: z.string(),
    path: z.string().nullable(),
    input: z.record(z.string(), z.unknown()),
    /** The result as the model sees it. */
    result: z.string().nullable(),
    /** The complete result, when the model sees only a part. */
    kept: KeptRef.optional(),
    error: z.string().nullable(),
    error_code: z.string().nullable(),
    /** Of a command of a shell script. */
    exit_code: z.number().optional(),
    started_at: z.string(),
    duration_ms: z.number(),
    /** How long it waited for a person; `duration_ms` is without it. */
    waited_ms: z.number().optional(),
    state: z.enum(["done", "failed", "denied", "cancelled", "waiting", "unknown"]),
    inbox: z.array(z.number()).optional(),
    /** The questions that a person was asked about it, with their verdicts. */
    asked: z.array(AskVerdict).optional(),
    /** What its driver has asked the run's model (service `llm`). Not part of the step's usage. */
    model_use: z.object({ requests: z.number(), usage: Usage }).optional(),
  }),
);

export const Action = z.enum(["tool_call", "plan", "replan", "spawn", "specialize", "complete", "text"]);

export const ChildResult = z.object({
  uuid: z.string(),
  pid: z.number(),
  agent: z.string(),
  exit_code: z.number().nullable(),
  exit_reason: z.string().nullable(),
  tokens_used: z.number(),
  /** It was interrupted together with its parent: its end is no failure of the parent. */
  interrupted: z.literal(true).optional(),
});

export const ModelRef = z.object({ provider: z.string(), model: z.string() });

/** A permanent switch to another model: the previous one failed, or the user has chosen another. */
export const ModelSwitch = z.object({
  /** The step in which it happened. */
  step: z.number(),
  ts: z.string(),
  from: ModelRef,
  to: ModelRef,
  /** null: the user has chosen it. */
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
});

/** The usage of a run and its children when a step is written. A resumed run starts from these numbers. */
const SoFar = z.object({
  tokens_used: z.number(),
  cost_usd: z.number().nullable(),
  steps_used: z.number(),
  elapsed_ms: z.number(),
  /** How often the model had to correct an answer that did not fit the output schema. Absent: never. */
  corrections: z.number().optional(),
});

/**
 * A compaction of the conversation. It can be applied again to the earlier messages. Positions count the messages before
 * the compaction; none is in the step that follows it.
 */
export const Compaction = z.lazy(() =>
  z.object({
    ts: z.string(),
    /** It exceeded the token limit, the model rejected it as too long, or the user asked for it. */
    why: z.enum(["tokens", "too_long", "asked"]),
    /** Estimated tokens of the request. */
    tokens_before: z.number(),
    tokens_after: z.number(),
    /** Messages that were truncated. */
    cut: z.array(z.object({ at: z.number(), content: z.string() })),
    /** One message that replaces all messages before `to`. */
    summary: z
      .object({
        to: z.number(),
        message: Message,
        /** Who wrote `text`, which is part of the message: the model, or a digest without a model. */
        by: z.enum(["model", "digest"]),
        text: z.string(),
        /** The last user message before `to`. */
        heard: z.string().nullable(),
      })
      .nullable(),
    /** Usage of the model call that wrote the summary. */
    usage: Usage,
  }),
);

/** What a suspended run, or a tool call, waits for. `never`: only the user resumes it. */
export const Wake = z.lazy(() =>
  z.discriminatedUnion("on", [
    z.object({ on: z.literal("at"), at_ms: z.number() }),
    /** `until_ms`: when the question's default counts. `questions`: how many the model asks; absent for a permission. */
    z.object({
      on: z.literal("answer"),
      id: z.string(),
      until_ms: z.number().optional(),
      questions: z.number().optional(),
    }),
    z.object({ on: z.literal("child"), uuid: z.string() }),
    /** A report of one of its background units. */
    z.object({ on: z.literal("unit"), ids: z.array(z.string()), until_ms: z.number().optional() }),
    /** `until_ms`: when it resumes without a message. */
    z.object({ on: z.literal("message"), until_ms: z.number().optional() }),
    z.object({ on: z.literal("never") }),
  ]),
);

const Entry = { ...NUMBERED, step: z.number(), ts: z.string() };

/** Entries of the journal that the record of the step keeps as they are. */
const keptEntries = lazy(
  () =>
    [
      /** The call has done its work and waits for an event: its state is never `unknown`. */
      z.object({ t: z.literal("waiting"), ...Entry, id: z.string(), on: Wake }),
      /** The call has waited for a person, and has the verdict. What it does comes after this. */
      z.object({ t: z.literal("verdict"), ...Entry, id: z.string(), verdict: AskVerdict }),
    ] as const,
);

/** One line of step.journal: an event of the open step, in order. */
export const JournalEntry = z.lazy(() =>
  z.discriminatedUnion("t", [
    z.object({
      t: z.literal("answer"),
      v: z.literal(SCHEMA_VERSION),
      ...Entry,
      message: Message,
      reasoning: z.string().optional(),
      usage: Usage,
      stop_reason: z
        .enum(["end_turn", "tool_calls", "max_tokens", "refusal", "paused", "other", "unknown"])
        .optional(),
      stop_word: z.string().optional(),
      so_far: SoFar.optional(),
      /** New messages before the answer, as in the step's record. */
      messages: z.array(Message).optional(),
      /** Numbers of the inbox entries in these messages. */
      inbox: z.array(z.number()).optional(),
      /** A partial answer: the model is a program that called a tool itself. The calls follow in this journal. */
      served: z.literal(true).optional(),
      interrupted: z.literal(true).optional(),
    }),
    z.object({
      t: z.literal("call_start"),
      ...Entry,
      id: z.string(),
      name: z.string(),
      path: z.string(),
      input: z.record(z.string(), z.unknown()),
      /** The tool declares that a second run does no harm. */
      safe: z.boolean(),
    }),
    ...keptEntries(),
    z.object({ t: z.literal("call_end"), ...Entry, call: ToolCallRecord }),
    /** A compaction before the step's answer. */
    z.object({
      t: z.literal("compact"),
      ...Entry,
      compaction: Compaction,
      so_far: SoFar.optional(),
    }),
    /** A switch of the model, also before the step. */
    z.object({ t: z.literal("switch"), ...Entry, ...ModelSwitch.shape }),
  ]),
);

/** One line of steps.jsonl: a finished step, with only the messages that are new in it. */
export const StepRecord = z.lazy(() =>
  z.object({
    v: z.literal(SCHEMA_VERSION),
    ...NUMBERED,
    /** The numbers of its events before it, in the order of `eventsOfStep`. */
    ns: z.array(z.number()).optional(),
    step: z.number(),
    ts: z.string(),
    /** Compactions before these messages, oldest first. */
    compactions: z.array(Compaction).optional(),
    messages: z.array(Message),
    raw_response: z.string(),
    /** The model's reasoning: shown to users, never sent to a model again. */
    reasoning: z.string().optional(),
    /** For an incomplete answer: why it ended, and the provider's own term for it. */
    stop_reason: z.enum(["max_tokens", "refusal", "paused", "other"]).optional(),
    stop_word: z.string().optional(),
    action: Action,
    summary: z.string(),
    tool_calls: z.array(ToolCallRecord),
    /** Numbers of the inbox entries in `messages`. The step acknowledges these and those of its calls. */
    inbox: z.array(z.number()).optional(),
    usage: Usage,
    tokens_used: z.number(),
    /** A check rejected the answer of the step before, so that one did not end the run. */
    after_check: z.literal(true).optional(),
    /** How many tools its request offered: these are the first in process-meta.json. Absent: all of them. */
    tools_offered: z.number().optional(),
    /** The user interrupted its answer, of which this is the beginning, or its tool calls. */
    interrupted: z.literal(true).optional(),
    /** Children that have ended since the step before. */
    children: z.array(ChildResult).optional(),
    so_far: SoFar.optional(),
    /** Model switches in this step. */
    switches: z.array(ModelSwitch).optional(),
    /** In a fork: the run that made this step. Its usage counts for that run. */
    origin_uuid: z.string().optional(),
    /** Of its journal: what the other fields do not hold. */
    entries: z.array(z.discriminatedUnion("t", keptEntries())).optional(),
  }),
);

export const CheckResult = z.object({
  command: z.string(),
  exit_code: z.number().nullable(),
  /** Absent: it did not run, or an older version recorded it. */
  elapsed_ms: z.number().optional(),
  /** The end of its output, when it failed. */
  output: z.string().optional(),
  /** After a failed attempt the model continues, and all checks run again. Absent: the first attempt. */
  attempt: z.number().optional(),
});

export type ToolCallRecord = z.infer<typeof ToolCallRecord>;
export type Compaction = z.infer<typeof Compaction>;
export type Action = z.infer<typeof Action>;
export type StepRecord = z.infer<typeof StepRecord>;
export type JournalEntry = z.infer<typeof JournalEntry>;
export type SoFar = z.infer<typeof SoFar>;
export type Wake = z.infer<typeof Wake>;
export type CheckResult = z.infer<typeof CheckResult>;
export type ChildResult = z.infer<typeof ChildResult>;
export type ModelSwitch = z.infer<typeof ModelSwitch>;
