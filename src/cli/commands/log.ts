/** `rnix log`: prints the log of a run. */

import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { bool, jsonLines } from "../flags.ts";
import { endText as damageOfStream } from "../output/damage.ts";
import { endText } from "../output/end.ts";
import { inertJson } from "../output/pipeline-text.ts";
import { styleOf } from "../output/style.ts";
import { RECORD_FROM, RUN_ARGUMENT, withRecordedRun } from "../processes/target.ts";
import { BlockText, clean, stepText } from "../transcript/block-text.ts";
import { RunState } from "../transcript/run-state.ts";
import type { Change } from "../transcript/transcript.ts";

/** Characters that are written without waiting for more. */
const WRITTEN_CHARS = 16 * 1024;

export default defineCommand({
  about: "Print a run in readable form: text, tool calls, results, and how it ended",
  args: [RUN_ARGUMENT],
  flags: {
    follow: bool("keep printing until the run ends", { short: "f" }),
    json: jsonLines,
    ...RECORD_FROM,
  },
  examples: {
    "rnix log": "what the last run has done so far, or did",
    "rnix log 3 -f": "run 3 so far, then what it does until it ends",
  },
  notes: ["--json prints one entry per line; docs/ci.md describes them."],
  run(io, flags, [pid]) {
    return withRecordedRun(io, flags.record, pid, async (wire, of) => {
      const payload = { ...of, follow: flags.follow };
      const style = styleOf(io, io.stdout);
      const blocks = new BlockText(style);
      const state = new RunState(Date.now(), { groupsReads: false });
      // What arrives at once is written at once.
      let text = "";
      let timer: { cancel(): void } | undefined;
      const flush = (): void => {
        timer?.cancel();
        timer = undefined;
        io.stdout.write(text);
        text = "";
      };
      const print = (changes: readonly Change[]): void => {
        const shown = changes.map((change) => changeText(change, blocks)).filter((one) => one !== "");
        text += shown.map((one) => `${one}\n`).join("");
      };
      let step = 0;
      try {
        for await (const event of await wire.open("attach_log", payload)) {
          if (event.type === "eof") {
            flush();
            io.stderr.write(damageOfStream(event.payload, "entries"));
          }
          if (event.type !== "log_entry") continue;
          const entry = event.payload;
          if (flags.json) text += `${inertJson(entry)}\n`;
          else {
            if (entry.step !== step && entry.kind !== "end") {
              print(state.endStep(Date.now()));
              text += `${stepText({ type: "step", step: entry.step, total: null, used: null }, style)}\n`;
            }
            step = entry.step;
            print(state.apply(event, Date.now()));
            if (entry.kind === "end")
              text += entry.end ? endText(entry.end, style) : `${clean(entry.text)}\n`;
          }
          timer ??= io.timer(0, flush);
          if (text.length >= WRITTEN_CHARS) {
            flush();
            await io.stdout.drained();
          }
          if (io.stdout.closed) break;
        }
        if (!flags.json) print(state.endStep(Date.now()));
      } finally {
        flush();
      }
      await io.stdout.drained();
      return EXIT.ok;
    });
  },
});

/** Texts of the model come whole: a log has no pieces of them. */
function changeText(change: Change, blocks: BlockText): string {
  if (change.type === "answer") return clean(change.text);
  if (change.type === "call") return blocks.started(change.call);
  return change.type === "block" && change.block.kind !== "end" ? blocks.of(change.block) : "";
}
