/** Writes lines of `allow_always` into a project's config.yaml, and keeps everything else in it. */

import { chmodSync, rmSync, type Stats, statSync } from "node:fs";
import { join } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import { refuseEscape } from "../config-sources.ts";
import { readText, writeAtomic } from "../files/file.ts";
import { parseYaml } from "../files/yaml.ts";
import { type Project, ProjectAnswers } from "../project/project.ts";
import { Trust } from "../trust/trust.ts";
import { ALLOW_ALWAYS, ConfigFile, MAX_ALWAYS } from "./settings.ts";

/** Allows rules in every later run of the project, by a person's answer. Returns the file. Fails with EXHAUSTED when it has too many. */
export async function allowAlways(
  userDataDir: string,
  project: Project,
  rules: readonly string[],
): Promise<Stats> {
  await changeRules(userDataDir, project, (before) => [...new Set([...before, ...rules])]);
  const answers = new ProjectAnswers(userDataDir, project);
  answers.set([...answers.rules, ...rules]);
  return statSync(configFile(project));
}

function configFile({ dir }: Project): string {
  return join(dir, ".rnix", "config.yaml");
}

/** Asks for these calls again. Returns the rules that the project's file does not have. */
export async function withdrawAlways(
  userDataDir: string,
  project: Project,
  rules: readonly string[],
): Promise<string[]> {
  const before = await changeRules(userDataDir, project, (all) =>
    all.filter((rule) => !rules.includes(rule)),
  );
  const answers = new ProjectAnswers(userDataDir, project);
  answers.set(answers.rules.filter((rule) => !rules.includes(rule)));
  return rules.filter((rule) => !before.includes(rule));
}

/** Returns the rules that the file had. */
async function changeRules(
  userDataDir: string,
  project: Project,
  change: (before: readonly string[]) => string[],
): Promise<string[]> {
  const file = configFile(project);
  refuseEscape(file, project);
  const yaml = await import("yaml");
  const text = readText(file);
  const { allow_always: before = [] } = (await parseYaml(ConfigFile, text ?? "", file)).value;
  const after = change(before);
  if (after.length > MAX_ALWAYS) {
    throw new SyscallError(
      "EXHAUSTED",
      `${file} has ${before.length} rules in ${ALLOW_ALWAYS}, and at most ${MAX_ALWAYS} are taken. \`rnix trust --ask-again RULE\` withdraws one.`,
    );
  }
  if (after.length === before.length) return before;
  const document = yaml.parseDocument(text ?? "");
  if (!yaml.isSeq(document.get(ALLOW_ALWAYS))) document.set(ALLOW_ALWAYS, new yaml.YAMLSeq());
  const lines = document.get(ALLOW_ALWAYS);
  if (yaml.isSeq(lines)) {
    lines.items = lines.items.filter((_, at) => after.includes(before[at] ?? ""));
    for (const rule of after.filter((one) => !before.includes(one))) lines.add(document.createNode(rule));
  }
  // A key without rules is removed, unless the file has comments, which would be removed with it.
  if (after.length === 0 && !text?.includes("#")) document.delete(ALLOW_ALWAYS);
  const isEmpty = yaml.isMap(document.contents) && document.contents.items.length === 0;
  const written = isEmpty ? "" : document.toString({ lineWidth: 0 });
  await parseYaml(ConfigFile, written, file);
  const mode = statSync(file, { throwIfNoEntry: false })?.mode ?? 0o644;
  if (written === "") rmSync(file, { force: true });
  else {
    writeAtomic(file, written);
    chmodSync(file, mode & 0o777);
  }
  new Trust(userDataDir, project).rewritten(file, text, written);
  return before;
}
