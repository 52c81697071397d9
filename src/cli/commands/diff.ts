/** `rnix diff`: shows what a run changed in files. */

import { defineCommand } from "../command.ts";
import { usageError } from "../exit.ts";
import { bool, count, json } from "../flags.ts";
import { patchText, problemsText, statText } from "../output/changes.ts";
import { print } from "../output/print.ts";
import { CHANGED_FILES, changedFiles, RUN_ARGUMENT, runAndFiles, withRun } from "../processes/target.ts";

/** git compares the files. */
const TIMEOUT_MS = 60_000;

export default defineCommand({
  about: "Show what a run, its commands and its children changed in files",
  args: [RUN_ARGUMENT, CHANGED_FILES],
  flags: {
    stat: bool("print files, steps and lines instead of the patch"),
    step: count("only the changes of this step", "N"),
    "from-step": count("only the changes of this step and later ones", "N"),
    json,
  },
  examples: {
    "rnix diff 3": "its changes as a patch, coloured on a terminal",
    "rnix diff 3 --stat": "files with added and removed lines, and the same by step",
    "rnix diff 3 src > run.patch": "a patch of the files below src, for git apply",
    "rnix diff 3 --step 4": "what step 4 changed",
  },
  notes: [
    "In a git work tree all files that are not ignored are compared, before each step that may change something. Elsewhere only what Write, Edit and tools like them changed is known.",
    "Rnix takes bytes as they are: no filters, no conversion of line ends. Nothing is written to the repository.",
  ],
  run(io, flags, args) {
    if (flags.step !== undefined && flags["from-step"] !== undefined)
      throw usageError("--step and --from-step exclude each other");
    const { run, files } = runAndFiles(args);
    return withRun(io, run, async (wire, of) => {
      const query = { step: flags.step, from_step: flags["from-step"], files: changedFiles(io, files) };
      const patch = flags.json || !flags.stat;
      const diff = await wire.request("diff", { ...of, ...query, patch }, { timeoutMs: TIMEOUT_MS });
      const isUnchanged = diff.files.length === 0 && !flags.stat;
      if (!flags.json)
        io.stderr.write(`${problemsText(diff)}${isUnchanged ? "The run has changed no files.\n" : ""}`);
      return print(io, flags, diff, (style) =>
        flags.stat || diff.patch === null ? statText(diff, io.stdout, style) : patchText(diff.patch, style),
      );
    });
  },
});
