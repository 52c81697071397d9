/** Decides whether a person must be asked for a call that the rules allow. */

import type { AskMode } from "../../lib/ask-modes.ts";
import type { CallView } from "./call-view.ts";
import { coveredBy, deniedTo, denies, type Layer } from "./coverage.ts";
import { changesFolder, isEdit } from "./edit-commands.ts";
import { isHarmless } from "./harmless-commands.ts";
import type { Rule } from "./rule.ts";
import { namesTool } from "./rule-reach.ts";
import { mayEvaluateCode } from "./shell-builtins.ts";
import type { SimpleCommand } from "./shell-words.ts";

/** The name of a mode in place of a rule. */
export function modeName(mode: AskMode): string {
  return `the mode ${mode}`;
}

/** The mode plan refuses the call: no person is asked, and no "always" counts. */
export const PLAN = modeName("plan");

/** The ask rules of a process and of its ancestors, and the rules that a person has allowed. */
export interface AskRights {
  rules: Layer;
  mode: AskMode;
  /** Calls that these cover are not asked for. */
  always: Layer;
}

/**
 * Returns the ask rules that match the call and that no "always" has answered; empty when there is nothing to ask. A
 * call that can't be decided is asked for. Of a command line each command is decided by itself.
 */
export function askedBy(all: AskRights, view: CallView): string[] {
  const rights = { ...all, rules: all.rules.filter((rule) => mayName(rule, view.call.tool)) };
  // Most runs have ask rules for a few tools only: a command line is not parsed for these.
  if (rights.rules.length === 0 && rights.mode === "off") return [];
  const { commandLine } = lineOf(view);
  if (commandLine) {
    const mayEdit = rights.mode === "edits" && !changesFolder(commandLine);
    const found = commandLine.flatMap((command) =>
      mayEdit && isEdit(command, view)
        ? rulesFor({ ...rights, mode: "off" }, view, command)
        : rulesFor(rights, view, command),
    );
    return found.includes(PLAN) ? [PLAN] : [...new Set(found)];
  }
  if (rights.mode === "plan" && mayChange(view)) return [PLAN];
  const matching = rights.rules.filter((rule) => denies(rule, view)).map(({ text }) => text);
  // What only reads may reach a network, also in the mode plan.
  if (rights.mode !== "off" && isOutside(view))
    matching.push(modeName(rights.mode === "edits" ? "edits" : "outside"));
  return matching.length > 0 && coveredBy(rights.always, view) === null ? matching : [];
}

/** Returns the ask rules of these tools that match the opened file, and that no "always" has answered. */
export function askedForOpened(
  { rules, always }: AskRights,
  tools: readonly string[],
  view: CallView,
): string[] {
  const matching = rules.filter((rule) => deniedTo([rule], tools, view) !== undefined);
  if (matching.length === 0) return [];
  const allowed = always.filter((rule) => rule.kind === "pattern").filter(({ name }) => tools.includes(name));
  const covered = view.targets.every((target) => allowed.some(({ path }) => path.covers(target)));
  return covered ? [] : matching.map(({ text }) => text);
}

/** Whether the rule can match a call of this tool. null: a device is opened itself. */
function mayName(rule: Rule, tool: string | null): boolean {
  if (tool === null) return true;
  if (rule.kind === "pattern") return rule.name === tool;
  return rule.kind !== "tool" || namesTool(rule, tool);
}

/** The commands of a line that is understood as a whole. */
function lineOf(view: CallView): { commandLine: readonly SimpleCommand[] | null } {
  if (view.kind !== "command" || view.commandLine === null) return { commandLine: null };
  return { commandLine: mayEvaluateCode(view.commandLine) ? null : view.commandLine };
}

function rulesFor({ rules, mode, always }: AskRights, view: CallView, command: SimpleCommand): string[] {
  const matching = rules.filter((rule) => asksFor(rule, view, command)).map(({ text }) => text);
  if (mode !== "off" && isOutsideTool(view) && !isHarmless(command)) {
    if (mode === "plan") return [PLAN];
    matching.push(modeName(mode));
  }
  return always.some((rule) => covers(rule, view, command)) ? [] : matching;
}

function asksFor(rule: Rule, view: CallView, command: SimpleCommand): boolean {
  if (rule.kind !== "pattern") return denies(rule, view);
  return rule.name === view.tool?.name && rule.command.mayBe(command);
}

function covers(rule: Rule, view: CallView, command: SimpleCommand): boolean {
  if (rule.kind !== "pattern") return coveredBy([rule], view) !== null;
  return rule.name === view.tool?.name && rule.command.covers(command);
}

/** It is no tool that only reads, and writes files or acts outside. */
function mayChange(view: CallView): boolean {
  const isReadOnly = view.call.tool === null ? view.call.readOnly : view.tool?.readOnly;
  return isReadOnly !== true && (view.kind === "path" || isOutside(view));
}

/** A tool for files is asked for outside the project and the folders that are open to it. */
function isOutside(view: CallView): boolean {
  const { call, kind } = view;
  if (call.tool === null) return view.toolsThere.some(({ outside }) => outside) && call.readOnly !== true;
  if (kind !== "path") return isOutsideTool(view);
  return (!view.writes && isOutsideTool(view)) || !view.isInFolders;
}

function isOutsideTool({ tool }: CallView): boolean {
  return tool?.outside === true;
}
