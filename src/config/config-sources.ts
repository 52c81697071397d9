/** The folders and embedded files from which configuration is read. */

import { lstatSync, realpathSync } from "node:fs";
import { join, sep } from "node:path";
import { errnoOf } from "../lib/error-detail.ts";
import { SyscallError } from "../plugin/index.ts";
import type { AgentFront } from "./agents/agent-file.ts";
import { fileError } from "./files/file.ts";
import type { NamedFiles } from "./files/named-files.ts";
import type { Project } from "./project/project.ts";
import type { SkillFront } from "./skills/skill-file.ts";
import type { TrustView } from "./trust/trust.ts";

/** A file that is embedded in the binary, by its path below `agents/` or `skills/`. */
export interface EmbeddedFile<Front = never> {
  path: string;
  text: string;
  /** Its checked YAML, where the build has parsed it. */
  front?: Front;
}

/** The checkout beside the definitions of a base revision. */
export interface BaseView {
  /** The folder of the project, in which programs run. */
  workTree: string;
  /** Whether the files that a command names are in the checkout as they are in the base revision. */
  isUnchanged(named: NamedFiles): boolean;
}

/** Where one command reads agents, skills, providers and settings from. */
export interface ConfigSources {
  /** With `--base`, its `dir` is a folder with the definitions of the base revision. */
  project: Project;
  /** The definitions of the base revision, with `--base`. */
  base?: BaseView;
  trust: TrustView;
  /** `~/.config/rnix`. */
  configDir: string;
  home: string;
  agents: readonly EmbeddedFile<AgentFront>[];
  skills: readonly EmbeddedFile<SkillFront>[];
}

/** The folder to which the commands of a project's files refer. */
export function workTreeOf({ project, base }: Pick<ConfigSources, "project" | "base">): string {
  return base?.workTree ?? project.dir;
}

export type Tier = "project" | "user" | "embedded";

/** Stands for the path of an embedded file. */
export const EMBEDDED = "embedded";

/** An agent or skill that could not be read; the others are not affected. `message` has file, line and column. */
export interface Problem {
  path: string;
  message: string;
}

/** A folder that may hold agents or skills. */
export interface Root {
  /** Agents have written what is in it: all of it waits for trust. */
  isWritten?: true;
  dir: string;
  tier: "project" | "user";
}

/** Names of the embedded agents or skills, in the order of the build. */
export function embeddedNames(files: readonly { path: string }[]): string[] {
  return [...new Set(files.map(({ path }) => path.split("/")[0] ?? ""))];
}

/** Whether a name is a single folder name, without a path. */
export function isFolderName(name: string): boolean {
  return name !== "" && name !== "." && name !== ".." && !/[/\\\0]/.test(name);
}

/** Folders of the project, absolute. Empty without a project. */
export function inProject({ project }: Pick<ConfigSources, "project">, ...folders: string[]): Root[] {
  if (project.kind === "none") return [];
  return folders.map((folder) => ({ dir: join(project.dir, folder), tier: "project" }));
}

/** Fails with INVALID for a link to outside: it would put a user's file into a prompt or message. A missing file passes. */
export function refuseEscape(file: string, { dir }: Project): void {
  let real: string;
  try {
    // Most files that are looked for do not exist, and an error takes longer than this.
    if (lstatSync(file, { throwIfNoEntry: false }) === undefined) return;
    real = realpathSync(file);
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return;
    if (errnoOf(error) === "ELOOP") {
      throw new SyscallError("INVALID", `${file}: expected a file, found a link that leads back to itself.`, {
        cause: error,
      });
    }
    throw fileError(error, file, "look at");
  }
  if (real.startsWith(`${dir}${sep}`)) return;
  throw new SyscallError("INVALID", `${file}: expected a file inside the project, found a link to ${real}.`);
}

/** The error as a problem of one part of a list. Anything but a SyscallError is a bug and is rethrown. */
export function problemsOf(error: unknown, path: string): Problem[] {
  if (!(error instanceof SyscallError)) throw error;
  return [{ path, message: error.message }];
}

/** null in place of what can't be read, for a `catch`. Anything but a SyscallError is a bug and is rethrown. */
export function unreadable(error: unknown): null {
  if (error instanceof SyscallError) return null;
  throw error;
}
