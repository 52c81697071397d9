/** Sandboxes by bubblewrap: what the machine can do, and the arguments for a program. */

import { existsSync, lstatSync, mkdirSync } from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import { errnoOf } from "../lib/error-detail.ts";
import { LANDLOCK } from "../lib/hidden-modes.ts";
import { innerPath } from "../lib/inner-path.ts";
import { readRegularSync } from "../lib/regular-file.ts";
import { ownCommand } from "../os/own-program.ts";
import { resultOf } from "../os/user-programs.ts";
import { type Grants, grantsOf } from "./grants.ts";
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

/** Devices that programs write. */
const DEVICES = ["null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm"];

/** Landlock (landlock(7)) is for systems where no namespace can be made. `binary`: of Rnix, which gives up its rights and becomes the program that follows. */
function landlock(binary: string, { read, write }: Grants): string[] {
  const devices = DEVICES.map((name) => `/dev/${name}`);
  return [binary, LANDLOCK, JSON.stringify({ read: [...read, "/dev"], write: [...write, ...devices] })];
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

type Made = Pick<Sandbox, "mechanism" | "program">;

export type SandboxProbe =
  | ({ works: true } & Made)
  /** `why`: what is missing. `advice`: how to get it. `lesser`: what works, and is not whole. */
  | { works: false; why: string; advice: string; lesser?: Made | undefined };

const PROBE_MS = 10_000;
const MAX_BYTES = 4096;

/** The file of the program that makes sandboxes on Linux. */
export function findBubblewrap({ PATH = "" }: Environment): string | null {
  return Bun.which("bwrap", { PATH });
}

/** Runs /bin/sh in a sandbox with the mounts that every sandbox has. */
export async function probeSandbox(env: Environment): Promise<SandboxProbe> {
  const mounts = [{ kind: "folder", to: "/tmp" }] as const;
  if (process.platform !== "linux") {
    const program = "/usr/bin/sandbox-exec";
    const works = process.platform === "darwin" && (await proof(seatbelt(program, mounts), env)) === null;
    return {
      works: false,
      why: `there is no whole sandbox for ${process.platform} yet`,
      advice: "run it in a container",
      lesser: works ? { mechanism: "seatbelt", program } : undefined,
    };
  }
  const program = findBubblewrap(env);
  if (program === null) {
    return {
      works: false,
      why: "bubblewrap is not installed",
      advice: "apt-get install bubblewrap (or dnf, pacman, apk: the package has the same name)",
      lesser: await landlockHere(env),
    };
  }
  const argv = bubblewrap({ program, mounts, cwd: "/", isRoot: process.getuid?.() === 0 });
  const failure = await proof(argv, env);
  if (failure === null) return { works: true, mechanism: "bubblewrap", program };
  const why = `${program} makes no sandbox here: ${failure || "no output"}`;
  return { works: false, why, advice: advice(), lesser: await landlockHere(env) };
}

async function landlockHere(env: Environment): Promise<Made | undefined> {
  const [program = "", ...more] = ownCommand();
  // Only the compiled binary has the mode that becomes another program.
  if (more.length > 0) return undefined;
  const grants = { read: ["/usr", "/bin", "/lib", "/lib64", "/etc"], write: [] };
  return (await proof(landlock(program, grants), env)) === null
    ? { mechanism: "landlock", program }
    : undefined;
}

/** null: a program has run in it. Otherwise what it has printed. */
async function proof(confine: readonly string[], env: Environment): Promise<string | null> {
  // The first process of a PID namespace ends after the program that has made it.
  const limits = { cwd: "/", env, timeoutMs: PROBE_MS, maxBytes: MAX_BYTES, leavesOrphans: true };
  const result = await resultOf([...confine, "/bin/sh", "-c", `echo ${PROOF}`], limits);
  return result?.code === 0 && result.output === PROOF ? null : (result?.output ?? "");
}

type Environment = Readonly<Record<string, string | undefined>>;

const PROOF = "confined";

/** Settings that are 0 where user namespaces are switched off, and what switches them on. */
const USER_NAMESPACES = [
  { file: "/proc/sys/user/max_user_namespaces", setting: "user.max_user_namespaces=15000" },
  { file: "/proc/sys/kernel/unprivileged_userns_clone", setting: "kernel.unprivileged_userns_clone=1" },
];

/** What keeps user namespaces off here: the settings of the system say it. */
function advice(): string {
  if (/microsoft/i.test(textOf("/proc/sys/kernel/osrelease")) && !existsSync("/run/WSL"))
    return "WSL 1 has no namespaces: convert it to WSL 2 (wsl --set-version DISTRO 2)";
  // Root needs none. In a container, too, the setting decides before its options do.
  const off =
    process.getuid?.() === 0 ? undefined : USER_NAMESPACES.find(({ file }) => textOf(file).trim() === "0");
  if (off) return `user namespaces are switched off: sysctl -w ${off.setting}`;
  if (existsSync("/.dockerenv") || existsSync("/run/.containerenv"))
    return "this is a container: start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined, or with a seccomp profile that allows clone, unshare, mount, umount2 and pivot_root";
  if (textOf("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").trim() === "1")
    return "Ubuntu's AppArmor refuses user namespaces: apt-get install apparmor-profiles, cp /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ and systemctl reload apparmor; or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
  return "allow this user to make user namespaces";
}

function textOf(path: string): string {
  return existsSync(path) ? readRegularSync(path, MAX_BYTES).toString("utf8") : "";
}
