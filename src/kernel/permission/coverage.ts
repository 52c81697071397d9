/** Rules against one call. */

import { type CallView, isAtOrBelow } from "./call-view.ts";
import { coversLine, deniesLine } from "./command-pattern.ts";
import { isAbove, isWild, matchesBelow, matchPath, type PathSegments, segments, startsWith } from "./glob.ts";
import { namesProtected, type Protection } from "./protected-paths.ts";
import type { Rule } from "./rule.ts";
import { liesBelow, matchesAllBelow, namesTool } from "./rule-reach.ts";

export type Layer = readonly Rule[];

export function textsOf(layer: Layer): string[] {
  return layer.map(({ text }) => text);
}

/** Returns the rule that covers the call, or the rules that do together; null when none does. */
export function coveredBy(layer: Layer, view: CallView): string | null {
  if (view.protection) return coversProtected(layer, view);
  const alone = layer.find((rule) => rule.kind !== "pattern" && covers(rule, view));
  return alone ? alone.text : patternsCover(layer, view);
}

/** Each target needs a rule of its own; a protected target needs a rule that names it. */
function coversProtected(layer: Layer, view: CallView): string | null {
  const used = view.targets.map((target, i) => {
    const protection = view.protections[i] ?? null;
    return layer.find((rule) => coversTarget(rule, target, protection, view))?.text;
  });
  return used.includes(undefined) ? null : [...new Set(used)].join(", ");
}

function coversTarget(
  rule: Rule,
  target: PathSegments,
  protection: Protection | null,
  view: CallView,
): boolean {
  if (rule.kind === "pattern") {
    if (rule.name !== view.tool?.name || !rule.path.covers(target)) return false;
    return protection === null || rule.path.names(target, protection);
  }
  if (!covers(rule, view)) return false;
  if (protection === null) return true;
  if (rule.kind !== "device" || target.relative === null) return false;
  const path = [...segments(view.device), ...target.relative];
  if (!(rule.glob ? matchPath(rule.segments, path) : startsWith(path, rule.segments))) return false;
  return namesProtected(rule.segments, path, protection, target.absolute.length - path.length);
}

function covers(rule: Exclude<Rule, { kind: "pattern" }>, view: CallView): boolean {
  if (rule.kind === "all") return true;
  if (rule.kind === "tool") return view.tool !== undefined && namesTool(rule, view.tool.name);
  if (!rule.glob)
    return isAtOrBelow(view.device || view.call.path, rule.text) || everyPath(view, rule.segments);
  return everyPath(view, rule.segments) || matchesAllBelow(rule.segments, view.device);
}

/** Several patterns of one tool can cover a call together: one for each command of a line. */
function patternsCover(layer: Layer, view: CallView): string | null {
  const { tool, kind } = view;
  if (!tool) return null;
  const rules = layer.filter((rule) => rule.kind === "pattern").filter((rule) => rule.name === tool.name);
  if (rules.length === 0) return null;
  const covered =
    kind === "command"
      ? coversLine(
          rules.map(({ command }) => command),
          view.commandLine,
        )
      : view.targets.length > 0 &&
        view.targets.every((target) =>
          rules.some(
            ({ path }) => path.covers(target) || (asksForEachFile(view) && path.coversBelow(target)),
          ),
        );
  return covered ? textsOf(rules).join(", ") : null;
}

/** Returns true when the call only names the start of a search: each file that it reaches is decided separately. */
function asksForEachFile({ tool, call }: CallView): boolean {
  return tool?.filters === true && call.opened === undefined;
}

/** Returns true when a folder with denied files is denied too: unless each file is decided separately. */
function deniesFromAbove(view: CallView): boolean {
  return view.call.opened === undefined && !asksForEachFile(view);
}

/** A call that can't be decided counts as denied. */
export function denies(rule: Rule, view: CallView): boolean {
  const { tool } = view.call;
  switch (rule.kind) {
    case "all":
      return true;
    case "device":
      return deviceDenies(rule, view);
    case "tool":
      // Opened raw, a device can do what this tool does.
      return tool === null
        ? view.toolsThere.some(({ name }) => namesTool(rule, name))
        : namesTool(rule, tool);
    case "pattern":
      if (tool === null) return view.toolsThere.some(({ name }) => name === rule.name);
      return tool === rule.name && patternDenies(rule, view);
  }
}

function patternDenies(rule: Rule & { kind: "pattern" }, view: CallView): boolean {
  if (view.kind === "command") return deniesLine(rule.command, view.commandLine);
  if (view.kind === undefined || view.targets.length === 0) return true;
  const fromAbove = deniesFromAbove(view);
  return view.targets.some(
    (target) => rule.path.denies(target) || (fromAbove && rule.path.deniesBelow(target)),
  );
}

/** Returns the first rule whose pattern denies the opened file to one of the tools. */
export function deniedTo(layer: Layer, tools: readonly string[], view: CallView): Rule | undefined {
  return layer.find(
    (rule) =>
      rule.kind === "pattern" &&
      tools.includes(rule.name) &&
      view.targets.some((target) => rule.path.denies(target)),
  );
}

function deviceDenies(rule: Rule & { kind: "device" }, view: CallView): boolean {
  const { path: asked, tool, opened } = view.call;
  if (isAtOrBelow(asked, rule.text)) return true;
  // A device that is opened raw at its root accepts any path.
  const anyPath = tool === null && opened === undefined && asked === view.device;
  if (anyPath && liesBelow(rule, view.device)) return true;
  const fromAbove = deniesFromAbove(view);
  const wanted = rule.segments.map((part) => part.toLowerCase());
  return view.devicePaths.some((path) => {
    if (path === null) return view.device === "" || liesBelow(rule, view.device);
    const folded = path.map((part) => part.toLowerCase());
    if (matchPath(wanted, folded) || (!rule.glob && startsWith(folded, wanted))) return true;
    return fromAbove && isAbove(folded, wanted);
  });
}

function everyPath(view: CallView, pattern: readonly string[]): boolean {
  const glob = pattern.some(isWild);
  const below = asksForEachFile(view);
  return view.devicePaths.every(
    (path) =>
      path !== null &&
      ((glob ? matchPath(pattern, path) : startsWith(path, pattern)) ||
        (below && matchesBelow(pattern, path))),
  );
}
