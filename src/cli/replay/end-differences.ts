/** Compares the end of a run with the `outcome` of its script: verdict, answer, calls, and files that must be absent. */

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Difference, Receipt } from "../../protocol/methods.ts";
import type { Wire } from "../io.ts";
import { outcomeDifferences } from "./report.ts";
import type { ExpectedEnd } from "./script-head.ts";

/** `folder`: where the run's tools were executed. */
export async function endDifferences(
  wire: Pick<Wire, "request">,
  expected: ExpectedEnd | undefined,
  receipt: Receipt,
  folder: string,
): Promise<Difference[]> {
  const { tool_calls, absent = [] } = expected ?? {};
  const found = outcomeDifferences(expected, receipt);
  if (tool_calls !== undefined && receipt.uuid !== "") {
    const difference = callsDifference(tool_calls, await callsOf(wire, receipt));
    if (difference) found.push(difference);
  }
  const there = absent.filter((path) => existsSync(resolve(folder, path)));
  if (there.length > 0) found.push(outcome("files that must not be there", null, there.join("\n")));
  return found;
}

interface Call {
  name: string;
  state: string;
}

/** The calls of a finished run, in order. A run may end without a record of its last step. */
async function callsOf(wire: Pick<Wire, "request">, { uuid }: Receipt): Promise<Call[]> {
  const calls: Call[] = [];
  const { steps } = await wire.request("list_steps", { uuid });
  for (const { step } of steps) {
    const { tool_calls } = await wire.request("get_step_detail", { uuid, step });
    calls.push(...tool_calls.map(({ name, state }) => ({ name, state })));
  }
  return calls;
}

/** An expected call without a state fits any state. */
function callsDifference(expected: readonly string[], calls: readonly Call[]): Difference | undefined {
  const fits = ({ name, state }: Call, wanted: string | undefined): boolean =>
    wanted === name || wanted === `${name} ${state}`;
  if (calls.length === expected.length && calls.every((call, at) => fits(call, expected[at])))
    return undefined;
  const came = calls.map(({ name, state }) => `${name} ${state}`);
  return outcome("the tool calls", expected.join("\n"), came.join("\n"));
}

function outcome(message: string, recorded: string | null, replayed: string): Difference {
  return { kind: "outcome", step: null, message, recorded, replayed };
}
