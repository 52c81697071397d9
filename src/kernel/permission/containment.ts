import { type Facts, subjectKind } from "./call-view.ts";
import { fitsWithin, matchWild } from "./glob.ts";
import { countProtected } from "./protected-paths.ts";
import type { Rule } from "./rule.ts";
import { coversDevice, coversWholeTool, namesTool, startsWith } from "./rule-reach.ts";

/**
 * Whether `outer` alone covers every call that `inner` covers; false if that can't be decided. It only decides the
 * message to the granter. The rule that no process holds more than its parent does not depend on it.
 */
export function contains(outer: Rule, inner: Rule, facts: Facts): boolean {
  if (outer.kind === "all" || outer.text === inner.text) return true;
  switch (inner.kind) {
    case "all":
      return false;
    case "tool":
      return containsTool(outer, inner, facts);
    case "pattern":
      return outer.kind === "pattern"
        ? outer.name === inner.name && containsPattern(outer, inner, facts)
        : containsTool(outer, { name: inner.name, glob: false }, facts);
    case "device":
      return outer.kind === "device" && containsDevice(outer, inner);
  }
}

/**
 * The same for rules that allow: a rule that names protected paths for a tool that writes is contained only in
 * one that names them too.
 */
export function allowsAll(outer: Rule, inner: Rule, facts: Facts): boolean {
  return contains(outer, inner, facts) && namesAsMuch(outer, inner, facts);
}

/**
 * Whether a list that holds the one rule gains nothing by the other. A path that a rule for writing names may be
 * protected on the disk, which is not looked at here: then only the same rule does.
 */
export function makesNeedless(held: Rule, rule: Rule, facts: Facts): boolean {
  return held.text === rule.text || (!namesWritten(rule, facts) && allowsAll(held, rule, facts));
}

/** Whether a rule allows writing to a protected path by its name alone. */
export function namesProtected(rule: Rule, facts: Facts): boolean {
  return namesWritten(rule, facts) && protectedNames(rule).size > 0;
}

function namesAsMuch(outer: Rule, inner: Rule, facts: Facts): boolean {
  if (!namesWritten(inner, facts)) return true;
  const held = protectedNames(outer);
  return [...protectedNames(inner)].every(([name, count]) => (held.get(name) ?? 0) >= count);
}

/** Whether it is about paths that may be written to. */
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
  // Without a star it is everything below, too.
  const parts = inner.glob ? inner.segments : [...inner.segments, "**"];
  if (!inner.glob && coversDevice(outer, inner.text)) return true;
  return matchWild(outer.segments, parts, "**", (wanted, part) => part !== "**" && fitsWithin(wanted, part));
}
