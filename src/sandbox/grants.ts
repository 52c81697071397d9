/** What a program may read and write, as a list of grants: for mechanisms that can't put one folder in the place of another. */

import { existsSync, readdirSync, realpathSync } from "node:fs";
import { join } from "node:path";
import { innerPath } from "../lib/inner-path.ts";
import type { Mount } from "./policy.ts";

export interface Grants {
  /** Files and folders with all that is in them. */
  read: string[];
  write: string[];
}

/** Not private here: programs write there by name, unless something in it is closed. */
const SHARED = ["/tmp", "/var/tmp"];

/**
 * The grants that come nearest to these mounts. A grant counts for all that is in a folder, so a folder with something
 * closed in it is granted by its entries. `whole`: what is closed there is granted with its project.
 */
export function grantsOf(mounts: readonly Mount[], whole: string): Grants {
  const moved = mounts.flatMap((mount) => ("from" in mount && mount.from !== mount.to ? [mount.to] : []));
  const hidden = mounts.flatMap((mount) => ("from" in mount ? [] : [mount.to]));
  const closed = [...moved, ...hidden]
    .filter((path) => !SHARED.includes(path) && innerPath(whole, path) === null)
    .flatMap((path) => [path, ...realOf(path)]);
  const open = (path: string): string[] => {
    const inside = closed.filter((one) => innerPath(path, one) !== null);
    if (inside.length === 0) return [path];
    // Its other entries are those of other programs, and many.
    if (inside.includes(path) || SHARED.includes(path)) return [];
    return namesIn(path).flatMap((name) => open(join(path, name)));
  };
  const granted = (kind: "read" | "write"): string[] =>
    mounts.flatMap((mount) => (mount.kind === kind && existsSync(mount.from) ? fromOf(mount, open) : []));
  const write = smallest([...SHARED.filter(existsSync).flatMap(open), ...granted("write")]);
  const system = namesIn("/")
    .filter((name) => name !== "dev")
    .flatMap((name) => open(`/${name}`));
  return { read: smallest([...system, ...granted("read")]), write };
}

/** A path that is closed as such, and given by a later mount, is given whole. */
function fromOf({ from, to }: { from: string; to: string }, open: (path: string) => string[]): string[] {
  if (from !== to) return [from];
  const parts = open(from);
  return parts.length === 0 ? [from] : parts;
}

/** Without what another of them holds. */
function smallest(paths: readonly string[]): string[] {
  const all = [...new Set(paths)];
  return all.filter((path) => !all.some((other) => other !== path && innerPath(other, path) !== null));
}

function realOf(path: string): string[] {
  return existsSync(path) ? [realpathSync(path)] : [];
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // A folder that can't be listed is not granted either.
  }
}
