/** `rnix strace`: prints the syscalls of a process. */

import type { Target } from "../../protocol/methods.ts";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { jsonLines } from "../flags.ts";
import { type Wire, withWire } from "../io.ts";
import { endText } from "../output/damage.ts";
import { inertJson } from "../output/pipeline-text.ts";
import { styleOf } from "../output/style.ts";
import { syscallLine } from "../output/syscall.ts";
import { RECORD_FROM, RUN_ARGUMENT, withRecordedRun } from "../processes/target.ts";

export default defineCommand({
  about: "Print a process's syscalls, live or from its record",
  args: [{ ...RUN_ARGUMENT, about: `${RUN_ARGUMENT.about}; 0 is the kernel itself` }],
  flags: { json: jsonLines, ...RECORD_FROM },
  examples: {
    "rnix strace 3": "every syscall as it is made, until the process ends",
    "rnix strace 3 --json": "one event per line",
  },
  notes: [
    "For a running process, it prints new syscalls; for an ended one, all recorded syscalls.",
    "PID 0 makes the syscalls that belong to no process or to an ended one; the latest of them stay in memory.",
  ],
  run(io, flags, [pid]) {
    const trace = async (wire: Wire, of: Target): Promise<number> => {
      const style = styleOf(io, io.stdout);
      for await (const event of await wire.open("attach_debug", of)) {
        if (event.type === "eof") io.stderr.write(endText(event.payload, "events"));
        if (event.type !== "syscall_event") continue;
        io.stdout.write(flags.json ? `${inertJson(event.payload)}\n` : syscallLine(event.payload, style));
        await io.stdout.drained();
        if (io.stdout.closed) break;
      }
      return EXIT.ok;
    };
    return pid === "0"
      ? withWire(io, (wire) => trace(wire, { pid: 0 }))
      : withRecordedRun(io, flags.record, pid, trace);
  },
});
