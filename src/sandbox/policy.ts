/** What a confined program can see and write, by its level: a list of mounts over a read-only view of the system. */

import { existsSync, lstatSync, readdirSync, realpathSync, statSync } from "node:fs";
import { basename, delimiter, dirname, isAbsolute, join, resolve } from "node:path";
import { innerPath } from "../lib/inner-path.ts";
import { readRegularSync } from "../lib/regular-file.ts";
import type { RulePaths } from "./file-rules.ts";
import { NEEDED_IN_HOME, PROTECTED, PROTECTED_IN_GIT, SECRETS_IN_HOME, SYSTEM_SECRETS } from "./paths.ts";

/** What a confined program may write: the project and a private temporary folder, or only the latter. */
export type SandboxLevel = "project" | "read-only";

/** The sandbox of a run: what it allows, and how. */
export interface Sandbox {
  level: SandboxLevel;
  mechanism: "bubblewrap" | "landlock" | "seatbelt";
  /** Absolute path of bubblewrap or sandbox-exec; for Landlock, of Rnix. */
  program: string;
}

/** Whether it keeps all that a level promises. The others leave ways out, which docs/sandbox.md names. */
export function isWhole({ mechanism }: Pick<Sandbox, "mechanism">): boolean {
  return mechanism === "bubblewrap";
}

/** As the receipt names it. */
export function sandboxText({ level, mechanism }: Pick<Sandbox, "level" | "mechanism">): string {
  return `${level} (${mechanism})`;
}

/** Whether its programs are in another PID namespace. */
export function hasNamespaces(sandbox: Pick<Sandbox, "mechanism"> | undefined): boolean {
  return sandbox?.mechanism === "bubblewrap";
}

/** Whether a recorded text names a sandbox that is required again. */
export function wasWhole(text: string): boolean {
  return text.endsWith("(bubblewrap)");
}

/** The level in a recorded text; null for a run without a sandbox. */
export function recordedLevel(text: string): SandboxLevel | null {
  const [level] = text.split(" ");
  return level === "project" || level === "read-only" ? level : null;
}

/** The level that allows less. */
export function stricter(one: SandboxLevel, other: SandboxLevel): SandboxLevel {
  return one === "read-only" ? one : other;
}

/** The temporary folder of a run's programs, in its record. */
export const TEMPORARY = "tmp";

export type Mount =
  | { kind: "read" | "write"; from: string; to: string; rule?: string }
  /** An empty folder, or a file that can't be read, in its place. A `closed` folder can't be written. */
  | { kind: "folder" | "closed" | "file"; to: string; rule?: string };

export function bindRead(from: string, to = from): Mount {
  return { kind: "read", from, to };
}

export function bindWrite(from: string, to = from): Mount {
  return { kind: "write", from, to };
}

export function hidden(to: string, kind: "folder" | "closed" | "file"): Mount {
  return { kind, to };
}

/** The last of them counts: it covers the others. */
export function coveredBy(path: string, mounts: readonly Mount[]): Mount | undefined {
  return mounts.findLast(({ to }) => innerPath(to, path) !== null);
}

/**
 * Makes these paths below `root` read-only. The folders between are mounts of their own: a mount can't be renamed, so no
 * program puts another folder in the place of a protected path's parent. `named`: more paths whose parents stay.
 */
function underRoot(root: string, paths: readonly string[], named: readonly string[] = []): Mount[] {
  const between = new Set<string>();
  for (const path of [...paths, ...named]) {
    for (let above = dirname(path); above !== root && above.startsWith(root); above = dirname(above))
      between.add(above);
  }
  const parents = [...between].sort((one, other) => one.length - other.length);
  return [...parents.map((path) => bindWrite(path)), ...paths.map((path) => bindRead(path))];
}

