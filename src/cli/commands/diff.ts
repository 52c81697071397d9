/** `rnix diff`: shows what a run changed in files. */

import { changedFiles, runAndFiles } from "../changed-files.ts";
import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { bool, count, json } from "../flags.ts";
import { patchText, problemsText, statText } from "../output/changes.ts";
import { styleOf } from "../output/style.ts";
import { withRun } from "../target.ts";

/** git compares the files. */
const TIMEOUT_MS = 60_000;

export default defineCommand({
  about: "Show what a run, its commands and its children changed in files",
  args: [
    {
      name: "PID",
      about: "a PID, a UUID or the beginning of one; the project's last run by default",
      optional: true,
    },
    { name: "FILE", about: "only these files and folders", optional: true, many: true, file: true },
  ],
  flags: {
    stat: bool("print files, steps and lines instead of the patch"),
    step: count("only the changes of this step", "N"),
    "from-step": count("only the changes of this step and later ones", "N"),
    json,
  },
  examples: [
    { line: "rnix diff 3", about: "as a patch, coloured on a terminal" },
    { line: "rnix diff 3 --stat", about: "files with added and removed lines, and the same by step" },
    { line: "rnix diff 3 src > run.patch", about: "of the files below src, for git apply" },
    { line: "rnix diff 3 --step 4", about: "what step 4 changed" },
  ],
  notes: [
    "In a git work tree all files that are not ignored are compared, before each step that may change something. Elsewhere only what Write, Edit and tools like them changed is known.",
    "Rnix takes bytes as they are: no filters, no conversion of line ends. Nothing is written to the repository.",
  ],
  run(io, flags, args) {
    if (flags.step !== undefined && flags["from-step"] !== undefined)
      throw usageError("--step and --from-step exclude each other");
    const { run, files } = runAndFiles(args);
    return withRun(io, run, async (wire, of) => {
      const style = styleOf(io, io.stdout);
      const query = { step: flags.step, from_step: flags["from-step"], files: changedFiles(io, files) };
      const patch = flags.json || !flags.stat;
      const diff = await wire.request("diff", { ...of, ...query, patch }, { timeoutMs: TIMEOUT_MS });
      if (flags.json) {
        io.stdout.write(`${JSON.stringify(diff, null, 2)}\n`);
        return EXIT.ok;
      }
      io.stderr.write(problemsText(diff));
      io.stdout.write(
        flags.stat || diff.patch === null ? statText(diff, io.stdout, style) : patchText(diff.patch, style),
      );
      return EXIT.ok;
    });
  },
});
