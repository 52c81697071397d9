/** `rnix undo`: takes back what a run changed in files. */

import { realpathSync } from "node:fs";
import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { bool, count, json } from "../flags.ts";
import { refuseInsideRun } from "../io.ts";
import { refusedText, undoText } from "../output/changes.ts";
import { printable } from "../output/format.ts";
import { print } from "../output/print.ts";
import { styleOf } from "../output/style.ts";
import { CHANGED_FILES, changedFiles, RUN_ARGUMENT, runAndFiles, withRun } from "../processes/target.ts";

const TIMEOUT_MS = 10 * 60_000;

export default defineCommand({
  about: "Take back what a run, its commands and its children changed in files",
  args: [RUN_ARGUMENT, CHANGED_FILES],
  flags: {
    "to-step": count("keep the changes up to this step", "N"),
    redo: bool("make the changes of the last undo again"),
    "dry-run": bool("print what would change, and change nothing"),
    force: bool("overwrite the named files even if they were changed since"),
    json,
  },
  examples: {
    "rnix undo 3 --dry-run": "what would be restored, removed and created again",
    "rnix undo 3": "all changes of the run",
    "rnix undo 3 src/a.ts": "the changes of one file",
    "rnix undo 3 --to-step 4": "keep what the first four steps changed",
    "rnix undo 3 --redo": "the last undo was a mistake",
  },
  notes: [
    "A file that was changed since is left alone and named, the others are taken back, and the exit code is 1.",
    "Index, commits and branches of git, ignored files and submodules are not touched. What commands did beside the files of the project is not undone.",
    "A live run must wait or be paused. If it is resumed later, its model is notified of the files.",
  ],
  async run(io, flags, args) {
    await refuseInsideRun(io, "undo");
    if (flags.redo && flags["to-step"] !== undefined)
      throw usageError("--redo and --to-step exclude each other");
    const { run, files } = runAndFiles(args);
    if (flags.force && files.length === 0)
      throw usageError("--force needs FILE: name the files whose later changes may be lost");
    return withRun(io, run, async (wire, of) => {
      const { redo, force } = flags;
      const query = { ...of, files: changedFiles(io, files), to_step: flags["to-step"], redo, force };
      const planned = await wire.request("undo", { ...query, dry_run: true }, { timeoutMs: TIMEOUT_MS });
      const { notesTo } = await import("../output/notes.ts");
      const notes = notesTo(io.stderr);
      for (const text of [...planned.notes, ...planned.warnings]) notes.info(printable(text));
      const report = flags["dry-run"]
        ? planned
        : await wire.request("undo", query, { timeoutMs: TIMEOUT_MS });
      print(io, flags, report, (style) => undoText(report, style));
      io.stderr.write(refusedText(report, realpathSync(io.cwd), styleOf(io, io.stderr)));
      return report.refused > 0 ? EXIT.error : EXIT.ok;
    });
  },
});
