/** The schema of a recorded step, as far as it is played. */

import { z } from "zod";

/** The part of a step's record that is played: the model's answer and its usage. */
export const RecordedStep = z.object({
  step: z.number(),
  messages: z.array(
    z.object({
      role: z.string(),
      content: z.string(),
      tool_calls: z
        .array(
          z.object({
            id: z.string(),
            name: z.string(),
            input: z.record(z.string(), z.unknown()),
            invalid: z.object({ text: z.string(), reason: z.string() }).optional(),
          }),
        )
        .optional(),
    }),
  ),
  /** For an incomplete answer. */
  stop_reason: z.enum(["max_tokens", "refusal", "paused", "other"]).optional(),
  stop_word: z.string().optional(),
  usage: z.object({ input_tokens: z.number(), output_tokens: z.number(), cached_tokens: z.number() }),
});
export type RecordedStep = z.infer<typeof RecordedStep>;