/** The folders of one run. All paths are absolute. */
export interface SandboxScope {
  level: SandboxLevel;
  project: string;
  /** Folders outside the project that the run may use. */
  folders: readonly string[];
  env: Readonly<Record<string, string>>;
  /** The home of the user, which HOME of the run may not be. */
  userHome: string;
  /** Takes the place of the temporary folders; null: they are empty, and of this program alone. */
  temp: string | null;
  /** Takes the place of the home. */
  home: string;
  /** Rnix's own folders: settings, keys, records. */
  own: readonly string[];
  /** The parts of `own` that this run may read. */
  readable: readonly string[];
  /** What the program needs of the private home and of what is hidden; `read` may be parts of `write`. */
  grants?: { write: readonly string[]; read: readonly string[] };
  /** What the rules of the run say about files. */
  rules?: RulePaths;
  /** The daemon's socket; null: it is not offered. */
  socket: string | null;
  /** As the first program of the run has found them. Absent: they are looked for. */
  surroundings?: readonly Mount[];
  /** This binary. */
  binary: string;
  isRoot: boolean;
}

/** The folder of the link to this binary, in front of the PATH of a confined program. */
export const BINARY_DIR = "/run/rnix-bin";

/** The mounts, in order: a later one covers an earlier one. No absent path outside of private folders is named. */
export function mountsOf(scope: SandboxScope): Mount[] {
  const { env, own, readable, level, rules } = scope;
  const { given, openHomes } = placesOf(scope);
  // Such as the project of `rnix demo`.
  const inOwn = given.filter((folder) => own.some((path) => innerPath(path, folder)));
  const mounts = [
    ...(scope.surroundings ?? surroundings(scope)),
    ...given
      .filter((folder) => !inOwn.includes(folder))
      .flatMap((folder) => givenMounts(folder, level, rules)),
    ...openHomes.flatMap((home) => SECRETS_IN_HOME.map((name) => join(home, name)).flatMap(hiddenIfThere)),
    ...[...own, ...runtimeFolders(env)].flatMap(hiddenIfThere),
    ...inOwn.flatMap((folder) => givenMounts(folder, level, rules)),
    ...own.filter((path) => inOwn.some((folder) => innerPath(folder, path))).flatMap(hiddenIfThere),
    ...(scope.grants?.write ?? []).filter(existsSync).map((path) => bindWrite(path)),
    ...[...(scope.grants?.read ?? []), ...readable].filter(existsSync).map((path) => bindRead(path)),
  ];
  return [
    ...mounts,
    ...(rules?.hidden ?? [])
      .filter(({ path }) => isShown(path, mounts))
      .map(({ path, isFolder, rule }) => ({
        ...hidden(path, isFolder ? "closed" : "file"),
        rule: rule.text,
      })),
    ...(scope.socket !== null && existsSync(scope.socket) ? [bindWrite(scope.socket)] : []),
    bindRead(scope.binary, join(BINARY_DIR, "rnix")),
  ];
}

/** The mounts for the system and the homes, which the folders of the run cover. */
export function surroundings(scope: SandboxScope): Mount[] {
  const { env, temp } = scope;
  const { given, homes, privateHomes } = placesOf(scope);
  return [
    ...["/tmp", "/var/tmp"]
      .filter(isFolder)
      .map((to) => (temp === null ? hidden(to, "folder") : bindWrite(temp, to))),
    ...["/run", "/var/run"].filter(isRealFolder).map((path) => hidden(path, "folder")),
    ...resolver(),
    ...(scope.isRoot ? closedToRoot(homes, given) : []),
    ...privateHomes.flatMap((home) => homeMounts(home, scope.home)),
    ...pathMounts(env, homes),
  ];
}

/** The folders that are given to the run, and the homes: an open one lies in such a folder. */
function placesOf({ project, folders, env, userHome }: SandboxScope) {
  const given = [project, ...folders].filter(existsSync);
  const homes = [...new Set([env.HOME, userHome])].filter(isFolder);
  const privateHomes = homes.filter((home) => given.every((folder) => innerPath(folder, home) === null));
  return { given, homes, privateHomes, openHomes: homes.filter((home) => !privateHomes.includes(home)) };
}

/** Whether a program would see this file there. */
function isShown(path: string, mounts: readonly Mount[]): boolean {
  const mount = coveredBy(path, mounts);
  return mount === undefined || ("from" in mount && mount.from === mount.to);
}

