/** Schemas of a conversation's messages, in records and in answers of models. */

import { z } from "zod";
import { IMAGE_TYPES } from "../plugin/index.ts";
import { RESULT_FILE } from "./blob-file.ts";

export const Usage = z.object({
  input_tokens: z.number(),
  output_tokens: z.number(),
  cached_tokens: z.number(),
  cache_write_tokens: z.number().optional(),
  cost_usd: z.number().optional(),
});

export const ToolCall = z.lazy(() =>
  z.object({
    id: z.string(),
    name: z.string(),
    input: z.record(z.string(), z.unknown()),
    invalid: z.object({ text: z.string(), reason: z.string() }).optional(),
    opaque: z.string().optional(),
  }),
);

/** The path of a result, relative to the run's folder. */
export const KeptFile = z.string().regex(RESULT_FILE);

/** An image of the conversation. Its content is stored once, beside the run. */
export const ImageRef = z.object({
  media_type: z.enum(IMAGE_TYPES),
  file: KeptFile,
  sha256: z.string(),
  bytes: z.number(),
  width: z.number(),
  height: z.number(),
});

export const Message = z.lazy(() =>
  z.object({
    role: z.enum(["system", "user", "assistant", "tool"]),
    content: z.string(),
    tool_call_id: z.string().optional(),
    tool_calls: z.array(ToolCall).optional(),
    opaque: z.string().optional(),
    images: z.array(ImageRef).optional(),
  }),
);

export type Usage = z.infer<typeof Usage>;
