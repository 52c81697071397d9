/** Checks what is written to a device as the kernel checks the input of a tool call. */

import { type FromSchema, type InputSchema, SyscallError } from "rnix/plugin";
import { z } from "zod";
import { issueText } from "./issue-text.ts";

const compiled = new WeakMap<object, z.ZodType>();

/** The input, which fits the schema of the tool. Any other input fails with INVALID; the message lists the wrong fields. */
export function checkedInput<const S extends InputSchema>(
  tool: { readonly name: string; readonly input: S },
  input: unknown,
): FromSchema<S> {
  const { error } = schemaOf(tool.input).safeParse(input);
  if (fits<S>(input, error)) return input;
  throw new SyscallError("INVALID", `${tool.name}: ${issueText(error ?? { issues: [] }, "input")}.`);
}

function fits<S>(input: unknown, error: z.ZodError | undefined): input is FromSchema<S> {
  return error === undefined && typeof input === "object";
}

function schemaOf(schema: object): z.ZodType {
  const known = compiled.get(schema) ?? z.fromJSONSchema({ ...schema });
  compiled.set(schema, known);
  return known;
}
