/** The operations of the device /dev/fs: their schema, types and parser. */

import { SyscallError } from "rnix/plugin";
import { z } from "zod";
import { issueText } from "../_lib/issue-text.ts";
import { jsonObject } from "../_lib/json-object.ts";

const path = z.string().min(1);

/** One operation written to the device. The kernel has validated a tool's call, but not a raw write. */
export const operation = z.discriminatedUnion("op", [
  z.strictObject({
    op: z.literal("read"),
    path,
    offset: z.int().min(1).optional(),
    limit: z.int().min(1).max(10_000).optional(),
  }),
  z.strictObject({ op: z.literal("write"), path, content: z.string() }),
  z.strictObject({
    op: z.literal("edit"),
    path,
    old_string: z.string(),
    new_string: z.string(),
    replace_all: z.boolean().optional(),
  }),
  z.strictObject({
    op: z.literal("glob"),
    pattern: z.string().min(1),
    path: path.optional(),
    limit: z.int().min(1).max(1_000).optional(),
  }),
  z.strictObject({
    op: z.literal("grep"),
    pattern: z.string().min(1),
    path: path.optional(),
    glob: z.string().min(1).optional(),
    output_mode: z.enum(["files_with_matches", "content", "count"]).optional(),
    case_insensitive: z.boolean().optional(),
    context: z.int().min(0).max(50).optional(),
    head_limit: z.int().min(1).max(5_000).optional(),
  }),
]);

type Operation = z.infer<typeof operation>;
export type Input<Op extends Operation["op"]> = Omit<Extract<Operation, { op: Op }>, "op">;

/** Parses an operation. INVALID for any other text; the message lists what is wrong. */
export function parseOperation(text: string): Operation {
  const parsed = operation.safeParse(jsonObject("/dev/fs", text, EXPECTED));
  if (parsed.success) return parsed.data;
  throw new SyscallError(
    "INVALID",
    `/dev/fs expects {"op": "read" | "write" | "edit" | "glob" | "grep", …}. ${issueText(parsed.error, "operation")}.`,
  );
}

const EXPECTED =
  'one operation as JSON such as {"op":"read","path":"README.md"} (a file\'s content is written to /dev/fs/<path>)';
