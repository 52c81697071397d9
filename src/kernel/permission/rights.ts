/** The parts of a process's rights, and their record. */

import type { PermissionRecord } from "../../store/runs/schema.ts";
import { AskLayers } from "./ask-rights.ts";
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
export function recordOf({
  own,
  deny,
  revoked,
  above,
  denyAbove,
  fixed,
  asks,
  opened,
}: Rights): PermissionRecord {
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
