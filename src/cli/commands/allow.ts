/** `rnix allow`: grants a live run more tools. */

import { defineCommand } from "../command.ts";
import { json, list } from "../flags.ts";
import { changeRights } from "../processes/change-rights.ts";

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
