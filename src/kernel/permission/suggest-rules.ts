/** Suggests the rules that "always" would allow, for a call that a person is asked about. */

import { type AskPorts, type AskRights, foldersOf, isAnswered, needsIn } from "./ask-rules.ts";
import type { CallView } from "./call-view.ts";
import { alwaysPattern, exactPattern, PLAIN } from "./command-kinds.ts";
import { coveredBy } from "./coverage.ts";
import { patternToOpen } from "./opened-folders.ts";
import { parseRule } from "./rule.ts";

const MAX_RULES = 3;

/**
 * Returns rules that together cover this call and others like it: for a command its program and subcommand, or the
 * whole command where its arguments may name a program; for a file that file; for an address its host; else the tool. Empty when no rule can be
 * shown that covers it.
 */
export function suggestRules(view: CallView, rights: AskRights, ports: AskPorts): string[] {
  const { tool } = view.call;
  if (tool === null || view.tool === undefined) return [];
  if (!view.runsCommand) {
    const rules = ruleOf(view, tool);
    return rules.length === 0 || coveredBy(rules.map(parseRule), view) === null ? [] : rules;
  }
  const needs = needsIn(view, { ...rights, always: [] }, ports);
  // Asked for by a rule although it only reads: its commands are what can be allowed.
  const asked =
    needs.length > 0
      ? needs
      : (view.commandLine ?? []).map((command) => ({ command, folders: foldersOf(view), file: null }));
  const found = asked.map(({ command, folders, file }) => {
    if (file) return fileRules(file);
    const first = command ? alwaysPattern(command.words) : null;
    const patterns = command && first !== null ? [first, exactPattern(command.words)] : [];
    const offered = patterns.filter((pattern) => pattern !== null).map((pattern) => `${tool}(${pattern})`);
    const fitting = offered.find((rule) => isAnswered([parseRule(rule)], view, { command, folders }));
    return fitting === undefined ? [] : [fitting];
  });
  const rules = [...new Set(found.flat())];
  if (found.some((offered) => offered.length === 0) || rules.length === 0 || rules.length > MAX_RULES)
    return [];
  // A person allows what is shown: it must be what counts.
  const parsed = rules.map(parseRule);
  const folders = foldersOf(view);
  const isCovered =
    needsIn(view, { ...rights, always: parsed }, ports).length === 0 &&
    (needs.length > 0 ||
      (view.commandLine ?? []).every((command) => isAnswered(parsed, view, { command, folders })));
  return isCovered ? rules : [];
}

function ruleOf(view: CallView, tool: string): string[] {
  if (view.tool?.subject === undefined) return [tool];
  if (view.kind === "path") return fileRules(view);
  const { subject = "" } = view.call;
  const url = URL.parse(subject);
  const pattern = url !== null && /^https?:$/.test(url.protocol) ? `${url.origin}/*` : subject;
  return PLAIN.test(pattern.replace(/\/\*$/, "")) ? [`${tool}(${pattern})`] : [];
}

function fileRules(view: CallView): string[] {
  const target = view.targets.at(-1);
  if (target === undefined) return [];
  const path = target.relative?.join("/") ?? patternToOpen(`/${target.absolute.join("/")}`, view.projectDir);
  return /^[^*?()[\]{}\\\p{C}\p{DI}\u{2800}]+(?:\/\*\*)?$/u.test(path) ? [`${view.call.tool}(${path})`] : [];
}
