/** Confines the programs of a process that has a sandbox. */

import { existsSync, lstatSync } from "node:fs";
import { join } from "node:path";
import { STARTER } from "../../lib/hidden-modes.ts";
import { innerPath } from "../../lib/inner-path.ts";
import { spawnError } from "../../os/spawn-error.ts";
import { Starters } from "../../os/starter.ts";
import { type ExecRequest, type ProgramGrants, SyscallError } from "../../plugin/index.ts";
import { type FileRule, type FileRules, findRulePaths, type RulePaths } from "../../sandbox/file-rules.ts";
import {
  BINARY_DIR,
  hasNamespaces,
  type Mount,
  protectedPaths,
  type Sandbox,
  type SandboxScope,
  surroundings,
  TEMPORARY,
} from "../../sandbox/policy.ts";
import type { NamespaceOptions, RunNamespace, StartJoined } from "../../sandbox/run-namespace.ts";
import { refusals, type SandboxView, sandboxed } from "../../sandbox/sandbox.ts";
import type { KernelPorts } from "../kernel-ports.ts";
import { textsOf } from "../permission/coverage.ts";
import { type PathSegments, segments } from "../permission/glob.ts";
import type { Permissions } from "../permission/permissions.ts";
import type { Rule } from "../permission/rule.ts";
import type { Process } from "../process/process.ts";

type Confinable = Pick<ExecRequest, "argv" | "cwd" | "env">;

/** Namespaces that programs join: their first process, the command line of a starter there, and those that run. */
export interface SharedSpace {
  init: number;
  starter: { argv: readonly string[]; all: Starters };
}

export { Starters };

/** A request of a program in the sandbox of its process. */
interface Confined<R> {
  request: R;
  /** What the program joins. Absent: it has a sandbox of its own. */
  space?: SharedSpace;
}

interface ConfineOptions {
  /**
   * Starts a program that ends with the process: the holder of namespaces, which programs of calls join, or one that
   * joins them. Absent: the program gets namespaces of its own.
   */
  start?: StartJoined | undefined;
  /** The holder is in the network of the process. */
  isBehindDoor?: boolean;
  starters: Starters;
  /** Others with the same policy use the program, too: it has nothing of this process alone, and may outlive it. */
  isShared?: boolean;
  grants?: ProgramGrants | undefined;
  notice(text: string): void;
}

/** The request for the same program in the sandbox of the process. */
export async function confined<R extends Confinable>(
  proc: Process,
  request: R,
  { userDataDir, sandboxing }: Pick<KernelPorts, "userDataDir" | "sandboxing">,
  { start, starters, isShared = false, isBehindDoor = false, grants, notice }: ConfineOptions,
): Promise<Confined<R>> {
  const { spec, record } = proc;
  const { confinement, project, folders = [], cwd: folder } = spec.opts;
  if (!confinement || !sandboxing)
    throw new SyscallError("UNAVAILABLE", "This kernel can't confine a program.");
  const { own, userHome, socket, binary } = sandboxing;
  const program = {
    argv: request.argv,
    cwd: request.cwd ?? folder,
    env: { ...spec.opts.env, ...request.env },
  };
  requireProgram(program);
  const scope: SandboxScope = {
    level: confinement.level,
    project: project.dir,
    folders: [...new Set([...folders, folder])].filter((one) => one !== project.dir),
    env: program.env,
    userHome,
    temp: isShared ? null : join(record.dir, TEMPORARY),
    home: join(project.dataDir, "sandbox", "home"),
    own: [...own, userDataDir, project.dataDir],
    readable: isShared ? [] : [record.spillDir],
    ...(grants && { grants }),
    // The daemon answers it for a process, and this program belongs to none.
    socket: isShared ? null : socket,
    binary,
    isRoot: process.getuid?.() === 0,
  };
  scope.surroundings = surroundingsOf(proc, scope);
  const rules = await rulePaths(proc, confinement, scope, notice);
  if (rules) scope.rules = rules;
  const { mounts, confine, env } = sandboxed(confinement, scope, program);
  if (!isShared)
    views.set(proc, {
      mounts,
      isInPlace: hasNamespaces(confinement),
      given: [scope.project, ...scope.folders],
      isReadOnly: scope.level === "read-only",
      cwd: program.cwd,
      home: program.env.HOME,
    });
  const { argv, cwd } = program;
  const space =
    hasNamespaces(confinement) &&
    start &&
    (await namespaceOf(proc, spaceKey(mounts, scope.project), {
      confine,
      isRoot: scope.isRoot,
      isBehindDoor,
      start,
    }));
  if (!space) return { request: { ...request, cwd, env, argv: [...confine, ...argv] } };
  return {
    request: { ...request, cwd, env, argv: space.joining(cwd, argv) },
    space: { init: space.init, starter: { argv: [join(BINARY_DIR, "rnix"), STARTER], all: starters } },
  };
}

/** Looked for once: they are a hundred files, and namespaces that exist do not change with them. */
function surroundingsOf(proc: Process, scope: SandboxScope): readonly Mount[] {
  const { project, folders, env, temp } = scope;
  const key = JSON.stringify([project, folders, env.HOME, env.PATH, temp]);
  const known = around.get(proc);
  if (known?.key === key) return known.mounts;
  const mounts = surroundings(scope);
  around.set(proc, { key, mounts });
  return mounts;
}

const around = new WeakMap<Process, { key: string; mounts: readonly Mount[] }>();

/** The namespaces of a process, by their mounts: another folder of the project that is protected now makes others. */
const spaces = new WeakMap<Process, Map<string, Promise<RunNamespace | null>>>();
/** Programs with more different mounts have a sandbox of their own. */
const MAX_SPACES = 8;

