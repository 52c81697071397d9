/** Explains errors of confined programs that come from their sandbox: the path, why, and what would allow it. */

import { lstatSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { errnoOf } from "../lib/error-detail.ts";
import { innerPath } from "../lib/inner-path.ts";
import { coveredBy, type Mount } from "./mount.ts";

/** What a program saw when it failed. */
export interface SandboxView {
  mounts: readonly Mount[];
  /** The mounts are there. Otherwise rights were taken away: what is hidden is there, and refused. */
  isInPlace: boolean;
  /** The folders that the run may use. */
  given: readonly string[];
  isReadOnly: boolean;
  cwd: string;
  home: string | undefined;
}

/** Messages of the C library, shells, git, Node.js and Python. */
const WRITE =
  /Read-only file system|\bEROFS\b|Device or resource busy|\bEBUSY\b|Permission denied|\bEACCES\b/i;
const MISSING = /No such file or directory|\bENOENT\b/i;

/** A quoted path, a path with a slash, and what stands before the message: `touch: name: Read-only file system`. */
const PATHS = [
  /["'`\u2018]([^"'`\u2018\u2019\n]{1,400})["'`\u2019]/g,
  /(?<![\w.~/-])((?:~|\.{0,2})\/[^\s:"']{1,400}|[\w.@+-]+(?:\/[\w.@+-]+)+)/g,
  /: ([^:\n]{1,400}): (?=Read-only|Device|Permission|No such)/g,
];

/** What a shell writes before its own messages: `/usr/bin/bash: line 1: `. */
const SHELL = /^\S*sh: (?:line )?\d+: /;

const MAX_CHARS = 64 * 1024;
const MAX_LINES = 200;
const MAX_REFUSALS = 5;

/** A line for each path whose refusal the sandbox explains, of the end of an output. */
export function refusals(output: string, view: SandboxView): string[] {
  const lines = output.slice(-MAX_CHARS).split("\n");
  const failed = lines.filter((line) => WRITE.test(line) || MISSING.test(line)).slice(-MAX_LINES);
  const found = new Map<string, string>();
  for (const line of failed) {
    const explain = WRITE.test(line) ? whyNotWritten : whyMissing;
    for (const path of pathsIn(line, view)) {
      const why = explain(path, view);
      if (why === null) continue;
      found.set(path, `${path} ${why}`);
      break;
    }
    if (found.size === MAX_REFUSALS) break;
  }
  return [...found.values()];
}

function pathsIn(line: string, { cwd, home }: SandboxView): string[] {
  // The first path of a message of a shell ends at a colon.
  const text = SHELL.test(line) ? `: ${line.replace(SHELL, "")}` : line;
  const written = PATHS.flatMap((pattern) => [...text.matchAll(pattern)].map(([, path = ""]) => path));
  return written.map((path) =>
    path.startsWith("~/") && home ? resolve(home, path.slice(2)) : resolve(cwd, path),
  );
}

function whyNotWritten(path: string, view: SandboxView): string | null {
  const { mounts, given, isReadOnly, isInPlace } = view;
  const mount = coveredBy(path, mounts);
  if (mount?.rule !== undefined) return ruleText(mount.rule);
  const isMoved = mount !== undefined && (!("from" in mount) || mount.from !== mount.to);
  if (!isInPlace && isMoved && isThere(path)) return hiddenText(path);
  if (isInPlace || !isMoved) {
    if (mount?.kind === "write" || mount?.kind === "folder") return null;
    if (mount?.kind === "file") return hiddenText(path);
  }
  const isGiven = given.some((folder) => innerPath(folder, path) !== null);
  if (isGiven && isReadOnly)
    return "is read-only in this sandbox. Only the user can allow it: --sandbox-level project";
  if (isGiven)
    return `is protected by the sandbox: it acts later, with the user's rights. Only the user can allow it, by a rule that names it, such as Write(${mount?.to ?? path}), or by --sandbox off`;
  return isThere(dirname(path))
    ? `is outside of the project. Only the user can allow it: --add ${dirname(path)}`
    : null;
}

/** It exists outside of the sandbox only. */
function whyMissing(path: string, { mounts }: SandboxView): string | null {
  const mount = coveredBy(path, mounts);
  if (mount === undefined || mount.kind === "read" || !isThere(path)) return null;
  if (mount.rule !== undefined) return ruleText(mount.rule);
  if (mount.kind !== "write") return hiddenText(path);
  const inside = resolve(mount.from, innerPath(mount.to, path) ?? "");
  return inside === path || isThere(inside) ? null : hiddenText(path);
}

function ruleText(rule: string): string {
  return `is closed to programs by the deny rule ${rule} of this run`;
}

function hiddenText(path: string): string {
  return `is hidden by the sandbox. Only the user can allow it: --add ${path}, unless it holds keys, or --sandbox off`;
}

function isThere(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch (error) {
    // Such as a folder that this process may not search, or a part that is no folder.
    if (errnoOf(error) === undefined) throw error;
    return false;
  }
}
