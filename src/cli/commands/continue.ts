/** `rnix continue`: continues paused processes and their descendants. */

import { SIGRESUME } from "../../lib/signals.ts";
import { defineCommand } from "../command.ts";
import { signalProcesses } from "../processes/signal-processes.ts";
import { RUN_ARGUMENT } from "../processes/target.ts";

export default defineCommand({
  about: "Continue paused processes and everything they have spawned",
  args: [{ ...RUN_ARGUMENT, many: true }],
  examples: { "rnix continue 3": "undoes rnix pause 3" },
  run: (io, _flags, pids) => signalProcesses(io, pids, SIGRESUME, { tree: true }),
});
