import { realpathSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { projectOf } from "../files/data-dir.ts";
import type { ProcInfo } from "./schema.ts";

/**
 * A process record as it counts where it was found. One that was written in another data folder has been copied or
 * moved with its project: `moved_from` says from where, and paths in the old project lead into the one it is in now.
 */
export function located(info: ProcInfo, recorded: string, found: string): ProcInfo {
  if (recorded === found || isSameFolder(recorded, found)) return info;
  const [from, to] = [projectOf(recorded), projectOf(found)];
  if (from === null || to === null || from !== info.project) return { ...info, moved_from: recorded };
  const moved = (path: string): string => (isWithin(path, from) ? join(to, path.slice(from.length)) : path);
  const { permissions, env } = info;
  const rules = (list: string[]): string[] => list.map((rule) => movedRule(rule, from, to));
  // What was forbidden there stays so: the old folder may still be within reach.
  const both = (list: string[]): string[] => [...new Set([...list, ...rules(list)])];
  return {
    ...info,
    project: to,
    cwd: moved(info.cwd),
    permissions: {
      ...permissions,
      allow: permissions.allow.map(rules),
      deny: both(permissions.deny),
      ...(permissions.skills && { skills: rules(permissions.skills) }),
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

/** By these its programs find their way. */
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

/** A path in a rule ends where a rule or a word of it does. */
function movedRule(rule: string, from: string, to: string): string {
  const literal = from.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return rule.replace(new RegExp(`(?<![\\w./-])${literal}(?=[/\\s)'"*:]|$)`, "g"), () => to);
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

/** The same folder by another name, such as a home folder behind a link. */
function isSameFolder(one: string, other: string): boolean {
  try {
    return isAbsolute(one) && realpathSync(one) === realpathSync(other);
  } catch {
    return false; // One of them is not there.
  }
}
