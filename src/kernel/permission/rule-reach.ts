/** How far one rule reaches: over tools, devices and what lies below them. */

import { isAtOrBelow, type ToolFacts } from "./call-view.ts";
import { matchPath, matchText, segments } from "./glob.ts";
import type { Rule } from "./rule.ts";

export function namesTool(rule: { name: string; glob: boolean }, name: string): boolean {
  return rule.glob ? matchText(rule.name, name) : rule.name === name;
}

/** Returns true when the pattern ends in `**` and its other segments match the device or a path above it. */
export function matchesAllBelow(pattern: readonly string[], device: string): boolean {
  if (device === "" || pattern.at(-1) !== "**") return false;
  const parts = segments(device);
  return [[], ...parts.map((_, i) => parts.slice(0, i + 1))].some((above) =>
    matchPath(pattern.slice(0, -1), above),
  );
}

/** Returns true when the rule covers every use of this device, by any tool. */
export function coversDevice(rule: Rule, device: string): boolean {
  if (rule.kind === "all") return true;
  if (rule.kind !== "device") return false;
  return rule.glob ? matchesAllBelow(rule.segments, device) : isAtOrBelow(device, rule.text);
}

export function coversWholeTool(rule: Rule, tool: ToolFacts): boolean {
  if (rule.kind === "tool") return namesTool(rule, tool.name);
  return coversDevice(rule, tool.path);
}

export function touchesTool(rule: Rule, tool: ToolFacts): boolean {
  if (rule.kind === "pattern") return rule.name === tool.name;
  return coversWholeTool(rule, tool) || (rule.kind === "device" && liesBelow(rule, tool.path));
}

/** Returns true when some path at or below the device could match the rule. */
export function liesBelow(rule: Rule & { kind: "device" }, device: string): boolean {
  for (const [i, part] of segments(device).entries()) {
    const wanted = rule.segments[i];
    if (wanted === "**") return true;
    if (wanted === undefined || !matchText(wanted, part)) return false;
  }
  return true;
}

/** A character that no tool's name has: only a star takes it. */
const ANY = "\u{1}";

/** Every tool whose name begins with the prefix, and every device below the path. */
export function coversMount(rule: Rule, prefix: string, path: string): boolean {
  if (rule.kind === "tool") return rule.glob && matchText(rule.name, prefix + ANY);
  return coversDevice(rule, path);
}

/** Some tool whose name begins with the prefix could fit the rule. */
export function touchesMount(rule: Rule, prefix: string, path: string): boolean {
  if (rule.kind === "all") return true;
  if (rule.kind === "device") return coversDevice(rule, path) || liesBelow(rule, path);
  const [head = ""] = rule.name.split("*");
  const isGlob = rule.kind === "tool" && rule.glob;
  return rule.name.startsWith(prefix) || (isGlob && (prefix.startsWith(head) || head.startsWith(prefix)));
}
