/** A run that plays a script: its request, and how its end differs from the `outcome` of the script. */

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Difference, Receipt, SpawnRequest } from "../../protocol/methods.ts";
import { absolutePath } from "../files/paths.ts";
import type { Io, Wire } from "../io.ts";
import { outcomeDifferences } from "./report.ts";
import type { ExpectedEnd, ScriptRun } from "./script-head.ts";

/** The request for a run that plays a script in the folder `cwd`, with the options of the script's head. */
export function scriptRequest(
  io: Io,
  script: ScriptRun,
  { cwd, trust }: { cwd: string; trust: boolean },
): SpawnRequest {
  const { file, checks, check_attempts = 1, folders, limits } = script;
  const { intent, agent, input, system_prompt, allow, deny, output_schema } = script;
  return {
    ...limits,
    intent,
    agent,
    input,
    system_prompt,
    allow,
    deny,
    output_schema,
    provider: "replay",
    model: file,
    max_cost: "unlimited",
    cwd,
    add: folders?.map((path) => absolutePath(io, "folders", path)),
    check: checks,
    check_attempts,
    trust: trust || undefined,
  };
}

/** Verdict, answer, calls, and files that must be absent. `folder`: where the run's tools were executed. */
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
