import { changeRights } from "../change-rights.ts";
import { defineCommand } from "../command.ts";
import { json } from "../flags.ts";

export default defineCommand({
  about: "Let a live run use more tools",
  args: [
    { name: "PID", about: "a PID, a UUID or the beginning of one" },
    { name: "TOOL", about: "a tool, a pattern or a device path, as in --allow", many: true },
  ],
  flags: { json },
  examples: [
    { line: "rnix allow 3 Write Edit", about: "its model is told, and shown them, at its next step" },
    { line: "rnix allow 3 'Bash(git *)'", about: "commands that begin with git, and no others" },
    { line: "rnix allow 3 Bash", about: "after rnix deny 3 Bash: takes that back" },
  ],
  notes: [
    "No run holds more than the one that spawned it: what its parent lacks is refused, with the PID to allow it to first. What it has spawned gains what its own list names.",
  ],
  run: (io, flags, args) => changeRights(io, "allow", flags, args),
});
