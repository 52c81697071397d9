/** Compares two rules: whether one covers everything that the other covers. */

import { type Facts, subjectKind } from "./call-view.ts";
import { coversDevice, coversWholeTool, namesTool } from "./coverage.ts";
import { fitsWithin, matchWild, startsWith } from "./glob.ts";
import { countProtected } from "./protected-paths.ts";
import type { Rule } from "./rule.ts";

/**
 * Returns true when `outer` alone covers every call that `inner` covers; false if that can't be decided. It decides
 * messages only: the rule that no process has more rights than its parent does not depend on it.
 */
export function contains(outer: Rule, inner: Rule, facts: Facts): boolean {
  if (outer.kind === "all" || outer.text === inner.text) return true;
  if (inner.kind === "all") return false;
  if (inner.kind === "tool") return containsTool(outer, inner, facts);
  if (inner.kind === "device") return outer.kind === "device" && containsDevice(outer, inner);
  if (outer.kind !== "pattern") return containsTool(outer, { name: inner.name, glob: false }, facts);
  return outer.name === inner.name && containsPattern(outer, inner, facts);
}

/**
 * Like `contains`, for allow rules: a rule that names protected paths for a writing tool is contained only in a rule
 * that names them too.
 */
export function allowsAll(outer: Rule, inner: Rule, facts: Facts): boolean {
  return contains(outer, inner, facts) && namesAsMuch(outer, inner, facts);
}

/**
 * Returns true when a list with the rule `held` gains nothing by `rule`. A path in a rule for writing may be protected
 * on disk, which is not checked here: then only an equal rule counts.
 */
export function makesNeedless(held: Rule, rule: Rule, facts: Facts): boolean {
  return held.text === rule.text || (!namesWritten(rule, facts) && allowsAll(held, rule, facts));
}

/** Returns true when a rule names a protected path and allows writing there. */
export function namesProtected(rule: Rule, facts: Facts): boolean {
  return namesWritten(rule, facts) && protectedNames(rule).size > 0;
}

function namesAsMuch(outer: Rule, inner: Rule, facts: Facts): boolean {
  if (!namesWritten(inner, facts)) return true;
  const held = protectedNames(outer);
  return [...protectedNames(inner)].every(([name, count]) => (held.get(name) ?? 0) >= count);
}

/** Returns true when the rule is for a tool that writes to paths. */
function namesWritten(rule: Rule, facts: Facts): boolean {
  if (rule.kind === "device") return !facts.devices.includes(rule.text);
  const tool = rule.kind === "pattern" ? facts.tools.find(({ name }) => name === rule.name) : undefined;
  return tool !== undefined && tool.readOnly !== true && subjectKind(tool) === "path";
}

function protectedNames(rule: Rule): ReadonlyMap<string, number> {
  if (rule.kind === "pattern") return rule.path.protectedNames;
  return rule.kind === "device" ? countProtected(rule.segments) : new Map();
}

function containsTool(outer: Rule, inner: { name: string; glob: boolean }, facts: Facts): boolean {
  if (outer.kind === "tool") return namesTool(outer, inner.name);
  const tools = facts.tools.filter((tool) => namesTool(inner, tool.name));
  return tools.length > 0 && tools.every((tool) => coversWholeTool(outer, tool));
}

function containsPattern(
  outer: Rule & { kind: "pattern" },
  inner: Rule & { kind: "pattern" },
  facts: Facts,
): boolean {
  const tool = facts.tools.find(({ name }) => name === inner.name);
  if (!tool) return false;
  return subjectKind(tool) === "command"
    ? outer.command.contains(inner.command)
    : outer.path.contains(inner.path);
}

function containsDevice(outer: Rule & { kind: "device" }, inner: Rule & { kind: "device" }): boolean {
  if (!outer.glob) return startsWith(inner.segments, outer.segments);
  // Without a star it includes everything below.
  const parts = inner.glob ? inner.segments : [...inner.segments, "**"];
  if (!inner.glob && coversDevice(outer, inner.text)) return true;
  return matchWild(outer.segments, parts, "**", (wanted, part) => part !== "**" && fitsWithin(wanted, part));
}
