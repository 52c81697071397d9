/** Lists the places of skills: folders of the project and the user, and the binary. */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { SyscallError } from "../../plugin/index.ts";
import {
  type ConfigSources,
  EMBEDDED,
  embeddedNames,
  inProject,
  isFolderName,
  type Problem,
  problemsOf,
  type Root,
  type Tier,
} from "../config-sources.ts";
import { entriesIn, FileCache } from "../files/file.ts";
import { ownDataDir } from "../project/project.ts";
import { SKILL_FILE, type SkillFront } from "./skill-file.ts";

/** A SKILL.md that has not been read yet. */
export interface SkillSource {
  name: string;
  /** Its path, or "embedded". */
  source: string;
  /** Absolute; "" for an embedded skill. */
  dir: string;
  tier: Tier;
  /** An agent has written it. */
  isWritten?: true;
  /** The front matter of an embedded skill, which the build has parsed. */
  front?: SkillFront;
  isThere(): boolean;
  /** null when the file does not exist. */
  content(): string | null;
}

/** Every skill that is found, the nearest of a name first. What can't be listed is added to `problems`. */
export function everySkill(sources: ConfigSources, problems: Problem[]): SkillSource[] {
  const inFolders = roots(sources).flatMap((root) => skillFolders(root, problems));
  return [...inFolders, ...embeddedNames(sources.skills).flatMap((name) => embedded(name, sources))];
}

/** Where a skill of this name may be, the nearest first. */
export function sourcesOf(name: string, sources: ConfigSources): SkillSource[] {
  if (!isFolderName(name)) return [];
  return [...roots(sources).map((root) => onDisk(root, name)), ...embedded(name, sources)];
}

export const skillFiles = new FileCache((content) => content);

function roots(sources: ConfigSources): Root[] {
  const user = [
    join(sources.configDir, "skills"),
    join(sources.home, ".agents/skills"),
    join(sources.home, ".claude/skills"),
  ];
  return [...projectRoots(sources), ...user.map((dir): Root => ({ dir, tier: "user" }))];
}

export function projectRoots(sources: ConfigSources): Root[] {
  return [
    ...inProject(sources, "skills", ".rnix/skills", ".agents/skills", ".claude/skills"),
    ...writtenRoot(sources),
  ];
}

/** Where the plugin `skills` writes. A base revision has none. */
function writtenRoot({ project, base }: ConfigSources): Root[] {
  if (project.kind === "none" || base) return [];
  const { dataDir, dir, id } = project;
  const isOwn = dataDir === ownDataDir(dir);
  const folder = isOwn ? join(dataDir, "skills") : join(dataDir, "projects", id, "skills");
  return [{ dir: folder, tier: "project", isWritten: true }];
}

/** The root's skills by name. A root that cannot be listed is a problem; the others are not affected. */
export function skillFolders(root: Root, problems: Problem[]): SkillSource[] {
  try {
    return entriesIn(root.dir)
      .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
      .map(({ name }) => onDisk(root, name))
      .filter((one) => one.isThere())
      .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  } catch (error) {
    problems.push(...problemsOf(error, root.dir));
    return [];
  }
}

function onDisk({ dir, tier, isWritten }: Root, name: string): SkillSource {
  const file = join(dir, name, SKILL_FILE);
  return {
    name,
    source: file,
    dir: join(dir, name),
    tier,
    isWritten,
    // A deleted one is empty.
    isThere: () => existsSync(file) && !(isWritten && skillFiles.get(file) === ""),
    content: () => skillFiles.get(file) || (isWritten ? null : skillFiles.get(file)),
  };
}

function embedded(name: string, sources: ConfigSources): SkillSource[] {
  const file = sources.skills.find(({ path }) => path === `${name}/${SKILL_FILE}`);
  if (!file) return [];
  return [
    {
      name,
      source: EMBEDDED,
      dir: "",
      tier: "embedded",
      front: file.front,
      isThere: () => true,
      content: () => file.text,
    },
  ];
}

/** The files of its `scripts/`, absolute. Fails with INVALID for too many. */
export function scriptsOf(dir: string): string[] {
  const scripts = entriesIn(join(dir, "scripts"), { recursive: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted();
  if (scripts.length > MAX_SCRIPTS) {
    throw new SyscallError(
      "INVALID",
      `${dir}: expected at most ${MAX_SCRIPTS} scripts, found ${scripts.length}.`,
    );
  }
  return scripts;
}

const MAX_SCRIPTS = 1000;
