/** The rights of a process, and the rules that a driver knows. */

import { nearestName } from "../../lib/edit-distance.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { PermissionRecord } from "../../store/runs/schema.ts";
import { AskLayers } from "./ask-rules.ts";
import { type Facts, isAtOrBelow, subjectKind, type ToolFacts } from "./call-view.ts";
import { type Layer, textsOf } from "./coverage.ts";
import type { OpenedFolder } from "./opened-folders.ts";
import { parseRule, type Rule } from "./rule.ts";

export interface Rights {
  /** The process's own list. */
  own: Layer;
  /** Rules of its mounts, by path. They extend its own list while the mount exists. */
  mounts: ReadonlyMap<string, Layer>;
  /** Mounts add nothing to its own list, because its spawner has set it. */
  fixed: boolean;
  /** Its own deny rules, from its spawn and from PID 0. */
  deny: Layer;
  /** Deny rules of ancestors, each with the process that made it and may remove it. */
  revoked: readonly { rule: Rule; by: string }[];
  /** The lists of all its ancestors. */
  above: readonly Layer[];
  /** The deny rules of all its ancestors. */
  denyAbove: Layer;
  /** Which of the covered calls a person decides. */
  asks: AskLayers;
  /** Folders outside of the project that a person has opened by a yes, here or in an ancestor. */
  opened: readonly OpenedFolder[];
}

/** The initial state of a process: no rules of its own, and no parent. */
export const FRESH: Rights = {
  own: [],
  mounts: new Map(),
  fixed: false,
  deny: [],
  revoked: [],
  above: [],
  denyAbove: [],
  asks: AskLayers.NONE,
  opened: [],
};

/** A rule for a removed tool or device covers nothing, but still denies. */
export function rightsFrom(record: PermissionRecord): Rights {
  const [own = [], ...above] = record.allow.map((layer) => layer.map(parseRule));
  return {
    ...FRESH,
    own,
    fixed: record.fixed === true,
    deny: record.deny.map(parseRule),
    revoked: (record.revoked ?? []).map(({ rule, by }) => ({ rule: parseRule(rule), by })),
    above,
    denyAbove: (record.deny_above ?? []).map(parseRule),
    asks: AskLayers.from(record),
    opened: record.opened ?? [],
  };
}

/** The rules of mounts are not in it: they come again with the mounts. */
export function recordOf(rights: Rights): PermissionRecord {
  const { own, deny, revoked, above, denyAbove, fixed, asks, opened } = rights;
  return {
    allow: [own, ...above].map(textsOf),
    deny: textsOf(deny),
    ...(revoked.length > 0 && { revoked: revoked.map(({ rule, by }) => ({ rule: rule.text, by })) }),
    ...(denyAbove.length > 0 && { deny_above: textsOf(denyAbove) }),
    ...(fixed && { fixed }),
    ...asks.record(),
    ...(opened.length > 0 && { opened: [...opened] }),
  };
}

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
