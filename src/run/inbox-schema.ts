/** The schema of inbox.jsonl. */

import { z } from "zod";
import { SCHEMA_VERSION } from "../lib/schema-version.ts";
import { ImageRef } from "./message.ts";
import { NUMBERED } from "./numbered.ts";
import { CheckResult } from "./step-schema.ts";

const Arrived = { v: z.literal(SCHEMA_VERSION), ...NUMBERED, seq: z.number(), ts: z.string() };

/** A message for a run, which is delivered to its model. `seq` is its number in this inbox. */
export const InboxEntry = z.lazy(() =>
  z.discriminatedUnion("kind", [
    /** From another process; PID 0, which has no UUID, is the operator. */
    z.object({
      ...Arrived,
      kind: z.literal("message"),
      from_pid: z.number(),
      from_uuid: z.string().nullable(),
      data: z.string(),
    }),
    /** From a driver; `source` is its plugin. */
    z.object({
      ...Arrived,
      kind: z.literal("notice"),
      source: z.string(),
      text: z.string(),
      /** The failed attempt of the checks that it reports. */
      checks: z.array(CheckResult).optional(),
    }),
    /** From a background unit: `ended` once, with its end; else lines of its stream. */
    z.object({
      ...Arrived,
      kind: z.literal("unit"),
      unit: z.string(),
      ended: z.boolean(),
      text: z.string(),
      /** Of lines: the byte of the output up to which they are reported, and how many lines that was. */
      up_to: z.number().optional(),
      events: z.number().optional(),
    }),
    /** From the user: a message to a run, and the text that a run is resumed with. */
    z.object({
      ...Arrived,
      kind: z.literal("input"),
      text: z.string(),
      /** Delivered only when the present answer is complete. Absent: with the next step. */
      when: z.literal("after_answer").optional(),
      images: z.array(ImageRef).optional(),
      /** Of the sender: a message with a key that has arrived before is not taken again. */
      key: z.string().optional(),
      /** Of the request with the key: another one with this key is refused. */
      digest: z.string().optional(),
    }),
  ]),
);

/** One line of inbox.jsonl: an entry, the numbers of entries that a program took, or the numbers of former keys. */
export const InboxLine = z.lazy(() =>
  z.discriminatedUnion("kind", [
    InboxEntry,
    z.object({
      v: z.literal(SCHEMA_VERSION),
      ...NUMBERED,
      kind: z.literal("taken"),
      seqs: z.array(z.number()),
    }),
    z.object({
      v: z.literal(SCHEMA_VERSION),
      ...NUMBERED,
      kind: z.literal("keys"),
      keys: z.array(z.tuple([z.string(), z.number()], z.string())),
    }),
  ]),
);

export type InboxLine = z.infer<typeof InboxLine>;
export type InboxEntry = z.infer<typeof InboxEntry>;
/** An entry before the inbox assigns its number. */
export type InboxDraft = WithoutNumber<InboxEntry>;
type WithoutNumber<T> = T extends unknown ? Omit<T, "v" | "seq"> : never;
