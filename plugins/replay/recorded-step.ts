import { z } from "zod";

/** What of a step's record is played wherever it stands: what the model said, and what it used. */
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
  /** Where the answer was not whole. */
  stop_reason: z.enum(["max_tokens", "refusal", "paused", "other"]).optional(),
  stop_word: z.string().optional(),
  usage: z.object({ input_tokens: z.number(), output_tokens: z.number(), cached_tokens: z.number() }),
});
export type RecordedStep = z.infer<typeof RecordedStep>;
