import { z } from "zod";

/** What goes wrong instead of (or in the middle of) an answer. */
export const Fault = z.discriminatedUnion("kind", [
  /** An HTTP error. Without a body the dialect's own error document is sent. */
  z.strictObject({
    kind: z.literal("status"),
    status: z.number().int(),
    headers: z.record(z.string(), z.string()).optional(),
    body: z.unknown().optional(),
    /** The error type inside the dialect's error document, e.g. `context_length_exceeded`. */
    code: z.string().optional(),
    message: z.string().optional(),
  }),
  /** Status 200 and a JSON error document where the answer should be. */
  z.strictObject({ kind: z.literal("error_body"), code: z.string(), message: z.string().optional() }),
  /** A stream that begins well and then carries an error. Without streaming the same as `error_body`. */
  z.strictObject({ kind: z.literal("error_event"), code: z.string(), message: z.string().optional() }),
  /** The request is read and nothing is ever answered. */
  z.strictObject({ kind: z.literal("hang") }),
  /** Headers and the first part of the answer, then silence. */
  z.strictObject({ kind: z.literal("hang_midway") }),
  /** The first part of the answer, then the connection is torn down. */
  z.strictObject({ kind: z.literal("cut") }),
  /** The first part of the answer, then a regular end, with no word on why it stopped. */
  z.strictObject({ kind: z.literal("end_early") }),
  /** Status 200, the right content type and bytes that are not of this protocol. */
  z.strictObject({ kind: z.literal("garbage") }),
  /** Status 200 and a web page, as from a wrong base_url or a captive portal. */
  z.strictObject({ kind: z.literal("web_page") }),
]);

export const Turn = z.strictObject({
  text: z.string().optional(),
  reasoning: z.string().optional(),
  tool_calls: z
    .array(
      z.strictObject({
        id: z.string().optional(),
        name: z.string(),
        input: z.record(z.string(), z.unknown()).optional(),
        /** Sent as they are, to try arguments that are not a JSON object. */
        rawArguments: z.string().optional(),
      }),
    )
    .optional(),
  usage: z
    .strictObject({
      input_tokens: z.number().optional(),
      output_tokens: z.number().optional(),
      cached_tokens: z.number().optional(),
      cache_write_tokens: z.number().optional(),
    })
    .optional(),
  /** In how many pieces the text is streamed; 3 by default. */
  chunks: z.number().int().positive().optional(),
  /** Ms between the events of a stream: a model at its pace, for pictures of a terminal and for its cost. */
  pace_ms: z.number().positive().optional(),
  /** Bytes of a stream that are sent at a time, wherever that cuts it; by default one event at a time. */
  torn: z.number().int().positive().optional(),
  /** Why the model stopped; by default `tool_calls` when there are some, else `end_turn`. */
  stop: z.enum(["end_turn", "tool_calls", "max_tokens", "refusal"]).optional(),
  /** The protocol's own word for that, as it stands; null: it says none. */
  stop_word: z.string().nullable().optional(),
  fault: Fault.optional(),
  /** Sent with the answer; with a fault that has its own, those. */
  headers: z.record(z.string(), z.string()).optional(),
});

export const Script = z.strictObject({
  turns: z.array(Turn),
  /** Begins again after the last turn. */
  loop: z.boolean().optional(),
  /** Which turn a request gets: the n-th request the n-th (default), or by the assistant messages it carries. */
  position: z.enum(["request", "conversation"]).optional(),
  /** Any other key is answered 401. */
  key: z.string().optional(),
  /** Any other model is answered 404. */
  models: z.array(z.string()).optional(),
});

export type Fault = z.infer<typeof Fault>;
export type Turn = z.infer<typeof Turn>;
export type Script = z.infer<typeof Script>;
