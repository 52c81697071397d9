/** What `rnix allow` and `rnix deny` do. */

import { splitToolRules } from "../../lib/tool-rules.ts";
import { EXIT, usageError } from "../exit.ts";
import { absoluteFolder } from "../files/paths.ts";
import { type Io, refuseInsideRun, withWire } from "../io.ts";
import { jsonText } from "../output/print.ts";
import { target } from "./target.ts";

/** Grants or revokes rights of a live run and prints what it may use afterwards. */
export async function changeRights(
  io: Io,
  method: "allow" | "deny",
  flags: { json: boolean; add?: readonly string[] },
  [pid = "", ...tools]: string[],
): Promise<number> {
  await refuseInsideRun(io, method);
  if (tools.includes("")) throw usageError("TOOL: expected a tool, a pattern or a device path, got nothing");
  const to = target(io, pid);
  const folders = (flags.add ?? []).map((path) => absoluteFolder(io, "--add", path));
  if (tools.length + folders.length === 0)
    throw usageError("TOOL is missing: expected a tool, or a folder with --add");
  return withWire(io, async (wire) => {
    const rules = { ...to, tools: tools.flatMap(splitToolRules) };
    const answer =
      method === "deny"
        ? await wire.request(method, rules)
        : await wire.request(method, { ...rules, ...(folders.length > 0 && { folders }) });
    if (flags.json) {
      io.stdout.write(jsonText(answer));
      return EXIT.ok;
    }
    io.stderr.write(`process ${answer.pid} may use: ${answer.allowed_tools.join(", ") || "nothing"}\n`);
    if (answer.denied_tools.length > 0) io.stderr.write(`denied: ${answer.denied_tools.join(", ")}\n`);
    return EXIT.ok;
  });
}
