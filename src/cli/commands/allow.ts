/** `rnix allow`: grants a live run more tools. */

import { splitToolRules } from "../../lib/tool-rules.ts";
import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { absoluteFolder } from "../files/paths.ts";
import { json, list } from "../flags.ts";
import { type Io, refuseInsideRun, withWire } from "../io.ts";
import { jsonText } from "../output/print.ts";
import { target } from "../processes/target.ts";

export default defineCommand({
  about: "Let a live run use more tools or folders",
  args: [
    { name: "PID", about: "a PID, a UUID or the beginning of one" },
    { name: "TOOL", about: "a tool, a pattern or a device path, as in --allow", optional: true, many: true },
  ],
  flags: { add: list("a folder outside of its project that it and its children may use", "FOLDER"), json },
  examples: {
    "rnix allow 3 Write Edit": "its model sees them from its next step",
    "rnix allow 3 'Bash(git *)'": "commands that begin with git, and no others",
    "rnix allow 3 --add ../site": "its file tools may read and write there",
    "rnix allow 3 Bash": "after rnix deny 3 Bash: takes that back",
  },
  notes: [
    "A run never has more rights than the run that spawned it. A tool that the parent lacks is refused; the message names the PID to allow it to first. Children of the run gain the tool if their own list names it.",
  ],
  run: (io, flags, args) => changeRights(io, "allow", flags, args),
});

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
