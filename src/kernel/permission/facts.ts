/** The tools and devices of a namespace, as rules see them. */

import { isLimited } from "../../proxy/host-rules.ts";
import { isWhole, type Sandbox } from "../../sandbox/policy.ts";
import type { DeviceEntry, NamedTool, Namespace } from "../../vfs/namespace.ts";
import type { Facts, ToolFacts } from "./call-view.ts";

type Offered = Pick<Facts, "tools" | "devices">;

/** Lists the tools and devices of a namespace. Namespaces with the same devices share the lists. */
export function factsOf(namespace: Namespace): Offered {
  const entries = namespace.entries();
  const known = lists.get(entries);
  if (known) return known;
  const made = { tools: namespace.tools().map(factOf), devices: entries.map(({ path }) => path) };
  lists.set(entries, made);
  return made;
}

const lists = new WeakMap<readonly DeviceEntry[], Offered>();

/** Whether no command of the run can leave its sandbox. */
export function confinedFact({
  confinement,
  network,
}: {
  confinement?: Pick<Sandbox, "mechanism"> | undefined;
  network?: string[] | undefined;
}): Pick<Facts, "confined"> {
  return confinement && isWhole(confinement) && isLimited(network) ? { confined: true } : {};
}

/** Cached per tool, because the rights of every process refer to them. */
const facts = new WeakMap<NamedTool, ToolFacts>();

function factOf(named: NamedTool): ToolFacts {
  const known = facts.get(named);
  if (known) return known;
  const { tool, entry } = named;
  const made = {
    name: tool.name,
    subject: tool.subject ?? tool.path,
    path: entry.path,
    readOnly: tool.annotations?.readOnlyHint === true,
    filters: tool.filters,
    outside: actsOutside(named),
    lasting: tool.lasting === true,
  };
  facts.set(named, made);
  return made;
}

/** Without hints, a tool that is not read-only may do anything, as MCP has it. The kernel's own tools do nothing outside. */
function actsOutside({ tool: { annotations = {} }, entry }: NamedTool): boolean {
  if (entry.layer === "kernel") return false;
  const { readOnlyHint, destructiveHint, openWorldHint } = annotations;
  if (openWorldHint === true || destructiveHint === true) return true;
  return readOnlyHint !== true && (openWorldHint === undefined || destructiveHint === undefined);
}
