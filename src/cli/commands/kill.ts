/** `rnix kill`: sends a signal to processes and their descendants. */

import { defineCommand } from "../command.ts";
import { bool, text } from "../flags.ts";
import { explainSignalFlag, parseSignal, signalProcesses } from "../processes/signal-processes.ts";

export default defineCommand({
  about: "Send a signal to processes and everything they have spawned",
  args: [{ name: "PID", about: "a PID, a UUID or the beginning of one", many: true }],
  flags: {
    signal: text(
      "TERM (the default), KILL, INT, PAUSE or RESUME, or its number in the kernel, 1 to 5",
      "SIG",
      { short: "s" },
    ),
    "no-tree": bool("signal only this process; its children keep running"),
  },
  examples: {
    "rnix kill 3": "ask it to end: its tools are stopped, its record stays",
    "rnix kill -s KILL 3 4": "end them at once",
  },
  notes: [
    "TERM, INT and KILL also end a suspended run: it no longer resumes by itself. `rnix resume` still resumes it.",
  ],
  explainFlag: explainSignalFlag,
  run(io, flags, pids) {
    const signal = parseSignal(flags.signal ?? "TERM");
    return signalProcesses(io, pids, signal, { tree: !flags["no-tree"] });
  },
});
