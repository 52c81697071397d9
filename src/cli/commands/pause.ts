/** `rnix pause`: pauses processes and their descendants. */

import { SIGPAUSE } from "../../lib/signals.ts";
import { defineCommand } from "../command.ts";
import { signalProcesses } from "../processes/signal-processes.ts";
import { RUN_ARGUMENT } from "../processes/target.ts";

export default defineCommand({
  about: "Pause processes and everything they have spawned, before their next step",
  args: [{ ...RUN_ARGUMENT, many: true }],
  examples: { "rnix pause 3": "it waits, and spends nothing, until rnix continue 3" },
  notes: ["Paused time counts towards no limit."],
  run: (io, _flags, pids) => signalProcesses(io, pids, SIGPAUSE, { tree: true }),
});
