/** The pre-flight of a graph: each of its nodes is planned and released, before a token is spent. */

import { expected } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { type GraphNode, graphOf } from "../../workflows/graph.ts";
import { planSpawn, type SpawnPorts } from "./plan-spawn.ts";
import type { PlacedSpawn } from "./request-defaults.ts";

/** Fails as a spawn of one of the nodes would: unknown agents, models, keys and schemas. The message names the node. */
export async function checkGraph(
  { workflow, ...request }: PlacedSpawn,
  unit: string | undefined,
  ports: SpawnPorts,
): Promise<void> {
  const { nodes } = graphOf(workflow?.graph, workflow?.name ?? "graph");
  // Nodes that differ in their prompts alone are planned once.
  const kinds = Map.groupBy(Object.entries(nodes), ([, node]) => JSON.stringify(optionsOf(node)));
  for (const [[name, node] = []] of kinds.values()) {
    if (name === undefined || node === undefined) continue;
    try {
      const asked = { ...request, ...optionsOf(node), agent: node.agent ?? undefined };
      const { opts } = await planSpawn({ ...asked, intent: node.prompt }, unit, ports);
      opts.devices.release();
    } catch (thrown) {
      const { code, message } = expected(thrown);
      throw new SyscallError(code, `nodes.${name}: ${message}`, { cause: thrown });
    }
  }
}

function optionsOf({
  prompt: _p,
  needs: _n,
  for_each: _f,
  retries: _r,
  allow_failure: _a,
  check,
  ...rest
}: GraphNode) {
  return { ...rest, ...(check !== undefined && { check: typeof check === "string" ? [check] : check }) };
}
