import { type Facts, subjectKind } from "./call-view.ts";
import { fitsWithin, matchWild } from "./glob.ts";
import type { Rule } from "./rule.ts";
import { coversDevice, coversWholeTool, namesTool, startsWith } from "./rule-reach.ts";

/**
 * Whether every call that `inner` covers is covered by `outer` alone. No where it can't be told. It decides
 * what is said to whoever grants; that no process holds more than its parent does not rest on it.
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
