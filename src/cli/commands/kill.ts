import { defineCommand } from "../command.ts";
import { bool, text } from "../flags.ts";
import { signalProcesses } from "../signal-processes.ts";
import { explainSignalFlag, parseSignal } from "../signals.ts";

export default defineCommand({
  about: "Send a signal to processes and all that they have spawned",
  args: [{ name: "PID", about: "a PID, a UUID or the beginning of one", many: true }],
  flags: {
    signal: text(
      "TERM (the default), KILL, INT, PAUSE or RESUME, or its number in the kernel, 1 to 5",
      "SIG",
      {
        short: "s",
      },
    ),
    "no-tree": bool("only this process: what it has spawned goes on"),
  },
  examples: [
    { line: "rnix kill 3", about: "ask it to end: tools are stopped, what it did is kept" },
    { line: "rnix kill -s KILL 3 4", about: "end them at once" },
  ],
  notes: [
    "A suspended run ends by TERM, INT or KILL, too: nothing goes on with it by itself any more. `rnix resume` still does.",
  ],
  explainFlag: explainSignalFlag,
  run(io, flags, pids) {
    const signal = parseSignal(flags.signal ?? "TERM");
    return signalProcesses(io, pids, signal, { tree: !flags["no-tree"] });
  },
});
