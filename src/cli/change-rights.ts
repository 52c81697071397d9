/** What `rnix allow` and `rnix deny` do. */

import { splitToolRules } from "../lib/tool-rules.ts";
import { EXIT, usageError } from "./exit.ts";
import { type Io, refuseInsideRun, withWire } from "./io.ts";
import { target } from "./target.ts";

/** Grants or revokes tools of a live run and prints what it may use afterwards. */
export async function changeRights(
  io: Io,
  method: "allow" | "deny",
  flags: { json: boolean },
  [pid = "", ...tools]: string[],
): Promise<number> {
  await refuseInsideRun(io, method);
  if (tools.includes("")) throw usageError("TOOL: expected a tool, a pattern or a device path, got nothing");
  const to = target(io, pid);
  return withWire(io, async (wire) => {
    const answer = await wire.request(method, { ...to, tools: tools.flatMap(splitToolRules) });
    if (flags.json) {
      io.stdout.write(`${JSON.stringify(answer, null, 2)}\n`);
      return EXIT.ok;
    }
    io.stderr.write(`process ${answer.pid} may use: ${answer.allowed_tools.join(", ") || "nothing"}\n`);
    if (answer.denied_tools.length > 0) io.stderr.write(`denied: ${answer.denied_tools.join(", ")}\n`);
    return EXIT.ok;
  });
}
