/** The operations of a device: a request `{op, …}` runs one of them. */

import { type FromSchema, type InputSchema, SyscallError } from "rnix/plugin";
import { jsonObject } from "./json.ts";

/** Its `op`, and what it does with the other fields of the request. */
export type Operation = readonly [op: string, run: (input: Record<string, unknown>) => Promise<string>];

/** The operation of a tool: it gets an input that fits the tool's schema. */
export function operation<const S extends InputSchema>(
  tool: { readonly name: string; readonly op?: string; readonly input: S },
  run: (input: FromSchema<S>) => Promise<string>,
): Operation {
  return [
    tool.op ?? tool.name,
    async (input) => {
      const { checkedInput } = await import("./checked-input.ts");
      return await run(checkedInput(tool, input));
    },
  ];
}

/** Runs the operation of a request. Fails with INVALID for any other text; the message says what is expected. */
export async function answerRequest(
  device: string,
  text: string,
  operations: readonly Operation[],
): Promise<string> {
  const expected = `{"op": "…", …} with one of ${operations.map(([op]) => op).join(", ")}`;
  const { op, ...input } = jsonObject(device, text, expected);
  const [, run] = operations.find(([name]) => name === op) ?? [];
  if (run) return await run(input);
  throw new SyscallError("INVALID", `${device}: expected ${expected}, got ${JSON.stringify(op)}.`);
}
