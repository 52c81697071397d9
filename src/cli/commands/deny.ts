/** `rnix deny`: revokes tools of a live run and its descendants. */

import { defineCommand } from "../command.ts";
import { json } from "../flags.ts";
import { changeRights } from "./allow.ts";

export default defineCommand({
  about: "Take tools away from a live run and everything it has spawned",
  args: [
    { name: "PID", about: "a PID, a UUID or the beginning of one" },
    { name: "TOOL", about: "a tool, a pattern or a device path, as in --deny", many: true },
  ],
  flags: { json },
  examples: {
    "rnix deny 3 Bash": "stops a running command; the model is given the reason",
    "rnix deny 3 'Bash(git push *)' 'Write(secrets/**)'": "takes only these uses of the tools",
  },
  notes: [
    "The rule applies at once and for the rest of the run, until you allow the same rule again. Running tool calls that it denies are stopped; changes they have made stay.",
    "A pattern such as 'Bash(git push *)' also catches `git -C . push`, but it is no sandbox: a script can still run git push. Deny Bash, or allow only the commands you mean.",
  ],
  run: (io, flags, args) => changeRights(io, "deny", flags, args),
});
