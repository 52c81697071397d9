/** Prints what a run changed in files, and what was taken back. */

import { relative, resolve } from "node:path";
import { isOddName } from "../../lib/file-name.ts";
import type { FileChange, RunDiff, UndoneFile, UndoReport } from "../../protocol/methods.ts";
import type { Output } from "../io.ts";
import { shellWord } from "../system/own-name.ts";
import { plural, printable } from "./format.ts";
import type { Style } from "./style.ts";
import { type Column, table } from "./table.ts";

/** Maximum files that the line with `--force` names. */
const MAX_FORCED = 20;

/** Colours the lines of a patch. Without colours it is the patch itself. */
export function patchText(patch: string, style: Style): string {
  return patch
    .split("\n")
    .map((line) => patchLine(line, style))
    .join("\n");
}

export function patchLine(line: string, style: Style): string {
  if (/^(?:\+\+\+|---|diff|index) /.test(line)) return style.bold(line);
  if (line.startsWith("@@")) return style.cyan(line);
  if (line.startsWith("+")) return style.green(line);
  return line.startsWith("-") ? style.red(line) : line;
}

/** One line for each file, then one for each step, then the sum. */
export function statText({ files, steps }: RunDiff, output: Output, style: Style): string {
  const valid = files.filter(({ undone }) => !undone);
  const columns: Column<FileChange>[] = [
    { title: "FILE", value: ({ path }) => path, flexible: true },
    { title: "CHANGE", value: ({ status, undone }) => (undone ? "taken back" : status) },
    { title: "LINES", value: linesOf },
    { title: "STEPS", value: (file) => file.steps.join(",") },
  ];
  const listed = files.length > 0 ? table(files, columns, output, style) : "";
  const ofStep: Column<RunDiff["steps"][number]>[] = [
    { title: "STEP", value: ({ step }) => String(step), right: true },
    { title: "FILES", value: (one) => String(one.files), right: true },
    { title: "LINES", value: linesOf },
  ];
  const bySteps = steps.length > 1 ? `\n${table(steps, ofStep, output, style)}` : "";
  const sum = (of: "added" | "removed"): number => valid.reduce((all, file) => all + (file[of] ?? 0), 0);
  const total =
    valid.length === 0
      ? "nothing changed\n"
      : `${plural(valid.length, "file")} changed, +${sum("added")} -${sum("removed")}\n`;
  return `${listed}${bySteps}${style.dim(total.trimEnd())}\n`;
}

/** `+2 -1` */
function linesOf({ added, removed }: Pick<FileChange, "added" | "removed">): string {
  return added === null || removed === null ? "-" : `+${added} -${removed}`;
}

/** Files that can't be shown or taken back, and what is not known: for stderr. */
export function problemsText({ files, notes }: Pick<RunDiff, "files" | "notes">): string {
  const problems = files.flatMap(({ path, problem }) => (problem === null ? [] : [`${path}: ${problem}`]));
  return [...problems, ...notes].map((text) => `note: ${printable(text)}\n`).join("");
}

const DONE: Record<Exclude<UndoneFile["done"], "refused">, [done: string, would: string]> = {
  restored: ["restored", "would be restored"],
  removed: ["removed", "would be removed"],
  recreated: ["created again", "would be created again"],
  unchanged: ["unchanged", "unchanged"],
};

export function undoText({ files, dry_run, redo }: UndoReport, style: Style): string {
  const lines = files.flatMap((file) => {
    if (file.done === "refused") return [];
    const [done, would] = DONE[file.done];
    const lines = file.done === "unchanged" ? "" : ` ${style.dim(linesOf(file))}`;
    return [`${dry_run ? would : done}  ${printable(file.path)}${lines}\n`];
  });
  if (files.length > 0) return lines.join("");
  return `nothing to ${redo ? "make again" : "take back"}\n`;
}

/** What was refused, why, and the command that takes it back anyway: for stderr. `cwd`: the user's folder. */
export function refusedText(report: UndoReport, cwd: string, style: Style): string {
  const { pid, project, redo, to_step, files } = report;
  const refused = files.filter(({ done }) => done === "refused");
  const lines = refused.map(
    ({ path, reason }) => `${style.red("left alone")}  ${printable(path)}: ${printable(reason ?? "")}\n`,
  );
  // A name that can't be printed can't be typed, either.
  const forcible = refused.filter(
    ({ path, forcible: can }) => can && printable(path) === path && !isOddName(path),
  );
  if (forcible.length > 0) {
    const how = redo ? " --redo" : to_step > 0 ? ` --to-step ${to_step}` : "";
    const names = forcible
      .slice(0, MAX_FORCED)
      .map(({ path }) => shellWord(relative(cwd, resolve(project, path)).replace(/^-/, "./-")));
    lines.push(`To overwrite what was changed since: rnix undo ${pid} ${names.join(" ")}${how} --force\n`);
  }
  return lines.join("");
}
