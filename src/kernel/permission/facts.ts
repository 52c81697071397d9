import type { NamedTool, Namespace } from "../../vfs/namespace.ts";
import type { Facts, ToolFacts } from "./call-view.ts";

/** What there is to have rights to where a process sees this. */
export function factsOf(namespace: Namespace): Pick<Facts, "tools" | "devices"> {
  return {
    tools: namespace.tools().map(factOf),
    devices: namespace.entries().map(({ path }) => path),
  };
}

/** Made once per tool: the rights of each process keep them. */
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
  };
  facts.set(named, made);
  return made;
}
