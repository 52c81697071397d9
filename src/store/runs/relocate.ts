/** Adapts the record of a run whose project was copied or moved. */

import { realpathSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { projectOf } from "../files/data-dir.ts";
import type { ProcInfo } from "./schema.ts";

/**
 * Adapts a process record to the data folder where it was found. A record written in another data folder was copied
 * or moved with its project: `moved_from` names the old place, and paths of the old project change to the new one.
 */
export function located(info: ProcInfo, recorded: string, found: string): ProcInfo {
  if (recorded === found || isSameFolder(recorded, found)) return info;
  const [from, to] = [projectOf(recorded), projectOf(found)];
  if (from === null || to === null || from !== info.project) return { ...info, moved_from: recorded };
  const moved = (path: string): string => (isWithin(path, from) ? join(to, path.slice(from.length)) : path);
  const { permissions, env } = info;
  const rules = (list: string[]): string[] => list.map((rule) => movedRule(rule, from, to));
  // Deny rules keep the old path too: the old folder may still be accessible.
  const both = (list: string[]): string[] => [...new Set([...list, ...rules(list)])];
  return {
    ...info,
    project: to,
    cwd: moved(info.cwd),
    permissions: {
      ...permissions,
      allow: permissions.allow.map(rules),
      deny: both(permissions.deny),
      ...(permissions.deny_above && { deny_above: both(permissions.deny_above) }),
      ...(permissions.revoked && {
        revoked: permissions.revoked.flatMap(({ rule, by }) =>
          both([rule]).map((one) => ({ rule: one, by })),
        ),
      }),
    },
    env: { ...env, values: movedValues(env.values, moved) },
    moved_from: from,
  };
}

function movedValues(
  values: Record<string, string>,
  moved: (path: string) => string,
): Record<string, string> {
  const { PATH, PWD } = values;
  return {
    ...values,
    ...(PATH !== undefined && { PATH: PATH.split(":").map(moved).join(":") }),
    ...(PWD !== undefined && { PWD: moved(PWD) }),
  };
}

/** Replaces the path in a rule. The path ends where the rule or one of its words ends. */
function movedRule(rule: string, from: string, to: string): string {
  const literal = from.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return rule.replace(new RegExp(`(?<![\\w./-])${literal}(?=[/\\s)'"*:]|$)`, "g"), () => to);
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

/** Returns true for two names of one folder, such as a home folder behind a link. */
function isSameFolder(one: string, other: string): boolean {
  try {
    return isAbsolute(one) && realpathSync(one) === realpathSync(other);
  } catch {
    return false; // One of them does not exist.
  }
}
