/** `rnix continue`: continues paused processes and their descendants. */

import { SIGRESUME } from "../../kernel/types.ts";
import { defineCommand } from "../command.ts";
import { signalProcesses } from "../signal-processes.ts";

export default defineCommand({
  about: "Continue paused processes and everything they have spawned",
  args: [{ name: "PID", about: "a PID, a UUID or the beginning of one", many: true }],
  flags: {},
  examples: [{ line: "rnix continue 3", about: "undoes rnix pause 3" }],
  run: (io, _flags, pids) => signalProcesses(io, pids, SIGRESUME, { tree: true }),
});
