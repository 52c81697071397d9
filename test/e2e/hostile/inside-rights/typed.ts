/** What a run gets from commands that its shell types. */

import { expect } from "bun:test";
import type { Machine } from "../../support/machine.ts";
import { toolResults } from "../../support/requests.ts";
import { bash, says } from "../../support/scenes.ts";
import { verdict } from "../../support/verdict.ts";

/** The results of these commands in a run with these rights. A child that they spawn answers at once. */
export async function typed(
  machine: Machine,
  commands: readonly string[],
  rights: readonly string[],
): Promise<string[]> {
  const model = await machine.play({
    "parent task": [bash(...commands), says("done")],
    "child chore": [says("child done")],
  });
  const allow = rights.flatMap((right) => ["--allow", right]);
  await verdict(machine, ["parent task", ...allow]);
  const last = model.requests.filter(({ text }) => text.includes('"parent task"')).at(-1);
  return toolResults(last ?? expect.unreachable());
}
