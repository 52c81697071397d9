import { existsSync, realpathSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { type CommandLine, readCommandLine } from "./command-pattern.ts";
import { segments } from "./glob.ts";
import type { PathSegments } from "./path-segments.ts";
import { type Protection, protectionOf } from "./protected-paths.ts";

/** What a pattern for a tool is compared with. */
type SubjectKind = "path" | "command";

export interface ToolFacts {
  name: string;
  /** The device's path. */
  path: string;
  /** The input field a pattern is compared with. None: the tool takes no pattern. */
  subject?: string;
  /** By default a subject named like a path is one, and everything else is read as a command line. */
  kind?: SubjectKind;
  /** It writes nothing: what is protected is protected from writing alone. */
  readOnly?: boolean;
  /** Its driver asks for each file below its subject: rules for those do not refuse the call. */
  filters?: boolean;
}

/** What there is to have rights to. */
export interface Facts {
  tools: readonly ToolFacts[];
  devices: readonly string[];
  /** How names of tools begin that may be meant though none is there: of what is not mounted (yet). */
  expected?: readonly string[];
  /** Absolute. Path patterns are relative to it. */
  projectDir?: string;
  /** Absolute. Relative subjects start here; the project's folder by default. */
  cwd?: string;
  /** Where a path leads when links are followed; what is not there yet counts by its nearest folder. */
  realPath?(path: string): string;
  /** Whether there is a file or a folder of this absolute path. */
  isThere?(path: string): boolean;
}

export interface Call {
  /** null: the process opens the path itself. */
  tool: string | null;
  path: string;
  /** The text of the tool's subject field. */
  subject?: string;
  /** Opened for reading alone; a tool's own facts say it for the tool. */
  readOnly?: boolean;
  /** The real path of the file that was opened: it decides, and not the path or subject as written. */
  opened?: string;
}

const PATH_LIKE = /(?:^|_)(?:path|file|folder|dir|directory)$/i;

export function subjectKind(tool: ToolFacts): SubjectKind {
  return tool.kind ?? (PATH_LIKE.test(tool.subject ?? "") ? "path" : "command");
}

/** One call as the rules look at it. What is costly to find out is found out once, when asked for. */
export class CallView {
  readonly call: Call;
  readonly #facts: Facts;
  /** The tool, if it is known and the path is on its device. */
  readonly tool: ToolFacts | undefined;
  #line: { read: CommandLine } | undefined;
  #targets: readonly PathSegments[] | undefined;
  #protections: readonly (Protection | null)[] | undefined;

  constructor(call: Call, facts: Facts) {
    this.call = call;
    this.#facts = facts;
    const tool = facts.tools.find((known) => known.name === call.tool);
    this.tool = tool && isAtOrBelow(call.path, tool.path) ? tool : undefined;
  }

  get kind(): SubjectKind | undefined {
    return this.tool && subjectKind(this.tool);
  }

  get commandLine(): CommandLine {
    this.#line ??= { read: readCommandLine(this.call.subject) };
    return this.#line.read;
  }

  /**
   * The targets the subject may mean: as written, and where its links lead. None when it is no path. Of an opened
   * file its real path, and the same below the project's folder as that is written.
   */
  get targets(): readonly PathSegments[] {
    this.#targets ??=
      this.call.opened === undefined ? this.#findTargets() : this.#openedTargets(this.call.opened);
    return this.#targets;
  }

  /** Of each target why a rule must name it, or null; empty for a call that writes to no path. */
  get protections(): readonly (Protection | null)[] {
    this.#protections ??= this.#mayWritePath ? this.targets.map((target) => this.#protectionOf(target)) : [];
    return this.#protections;
  }

  /** The first of them, for a message. */
  get protection(): Protection | null {
    return this.protections.find((protection) => protection !== null) ?? null;
  }

  /** Tools that live on the device this path belongs to: opened raw, it could do what any of them does. */
  get toolsThere(): readonly ToolFacts[] {
    return this.#facts.tools.filter((tool) => isAtOrBelow(this.call.path, tool.path));
  }

  /** The device paths that the call uses; null stands for an unknown path. */
  get devicePaths(): readonly (readonly string[] | null)[] {
    const { path, opened } = this.call;
    if (opened !== undefined) {
      const device = segments(this.tool?.path ?? this.device);
      return this.targets.map(({ relative, absolute }) => [...device, ...(relative ?? absolute)]);
    }
    // A tool may be opened at its device and get the file in its input: then the file counts.
    if (this.tool && this.kind === "path" && path === this.tool.path) {
      const device = segments(this.tool.path);
      return this.targets.length === 0
        ? [null]
        : this.targets.map(({ relative }) => (relative === null ? null : [...device, ...relative]));
    }
    const parts = path.split("/").slice(1);
    return [parts.some((part) => part === "" || part === "." || part === "..") ? null : parts];
  }

  /** The device of this path: the nearest known one above it. */
  get device(): string {
    let found = "";
    for (const device of [...this.#facts.devices, ...this.#facts.tools.map((tool) => tool.path)]) {
      if (device.length > found.length && isAtOrBelow(this.call.path, device)) found = device;
    }
    return found;
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
    // Tools that search take the working folder when no path is given.
    const text = subject ?? path.slice((this.tool?.path ?? this.device).length).replace(/^\//, "");
    if (text.includes("\0")) return [];
    const project = projectOf(this.#facts);
    const written = resolve("/", this.#facts.cwd ?? project, text);
    const real = this.#facts.realPath ?? realTarget;
    return [split(project, written), split(realProject(this.#facts), real(written))];
  }
}

function projectOf(facts: Facts): string {
  return resolve("/", facts.projectDir ?? facts.cwd ?? "/");
}

/** Resolved once: a search asks for thousands of files. */
const realProjects = new WeakMap<Facts, string>();

function realProject(facts: Facts): string {
  const known = realProjects.get(facts);
  if (known !== undefined) return known;
  const real = (facts.realPath ?? realTarget)(projectOf(facts));
  realProjects.set(facts, real);
  return real;
}

export function isAtOrBelow(path: string, device: string): boolean {
  return path === device || path.startsWith(`${device}/`);
}

function split(project: string, path: string): PathSegments {
  const inside = relative(project, path);
  const outside = inside === ".." || inside.startsWith("../");
  return { absolute: segments(path), relative: outside ? null : segments(inside) };
}

/** Follows links as far as the path exists; the rest is as written. */
function realTarget(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    // Not there (yet), or not to be looked at: its folder decides, and opening it will say why.
    const parent = dirname(path);
    return parent === path ? path : join(realTarget(parent), basename(path));
  }
}
