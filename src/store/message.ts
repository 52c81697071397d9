import { z } from "zod";

/** What a conversation is made of: in the records, and in what a model answers. */
export const Usage = z.object({
  input_tokens: z.number(),
  output_tokens: z.number(),
  cached_tokens: z.number(),
});

export const ToolCall = z.lazy(() =>
  z.object({
    id: z.string(),
    name: z.string(),
    input: z.record(z.string(), z.unknown()),
    invalid: z.object({ text: z.string(), reason: z.string() }).optional(),
  }),
);

export const Message = z.lazy(() =>
  z.object({
    role: z.enum(["system", "user", "assistant", "tool"]),
    content: z.string(),
    tool_call_id: z.string().optional(),
    tool_calls: z.array(ToolCall).optional(),
  }),
);

export type Usage = z.infer<typeof Usage>;
