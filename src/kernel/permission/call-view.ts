/** One call as the rules see it: its tool, the files it means, its command line. */

import { existsSync, realpathSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { climbsBehind, innerPath } from "../../lib/inner-path.ts";
import { type CommandLine, readCommandLine } from "./command-pattern.ts";
import { type PathSegments, segments } from "./glob.ts";
import { holds, type OpenedFolder } from "./opened-folders.ts";
import { type Protection, protectionOf } from "./protected-paths.ts";

/** What a tool's patterns are compared with. */
type SubjectKind = "path" | "command";

export interface ToolFacts {
  name: string;
  /** The device's path. */
  path: string;
  /** The input field that a pattern is compared with. Absent: the tool takes no patterns. */
  subject?: string;
  /** By default a subject with a path-like name is a path, and any other is a command line. */
  kind?: SubjectKind;
  /** It writes nothing, so protected paths do not matter: they are protected from writing only. */
  readOnly?: boolean;
  /** Its driver asks for each file below its subject, so rules for these files do not refuse the call. */
  filters?: boolean;
  /** It may change something outside the project's files, or reach a network. */
  outside?: boolean;
  /** What it writes is read by later runs. */
  lasting?: boolean;
}

/** The tools, devices and paths that rules are about. */
export interface Facts {
  tools: readonly ToolFacts[];
  devices: readonly string[];
  /** Prefixes of tools that may be mounted later: rules may name these. */
  expected?: readonly string[];
  /** Absolute. Path patterns are relative to it. */
  projectDir?: string;
  /** Absolute. Relative subjects start here; the project's folder by default. */
  cwd?: string;
  /** Folders that were given beside the project's (`--add`), with their links resolved. */
  folders?: readonly string[];
  /** Programs are in a sandbox, and their network is limited. */
  confined?: boolean;
  /** Resolves links; for a missing path, those of its nearest existing folder. */
  realPath?(path: string): string;
  /** Returns true when a file or folder has this absolute path. */
  isThere?(path: string): boolean;
}

export interface Call {
  /** null when the process opens the path itself. */
  tool: string | null;
  path: string;
  /** The text of the tool's subject field. */
  subject?: string;
  /** Opened for reading only. For a tool, see `ToolFacts.readOnly`. */
  readOnly?: boolean;
  /** The real path of the opened file, which decides instead of the path or subject as written. */
  opened?: string;
}

const PATH_LIKE = /(?:^|_)(?:path|file|folder|dir|directory)$/i;

export function subjectKind(tool: ToolFacts): SubjectKind {
  return tool.kind ?? (PATH_LIKE.test(tool.subject ?? "") ? "path" : "command");
}

/** An address as one quoted word, in the form that its request has: `&` and `?` are no signs of a shell. */
function urlWord(subject: string | undefined): string | undefined {
  const url = URL.parse(subject ?? "");
  return url === null ? subject : `'${url.href.replaceAll("'", "%27")}'`;
}

/** Computes costly parts once, on first use. */
export class CallView {
  readonly call: Call;
  readonly #facts: Facts;
  readonly #opened: readonly OpenedFolder[];
  /** The tool, if it is known and the path is on its device. */
  readonly tool: ToolFacts | undefined;
  #line: { read: CommandLine } | undefined;
  #targets: readonly PathSegments[] | undefined;
  #protections: readonly (Protection | null)[] | undefined;

  /** `opened`: the folders that a person has opened. */
  constructor(call: Call, facts: Facts, opened: readonly OpenedFolder[] = []) {
    this.call = call;
    this.#facts = facts;
    this.#opened = opened;
    const tool = facts.tools.find((known) => known.name === call.tool);
    this.tool = tool && isAtOrBelow(call.path, tool.path) ? tool : undefined;
  }

  /** The call of another tool for a file, which is relative to this folder. */
  forFile(tool: string, subject: string, cwd: string): CallView {
    const path = this.#facts.tools.find((known) => known.name === tool)?.path ?? "";
    return new CallView({ tool, path, subject }, { ...this.#facts, cwd }, this.#opened);
  }

  /** The folder in which its command starts. Absolute. */
  get cwd(): string {
    return this.#facts.cwd ?? projectOf(this.#facts);
  }

  get kind(): SubjectKind | undefined {
    return this.tool && subjectKind(this.tool);
  }

  /** Whether its subject is run by a shell. Other texts are only compared with patterns as command lines are. */
  get runsCommand(): boolean {
    return this.kind === "command" && this.tool?.subject === "command";
  }

  /** A command that can reach nothing but what the sandbox gives it. */
  get staysInside(): boolean {
    return this.runsCommand && this.#facts.confined === true;
  }

  get commandLine(): CommandLine {
    const { subject } = this.call;
    this.#line ??= { read: readCommandLine(this.tool?.subject === "url" ? urlWord(subject) : subject) };
    return this.#line.read;
  }

  /**
   * The files that the subject may mean: as written, and with links resolved. Empty when it is no path. For an opened
   * file: its real path, and its path below the project's folder as written.
   */
  get targets(): readonly PathSegments[] {
    this.#targets ??=
      this.call.opened === undefined ? this.#findTargets() : this.#openedTargets(this.call.opened);
    return this.#targets;
  }

  /** Absolute, with links resolved: the file that the call means. undefined when it names none. */
  get realTarget(): string | undefined {
    const target = this.kind === "path" ? this.targets.at(-1) : undefined;
    return target && `/${target.absolute.join("/")}`;
  }

  get writes(): boolean {
    return this.tool?.readOnly !== true;
  }

  get projectDir(): string {
    return realProject(this.#facts);
  }

  /** Whether its file is in the project, or in a folder that the run was given or that a person has opened. */
  get isInFolders(): boolean {
    const real = this.realTarget;
    if (real === undefined || this.targets.at(-1)?.relative !== null) return real !== undefined;
    const given = (this.#facts.folders ?? []).map((dir) => ({ dir, write: true }));
    return holds(given, real, this.writes) || holds(this.#opened, real, this.writes);
  }

  /** Whether its file is in a folder that was opened for reading only, and it may change it. */
  get isReadOnlyThere(): boolean {
    const real = this.realTarget;
    return real !== undefined && this.writes && !this.isInFolders && holds(this.#opened, real, false);
  }

  /** For each target, why a rule must name it, or null; empty for a call that writes to no path. */
  get protections(): readonly (Protection | null)[] {
    this.#protections ??= this.#mayWritePath ? this.targets.map((target) => this.#protectionOf(target)) : [];
    return this.#protections;
  }

  /** The first protection, for a message. */
  get protection(): Protection | null {
    return this.protections.find((protection) => protection !== null) ?? null;
  }

  /** The tools of the path's device: opened raw, the device could do what any of them does. */
  get toolsThere(): readonly ToolFacts[] {
    return this.#facts.tools.filter((tool) => isAtOrBelow(this.call.path, tool.path));
  }

  /** The device paths that the call uses; null for an unknown path. */
  get devicePaths(): readonly (readonly string[] | null)[] {
    const { path, opened } = this.call;
    if (opened !== undefined) {
      const device = segments(this.tool?.path ?? this.device);
      return this.targets.map(({ relative, absolute }) => [...device, ...(relative ?? absolute)]);
    }
    // A tool opened at its device gets the file in its input: then the file counts.
    if (this.tool && this.kind === "path" && path === this.tool.path) {
      const device = segments(this.tool.path);
      if (this.targets.length === 0) return [null];
      return this.targets.map(({ relative }) => relative && [...device, ...relative]);
    }
    const parts = path.split("/").slice(1);
    return [parts.some((part) => part === "" || part === "." || part === "..") ? null : parts];
  }

  /** The nearest known device at or above this path. */
  get device(): string {
    let found = "";
    for (const device of [...this.#facts.devices, ...this.#facts.tools.map((tool) => tool.path)]) {
      if (device.length > found.length && isAtOrBelow(this.call.path, device)) found = device;
    }
    return found;
  }

  /** Whether this path of a command, with links resolved, is below the project's folder and not protected. */
  isFileOfProject(text: string): boolean {
    const isInside = (target: PathSegments): boolean =>
      (target.relative?.length ?? 0) > 0 && this.#protectionOf(target) === null;
    return !climbsBehind(text) && this.#targetsOf(text).every(isInside);
  }

  get #mayWritePath(): boolean {
    if (this.call.readOnly === true) return false;
    const tools = this.call.tool === null ? this.toolsThere : this.tool ? [this.tool] : [];
    return tools.some((tool) => tool.readOnly !== true && subjectKind(tool) === "path");
  }

  #protectionOf(target: PathSegments): Protection | null {
    return protectionOf(target, this.#facts.isThere ?? existsSync);
  }

  #openedTargets(opened: string): readonly PathSegments[] {
    const project = projectOf(this.#facts);
    const real = realProject(this.#facts);
    const there = split(real, opened);
    if (real === project || there.relative === null) return [there];
    return [split(project, join(project, ...there.relative)), there];
  }

  #findTargets(): readonly PathSegments[] {
    const { path, subject } = this.call;
    // Without a path, search tools use the working folder.
    const text = subject ?? path.slice((this.tool?.path ?? this.device).length).replace(/^\//, "");
    return text.includes("\0") ? [] : this.#targetsOf(text);
  }

  /** A path as written, and with links resolved. */
  #targetsOf(text: string): readonly PathSegments[] {
    const project = projectOf(this.#facts);
    const written = resolve("/", this.#facts.cwd ?? project, text);
    const real = this.#facts.realPath ?? realTarget;
    return [split(project, written), split(realProject(this.#facts), real(written))];
  }
}

function projectOf(facts: Facts): string {
  return resolve("/", facts.projectDir ?? facts.cwd ?? "/");
}

/** Cached, because a search asks for thousands of files. */
const realProjects = new WeakMap<Facts, string>();

function realProject(facts: Facts): string {
  return realProjects.getOrInsertComputed(facts, () => (facts.realPath ?? realTarget)(projectOf(facts)));
}

export function isAtOrBelow(path: string, device: string): boolean {
  return path === device || path.startsWith(`${device}/`);
}

function split(project: string, path: string): PathSegments {
  const inner = innerPath(project, path);
  return { absolute: segments(path), relative: inner === null ? null : segments(inner) };
}

/** Resolves links in the existing part of the path. */
export function realTarget(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    // Missing or not readable: its folder decides, and opening it will report the error.
    const parent = dirname(path);
    return parent === path ? path : join(realTarget(parent), basename(path));
  }
}
