import { changeRights } from "../change-rights.ts";
import { defineCommand } from "../command.ts";
import { json } from "../flags.ts";

export default defineCommand({
  about: "Take tools from a live run and from all that it has spawned",
  args: [
    { name: "PID", about: "a PID, a UUID or the beginning of one" },
    { name: "TOOL", about: "a tool, a pattern or a device path, as in --deny", many: true },
  ],
  flags: { json },
  examples: [
    { line: "rnix deny 3 Bash", about: "a command that runs is ended, and the model told why" },
    { line: "rnix deny 3 'Bash(git push *)' 'Write(secrets/**)'", about: "only these uses of them" },
  ],
  notes: [
    "It holds at once and for the rest of the run, until the same rule is allowed again. What runs by it is stopped; what it has done already stays done.",
    "A pattern such as 'Bash(git push *)' also catches `git -C . push`, but it is no sandbox: a script can still run git push. Deny Bash, or allow only the commands you mean.",
  ],
  run: (io, flags, args) => changeRights(io, "deny", flags, args),
});
