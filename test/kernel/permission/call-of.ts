import type { Call, Facts } from "../../../src/kernel/permission/permissions.ts";

/** `Read(src/a.ts)`, `Bash(git log)`, `Complete`, or a path opened raw. */
export function callOf({ tools }: Pick<Facts, "tools">, text: string): Call {
  if (text.startsWith("/")) return { tool: null, path: text };
  const open = text.indexOf("(");
  const tool = open < 0 ? text : text.slice(0, open);
  const path = tools.find((known) => known.name === tool)?.path ?? "/dev/none";
  return open < 0 ? { tool, path } : { tool, path, subject: text.slice(open + 1, -1) };
}