/** What a sandbox protects in a folder that the run may use. */
export function protectedPaths(folder: string): string[] {
  return givenMounts(folder, "project").flatMap(({ kind, to }) => (kind === "read" ? [to] : []));
}

/** A folder that the run may use, with the parts of it that no program may change. */
function givenMounts(
  folder: string,
  level: SandboxLevel,
  { hidden: unread, kept: unwritten, lifted }: Omit<RulePaths, "exceeded"> = NO_PATHS,
): Mount[] {
  if (level === "read-only") return [bindRead(folder)];
  const inside = (paths: RulePaths["kept"]): RulePaths["kept"] =>
    paths.filter(({ path }) => innerPath(folder, path) !== null);
  const kept = PROTECTED.map((name) => join(folder, name)).filter(existsSync);
  const named = inside([...unread, ...unwritten]).filter(({ rule }) => rule.isAnchored);
  const mounts = [bindWrite(folder), ...underRoot(folder, kept, pathsOf(named)), ...gitMounts(folder)];
  const free = pathsOf(lifted);
  const closed = mounts.filter(({ kind, to }) => kind === "read" && !free.includes(to));
  return [
    ...mounts.filter((mount) => mount.kind !== "read" || closed.includes(mount)),
    ...free.filter((path) => coveredBy(path, closed)).map((path) => bindWrite(path)),
    ...inside(unwritten).map(({ path, rule }) => ({ ...bindRead(path), rule: rule.text })),
  ];
}

function pathsOf(paths: RulePaths["kept"]): string[] {
  return paths.map(({ path }) => path);
}

const NO_PATHS = { hidden: [], kept: [], lifted: [] };

/** A private home, with what builds need of the user's own. */
function homeMounts(home: string, instead: string): Mount[] {
  const visible = readdirSync(home, { withFileTypes: true })
    .filter(({ name }) => !name.startsWith("."))
    .map(({ name }) => join(home, name));
  const needed = NEEDED_IN_HOME.map((name) => join(home, name));
  return [
    bindWrite(instead, home),
    ...[...visible, ...needed].filter((path) => leadsToNoSecret(path, home)).map((path) => bindRead(path)),
  ];
}

/** False for a path that is gone, and for a link to a hidden part of the home. */
function leadsToNoSecret(path: string, home: string): boolean {
  try {
    const real = realpathSync(path);
    const inHome = innerPath(realpathSync(home), real);
    if (inHome === null || !inHome.startsWith(".")) return true;
    return NEEDED_IN_HOME.some((name) => innerPath(name, inHome) !== null);
  } catch {
    // It can't be followed, so a program could not either.
    return false;
  }
}

/** Folders of programs below a home, such as those of a version manager. */
function pathMounts({ PATH = "" }: SandboxScope["env"], homes: readonly string[]): Mount[] {
  const secrets = homes.flatMap((home) => SECRETS_IN_HOME.map((name) => join(home, name)));
  return PATH.split(delimiter)
    .filter((folder) => isAbsolute(folder) && homes.some((home) => innerPath(home, folder)))
    .filter((folder) => secrets.every((secret) => innerPath(secret, folder) === null) && isFolder(folder))
    .map((folder) => bindRead(folder));
}

/** Root reads what other users can't: keys of the machine, and the other homes. */
function closedToRoot(homes: readonly string[], given: readonly string[]): Mount[] {
  const others = ["/root", ...namesIn("/home").map((name) => join("/home", name))].filter(
    (home) => !homes.includes(home) && given.every((folder) => innerPath(folder, home) === null),
  );
  return [...SYSTEM_SECRETS, ...others].flatMap(hiddenIfThere);
}

/** The file to which /etc/resolv.conf leads, where that is in /run. */
function resolver(): Mount[] {
  try {
    const file = realpathSync("/etc/resolv.conf");
    return file.startsWith("/run/") ? [bindRead(file)] : [];
  } catch {
    // Without the file, names are not resolved outside either.
    return [];
  }
}

