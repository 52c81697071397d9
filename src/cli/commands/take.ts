/** `rnix take`: takes what a run changed in its worktree. */

import type { TakeReport } from "../../protocol/methods.ts";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { bool, json } from "../flags.ts";
import { refuseInsideRun } from "../io.ts";
import { printable } from "../output/format.ts";
import { print } from "../output/print.ts";
import { CHANGED_FILES, changedFiles, RUN_ARGUMENT, runAndFiles, withRun } from "../processes/target.ts";

const TIMEOUT_MS = 10 * 60_000;

export default defineCommand({
  about: "Take what an agent changed in its worktree into the project",
  args: [RUN_ARGUMENT, CHANGED_FILES],
  flags: { "dry-run": bool("print what would be taken, and change nothing"), json },
  examples: {
    "rnix diff 4": "what the agent changed",
    "rnix take 4": "all of it; a file that conflicts is named and left as it is",
    "rnix take 4 src/a.ts": "one file",
  },
  notes: ["Exit code 1: a file conflicts. The changes stay in the record of the run."],
  async run(io, flags, args) {
    await refuseInsideRun(io, "take");
    const { run, files } = runAndFiles(args);
    return withRun(io, run, async (wire, of) => {
      const query = { ...of, files: changedFiles(io, files), dry_run: flags["dry-run"] };
      const report = await wire.request("take", query, { timeoutMs: TIMEOUT_MS });
      print(io, flags, report, () => textOf(report));
      return report.files.some(({ done }) => done === "conflict") ? EXIT.error : EXIT.ok;
    });
  },
});

function textOf({ files }: TakeReport): string {
  if (files.length === 0) return "the run has changed no files\n";
  return files
    .map(({ path, done, reason }) => `${printable(`${done}: ${path}${reason ? ` (${reason})` : ""}`)}\n`)
    .join("");
}
