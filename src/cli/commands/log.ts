/** `rnix log`: prints the log of a run. */

import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { bool, jsonLines } from "../flags.ts";
import { endText } from "../output/damage.ts";
import { LogText, stepTitle } from "../output/log.ts";
import { styleOf } from "../output/style.ts";
import { RUN_ARGUMENT } from "../processes/target.ts";
import { RECORD_FROM, withRecordedRun } from "../run/record-folder.ts";

export default defineCommand({
  about: "Print a run in readable form: text, tool calls, results, and how it ended",
  args: [RUN_ARGUMENT],
  flags: {
    follow: bool("keep printing until the run ends", { short: "f" }),
    json: jsonLines,
    ...RECORD_FROM,
  },
  examples: [
    { line: "rnix log", about: "what the last run has done so far, or did" },
    { line: "rnix log 3 -f", about: "run 3 so far, then what it does until it ends" },
  ],
  notes: ["--json prints one entry per line; docs/ci.md describes them."],
  run(io, flags, [pid]) {
    return withRecordedRun(io, flags.record, pid, async (wire, of) => {
      const payload = { ...of, follow: flags.follow };
      const style = styleOf(io, io.stdout);
      const log = new LogText(style);
      let step = 0;
      for await (const event of await wire.open("attach_log", payload)) {
        if (event.type === "eof") io.stderr.write(endText(event.payload, "entries"));
        if (event.type !== "log_entry") continue;
        const entry = event.payload;
        if (flags.json) io.stdout.write(`${JSON.stringify(entry)}\n`);
        else {
          if (entry.step !== step && entry.kind !== "end")
            io.stdout.write(stepTitle(entry.step, null, style));
          step = entry.step;
          io.stdout.write(log.of(entry));
        }
        await io.stdout.drained();
        if (io.stdout.closed) break;
      }
      return EXIT.ok;
    });
  },
});
