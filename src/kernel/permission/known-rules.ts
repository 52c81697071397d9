/** Parses rules and checks that their names exist. */

import { nearestName } from "../../lib/edit-distance.ts";
import { SyscallError } from "../../plugin/index.ts";
import { type Facts, isAtOrBelow, subjectKind, type ToolFacts } from "./call-view.ts";
import { parseRule, type Rule } from "./rule.ts";

/** Fails with INVALID for an unknown name, so that a typing error does not silently change rights. */
export function knownRules(texts: readonly string[], facts: Facts): Rule[] {
  return texts.map((text) => {
    const rule = parseRule(text);
    checkKnown(rule, facts);
    return rule;
  });
}

function checkKnown(rule: Rule, facts: Facts): void {
  if (rule.kind === "all" || ("glob" in rule && rule.glob)) return;
  if (rule.kind === "device") {
    const there = facts.devices.some(
      (device) => isAtOrBelow(rule.text, device) || isAtOrBelow(device, rule.text),
    );
    if (!there) throw unknown("device", rule.text, rule.text, facts.devices);
    return;
  }
  const tool = facts.tools.find((candidate) => candidate.name === rule.name);
  if (!tool && facts.expected?.some((prefix) => rule.name.startsWith(prefix))) return;
  if (!tool) {
    const names = facts.tools.map((candidate) => candidate.name);
    throw unknown("tool", rule.name, rule.text, names);
  }
  if (rule.kind === "pattern") checkPattern(rule, tool);
}

function checkPattern(rule: Rule & { kind: "pattern" }, tool: ToolFacts): void {
  let problem: string | undefined;
  if (tool.subject === undefined) problem = `${tool.name} takes no patterns`;
  else if (subjectKind(tool) === "path" && rule.path.problem)
    problem = `the path pattern has ${rule.path.problem}`;
  if (problem) throw new SyscallError("INVALID", `Tool rule ${JSON.stringify(rule.text)}: ${problem}.`);
}

function unknown(what: string, name: string, rule: string, names: readonly string[]): SyscallError {
  const near = nearestName(name, names);
  const question = near === undefined ? "" : ` Did you mean ${JSON.stringify(near)}?`;
  const list = names.length === 0 ? "none" : names.toSorted().join(", ");
  const inRule = rule === name ? "" : ` (in the rule ${JSON.stringify(rule)})`;
  return new SyscallError(
    "INVALID",
    `There is no ${what} ${JSON.stringify(name)}${inRule}.${question} Known: ${list}.`,
  );
}