/** Sockets of the session: D-Bus, agents with keys, the display. */
function runtimeFolders({ XDG_RUNTIME_DIR: folder }: SandboxScope["env"]): string[] {
  return folder !== undefined && isAbsolute(folder) ? [folder] : [];
}

function hiddenIfThere(path: string): Mount[] {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined || stats.isSymbolicLink()) return [];
  return [hidden(path, stats.isDirectory() ? "folder" : "file")];
}

function isFolder(path: string | undefined): path is string {
  if (path === undefined || path === "/" || !isAbsolute(path)) return false;
  return existsSync(path) && statSync(path).isDirectory();
}

/** /var/run is a link to /run on most systems. */
function isRealFolder(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

function namesIn(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}

/** The folders of the repository in which the project lies, and those of its submodules. */
function gitMounts(project: string): Mount[] {
  const entry = entryAbove(project);
  if (entry === null) return [];
  if (statSync(entry).isDirectory()) return folderMounts(entry);
  const folder = linkedFolder(entry);
  // A link that nothing confirms could name any folder.
  if (folder === null) return [bindRead(entry)];
  const common = commonFolder(folder);
  return [
    ...folderMounts(common),
    ...(innerPath(common, folder) === null ? folderMounts(folder) : []),
    bindRead(entry),
  ];
}

/** `.git` of the folder or of the nearest one above it. */
function entryAbove(folder: string): string | null {
  const entry = join(folder, ".git");
  if (existsSync(entry)) return entry;
  return dirname(folder) === folder ? null : entryAbove(dirname(folder));
}

/** It is a mount of its own, so that no program renames it and makes another. */
function folderMounts(git: string): Mount[] {
  const folders = [git, ...below(git, "modules", MAX_DEPTH), ...below(git, "worktrees", 1)];
  const kept = folders
    .flatMap((folder) => PROTECTED_IN_GIT.map((name) => join(folder, name)))
    .filter(existsSync);
  return [bindWrite(git), ...underRoot(git, kept)];
}

/** Submodules of submodules. */
const MAX_DEPTH = 4;

/** The git folders in a part of another one. A submodule's name may have slashes. */
function below(git: string, part: string, depth: number): string[] {
  const found: string[] = [];
  const look = (folder: string, left: number): void => {
    if (!existsSync(folder)) return;
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      if (!entry.isDirectory()) continue;
      const path = join(folder, entry.name);
      if (existsSync(join(path, "HEAD"))) {
        found.push(path);
        if (part === "modules") look(join(path, part), left - 1);
      } else if (left > 1) look(path, left - 1);
    }
  };
  look(join(git, part), depth);
  return found;
}

/** The git folder of a work tree or a submodule, if it names the project in turn. */
function linkedFolder(entry: string): string | null {
  const [, link] = /^gitdir: (.+)/.exec(textOf(entry) ?? "") ?? [];
  if (link === undefined) return null;
  const folder = resolve(dirname(entry), link.trim());
  const back = textOf(join(folder, "gitdir"))?.trim();
  if (back !== undefined && sameFile(resolve(folder, back), entry)) return realpathSync(folder);
  const [, tree] = /^\s*worktree\s*=\s*(.+)$/m.exec(textOf(join(folder, "config")) ?? "") ?? [];
  if (tree !== undefined && sameFile(resolve(folder, tree.trim()), dirname(entry)))
    return realpathSync(folder);
  return null;
}

/** The folder that the work trees of a repository share. */
function commonFolder(folder: string): string {
  const shared = textOf(join(folder, "commondir"))?.trim();
  if (shared === undefined) return folder;
  const common = resolve(folder, shared);
  const isWorkTree = basename(dirname(folder)) === "worktrees" && sameFile(common, dirname(dirname(folder)));
  return isWorkTree ? common : folder;
}

function sameFile(one: string, other: string): boolean {
  return existsSync(one) && existsSync(other) && realpathSync(one) === realpathSync(other);
}

const MAX_BYTES = 256 * 1024;

/** undefined: not there, or no file that git would read. */
function textOf(path: string): string | undefined {
  try {
    return readRegularSync(path, MAX_BYTES).toString("utf8");
  } catch {
    return undefined;
  }
}
