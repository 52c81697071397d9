/** Checks the input of a tool call against the tool's schema. */

import type { z } from "zod";
import { issueText } from "../../lib/issue-text.ts";
import { SyscallError, type ToolCall, type ToolDef } from "../../plugin/index.ts";
import { readSchema } from "../../vfs/json-schema.ts";

/** Compiled schemas by tool; null if zod can't read the schema: such a tool's input is not checked. */
const compiled = new WeakMap<ToolDef, z.ZodType | null>();

/** Checks a call's input against its tool's schema. Fails with INVALID, which lists the wrong fields. */
export function checkToolInput(tool: ToolDef, call: ToolCall): void {
  if (call.invalid) {
    throw new SyscallError(
      "INVALID",
      `${tool.name}: the arguments are not a JSON object (${call.invalid.reason}). Send the call again with valid JSON. What came: ${call.invalid.text.slice(0, 500)}`,
    );
  }
  const schema = schemaOf(tool);
  if (schema === null) return;
  const parsed = schema.safeParse(call.input);
  if (parsed.success) return;
  throw new SyscallError(
    "INVALID",
    `${tool.name}: the input does not fit the tool's schema. ${issueText(parsed.error, "input")}.`,
  );
}

/** Whether the tool's schema can be checked at all. */
export function isChecked(tool: ToolDef): boolean {
  return schemaOf(tool) !== null;
}

function schemaOf(tool: ToolDef): z.ZodType | null {
  const known = compiled.get(tool);
  if (known !== undefined) return known;
  const schema = compile(tool.input);
  compiled.set(tool, schema);
  return schema;
}

function compile(input: object): z.ZodType | null {
  try {
    return readSchema(input);
  } catch {
    // A schema that zod can't read, or a recursive one, is not the call's fault: the driver checks the input.
    return null;
  }
}
