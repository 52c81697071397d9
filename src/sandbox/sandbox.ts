/** Confines a program: its command line and environment become those of a program in a sandbox. */

import { lstatSync, mkdirSync } from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import { errnoOf } from "../lib/error-detail.ts";
import { innerPath } from "../lib/inner-path.ts";
import { grantsOf } from "./grants.ts";
import { landlock } from "./landlock.ts";
import { BINARY_DIR, coveredBy, type Mount, mountsOf, type Sandbox, type SandboxScope } from "./policy.ts";
import { seatbelt } from "./seatbelt.ts";

/** A program to start, or the confined one in its place. */
export interface SandboxedProgram {
  argv: readonly string[];
  cwd: string;
  env: Readonly<Record<string, string>>;
}

/**
 * The command line before that of a program in a sandbox, and its environment. Looks at the file system: a path that is not
 * there is not named.
 */
export function sandboxed(
  { mechanism, program }: Sandbox,
  scope: SandboxScope,
  { cwd, env }: Pick<SandboxedProgram, "cwd" | "env">,
): { confine: string[]; env: Record<string, string>; mounts: Mount[] } {
  for (const folder of [scope.temp, scope.home])
    if (folder !== null) mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { PATH = "" } = env;
  const mounts = mountsOf(scope);
  if (mechanism === "landlock")
    return {
      mounts,
      confine: landlock(program, grantsOf(mounts, scope.project)),
      env: withCaches(env, scope),
    };
  if (mechanism === "seatbelt")
    return { mounts, confine: seatbelt(program, mounts), env: withCaches(env, scope) };
  return {
    mounts,
    confine: bubblewrap({ program, mounts, cwd, isRoot: scope.isRoot }),
    env: { ...env, TMPDIR: "/tmp", PATH: `${BINARY_DIR}${delimiter}${PATH}` },
  };
}

/** The home of the user stays, and can't be written: caches have their place in the private one. */
function withCaches(
  env: SandboxedProgram["env"],
  { temp, home }: Pick<SandboxScope, "temp" | "home">,
): Record<string, string> {
  return {
    ...env,
    ...(temp !== null && { TMPDIR: temp }),
    XDG_CACHE_HOME: join(home, ".cache"),
    npm_config_cache: join(home, ".npm"),
    GOMODCACHE: join(home, "go/pkg/mod"),
    BUN_INSTALL_CACHE_DIR: join(home, ".bun/cache"),
  };
}

/** Rights that builds of root use on files, with their numbers (capabilities(7)). All others, such as those to mount or to make devices, are dropped. */
export const ROOT_RIGHTS = {
  CHOWN: 0,
  DAC_OVERRIDE: 1,
  FOWNER: 3,
  FSETID: 4,
  KILL: 5,
  SETGID: 6,
  SETUID: 7,
  NET_BIND_SERVICE: 10,
};

interface BubblewrapOptions {
  program: string;
  mounts: readonly Mount[];
  cwd: string;
  isRoot: boolean;
}

/**
 * A read-only view of the system, with processes, devices and IPC of its own. The program and its arguments follow. Not
 * `--die-with-parent`: what a program left is ended by its owner, after the time that it has to end by itself.
 */
export function bubblewrap({ program, mounts, cwd, isRoot }: BubblewrapOptions): string[] {
  return [
    program,
    "--unshare-pid",
    "--unshare-ipc",
    ...(isRoot
      ? ["--cap-drop", "ALL", ...Object.keys(ROOT_RIGHTS).flatMap((right) => ["--cap-add", `CAP_${right}`])]
      : []),
    ...["--ro-bind", "/", "/"],
    ...["--dev", "/dev"],
    ...["--proc", "/proc"],
    // Root could set a program of the kernel there. Bubblewrap covers them only where they look writable to it.
    ...["/proc/sys", "/proc/sysrq-trigger"].flatMap((path) => ["--ro-bind-try", path, path]),
    ...mounts.flatMap(argumentsOf),
    ...["--chdir", cwd],
    "--",
  ];
}

function argumentsOf(mount: Mount): string[] {
  switch (mount.kind) {
    case "read":
      return ["--ro-bind", mount.from, mount.to];
    case "write":
      return ["--bind", mount.from, mount.to];
    case "folder":
      return ["--perms", "0700", "--tmpfs", mount.to];
    case "closed":
      return ["--perms", "0555", "--tmpfs", mount.to, "--remount-ro", mount.to];
    case "file":
      return ["--ro-bind", "/dev/null", mount.to];
  }
}

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
