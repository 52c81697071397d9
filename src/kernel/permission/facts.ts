import type { Namespace } from "../../vfs/namespace.ts";
import type { Facts } from "./permissions.ts";

/** What there is to have rights to where a process sees this. */
export function factsOf(namespace: Namespace): Pick<Facts, "tools" | "devices"> {
  return {
    tools: namespace.tools().map(({ tool, entry }) => ({
      name: tool.name,
      subject: tool.subject ?? tool.path,
      path: entry.path,
    })),
    devices: namespace.entries().map(({ path }) => path),
  };
}