/** A file of the project that another takes the place of, as editors do, is no longer mounted over. */
function spaceKey(mounts: readonly Mount[], project: string): string {
  const inProject = mounts.filter(({ to }) => innerPath(project, to) !== null);
  return JSON.stringify([
    mounts,
    inProject.map(({ to }) => lstatSync(to, { throwIfNoEntry: false })?.ino ?? null),
  ]);
}

/** The files to which rules of the process apply. Its user gets a notice of what is not bound. */
async function rulePaths(
  proc: Process,
  confinement: Sandbox,
  { project, folders, own }: SandboxScope,
  notice: (text: string) => void,
): Promise<RulePaths | null> {
  const rules = fileRules(proc.permissions.overFiles);
  const { hidden, kept, lifted } = rules;
  const denials = [...hidden, ...kept].map(({ text }) => text);
  if (denials.length === 0 && lifted === null) return null;
  if (!hasNamespaces(confinement)) {
    if (denials.length > 0)
      noticeOnce(
        proc,
        `${denials.join(", ")}: ${confinement.mechanism} does not bind programs by rules`,
        notice,
      );
    return null;
  }
  const given = [project, ...folders].filter(existsSync);
  const found = await findRulePaths(rules, given, lifted ? given.flatMap(protectedPaths) : [], own);
  if (found.exceeded.length > 0)
    noticeOnce(
      proc,
      `${found.exceeded.join(", ")}: there are more files than a sandbox binds (200, of 200,000 that are looked at); programs reach the others`,
      notice,
    );
  return found;
}

async function namespaceOf(proc: Process, key: string, made: NamespaceOptions): Promise<RunNamespace | null> {
  const known = spaces.getOrInsertComputed(proc, () => new Map());
  const found = await known.get(key);
  if (found === null || (found && !found.hasEnded)) return found;
  if (known.size >= MAX_SPACES && !known.has(key)) return null;
  const { RunNamespace } = await import("../../sandbox/run-namespace.ts");
  const space = RunNamespace.open(made);
  known.set(key, space);
  return space;
}

/** What the last program of a process saw, until the result of its call. */
const views = new WeakMap<Process, SandboxView>();

/** What the sandbox refused to the programs of a call, for the model. The user gets a notice of each path once. */
export function sandboxRefusals(proc: Process, result: string, notice: (text: string) => void): string {
  const view = views.get(proc);
  views.delete(proc);
  if (view === undefined) return "";
  const found = refusals(result, view);
  for (const text of found) noticeOnce(proc, text, notice);
  return found.map((text) => `\n[${text}]`).join("");
}

function noticeOnce(proc: Process, text: string, notice: (text: string) => void): void {
  const known = shown.getOrInsertComputed(proc, () => new Set());
  if (known.has(text) || known.size >= MAX_NOTICES) return;
  known.add(text);
  notice(text);
}

const shown = new WeakMap<Process, Set<string>>();
const MAX_NOTICES = 50;

/** Outside of a sandbox a missing program fails at the start; inside, only bubblewrap would report it. */
function requireProgram({ argv, cwd, env }: Required<Confinable>): void {
  const { PATH = "" } = env;
  if (Bun.which(argv[0] ?? "", { PATH, cwd }) !== null && existsSync(cwd)) return;
  throw spawnError(Object.assign(new Error("ENOENT"), { code: "ENOENT" }), argv, cwd, PATH);
}

type PatternRule = Rule & { kind: "pattern" };

function fileRules({ denials, limits, facts }: Permissions["overFiles"]): FileRules {
  const target = (path: string): PathSegments => {
    const inner = innerPath(facts.projectDir ?? "/", path);
    return { absolute: segments(path), relative: inner === null ? null : segments(inner) };
  };
  const writing = new Set(facts.tools.filter(({ readOnly }) => readOnly !== true).map(({ name }) => name));
  const isWriting = (rule: Rule): rule is PatternRule => isPattern(rule) && writing.has(rule.name);
  const allowing = limits.map((layer) => layer.filter(isWriting));
  const reading = denials.filter(isPattern).filter(({ name }) => name === "Read");
  return {
    hidden: reading.map((rule) => denying(rule, target)),
    kept: denials.filter(isWriting).map((rule) => denying(rule, target)),
    lifted: allowing.every((layer) => layer.length > 0) ? lifting(allowing, target) : null,
  };
}

function denying({ text, path }: PatternRule, target: (path: string) => PathSegments): FileRule {
  return {
    text,
    covers: (file) => path.denies(target(file)),
    coversAll: (folder) => path.endsInAll && path.denies(target(folder)),
    reaches: (folder) => path.mayDenyBelow(target(folder)),
    isAnchored: path.isAnchored,
    root: path.root?.dir ?? null,
  };
}

/** A rule of every list must name the protected path: one that begins with a wildcard does not. */
function lifting(
  layers: readonly (readonly PatternRule[])[],
  target: (path: string) => PathSegments,
): FileRule {
  const every = (path: string, fits: (rule: PatternRule, at: PathSegments) => boolean): boolean => {
    const at = target(path);
    return layers.every((layer) => layer.some((rule) => rule.path.begins(at) && fits(rule, at)));
  };
  return {
    text: layers.flatMap(textsOf).join(", "),
    covers: (file) => every(file, ({ path }, at) => path.covers(at)),
    coversAll: (folder) => every(folder, ({ path }, at) => path.endsInAll && path.covers(at)),
    reaches: (folder) => every(folder, ({ path }, at) => path.coversBelow(at)),
    isAnchored: true,
    root: null,
  };
}

function isPattern(rule: Rule): rule is PatternRule {
  return rule.kind === "pattern";
}
