import { realpathSync } from "node:fs";
import { join, sep } from "node:path";
import { SyscallError } from "../plugin/index.ts";
import type { AgentFront } from "./agent-file.ts";
import { fileError, systemCode } from "./file.ts";
import type { Project } from "./project.ts";
import type { SkillFront } from "./skill-file.ts";
import type { TrustView } from "./trust.ts";

/** A file of the build, by its path below `agents/` or `skills/`. */
export interface EmbeddedFile<Front = never> {
  path: string;
  text: string;
  /** What its YAML says, where that was read and checked when the binary was built. */
  front?: Front;
}

/** From where agents, skills, providers and settings are read for one command. */
export interface ConfigSources {
  project: Project;
  trust: TrustView;
  /** `~/.config/rnix`. */
  configDir: string;
  home: string;
  agents: readonly EmbeddedFile<AgentFront>[];
  skills: readonly EmbeddedFile<SkillFront>[];
}

export type Tier = "project" | "user" | "embedded";

/** In place of a path, for what the build brings. */
export const EMBEDDED = "embedded";

/** A part that could not be read: the others are there all the same. `message` has file, line and column. */
export interface Problem {
  path: string;
  message: string;
}

/** A folder on disk to look into. */
export interface Root {
  dir: string;
  tier: "project" | "user";
}

/** Names of what the build brings, in its order. */
export function embeddedNames(files: readonly { path: string }[]): string[] {
  return [...new Set(files.map(({ path }) => path.split("/")[0] ?? ""))];
}

/** Whether a name is that of one folder and leads nowhere else. */
export function isFolderName(name: string): boolean {
  return name !== "" && name !== "." && name !== ".." && !/[/\\\0]/.test(name);
}

/** Folders of the project, absolute; none outside of one. */
export function inProject({ project }: Pick<ConfigSources, "project">, ...folders: string[]): Root[] {
  if (project.kind === "none") return [];
  return folders.map((folder) => ({ dir: join(project.dir, folder), tier: "project" }));
}

/**
 * INVALID for a file of the project that is a link to outside: it would put a file of the user's into a
 * prompt or a message. A missing file is left to who reads it.
 */
export function refuseEscape(file: string, { dir }: Project): void {
  let real: string;
  try {
    real = realpathSync(file);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return;
    if (systemCode(error) === "ELOOP") {
      throw new SyscallError("INVALID", `${file}: expected a file, found a link that leads back to itself.`, {
        cause: error,
      });
    }
    throw fileError(error, file, "look at");
  }
  if (real.startsWith(`${dir}${sep}`)) return;
  throw new SyscallError("INVALID", `${file}: expected a file inside the project, found a link to ${real}.`);
}

/** For a list that goes on without its broken parts. Anything but a SyscallError is a bug of ours and is thrown on. */
export function problemsOf(error: unknown, path: string): Problem[] {
  if (!(error instanceof SyscallError)) throw error;
  return [{ path, message: error.message }];
}
