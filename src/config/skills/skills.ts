/** Finds and reads skills. */

import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { BoundedMap } from "../../lib/caches.ts";
import type { SkillInfo } from "../../options/definitions.ts";
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
  refuseEscape,
  type Tier,
} from "../config-sources.ts";
import { entriesIn, FileCache, readText } from "../files/file.ts";
import { suggestion } from "../files/suggestion.ts";
import { parseYaml, stockYaml } from "../files/yaml.ts";
import { ownDataDir } from "../project/project.ts";
import {
  asksTrust,
  isSame,
  knownAmong,
  notInPlaceOf,
  outrankedBy,
  ownerText,
} from "../trust/project-keys.ts";
import type { TrustRequest } from "../trust/trust.ts";
import {
  checkSkillFile,
  SKILL_FILE,
  SkillFile,
  type SkillFront,
  splitSkill,
  stockLabel,
  toolNames,
  warningsOf,
} from "./skill-file.ts";

/** A skill, named by its folder (Agent Skills: the name equals the folder's). */
export interface Skill extends SkillInfo {
  tier: Tier;
  /** Its SKILL.md, or "embedded". */
  source: string;
  /** Problems that its author should fix. The skill is loaded anyway. */
  warnings: string[];
  /** Nearer skills of its name that wait for trust. */
  untrusted: string[];
}

interface SkillList {
  skills: Skill[];
  /** Skills that could not be read. */
  problems: Problem[];
  /** Skills that a nearer, different skill of the same name hides. */
  shadowed: { name: string; path: string; by: string; waits?: string }[];
  /** SKILL.md files of an untrusted project that come with scripts, and those that agents have written. */
  withheld: string[];
  /** Skills that agents have written and the user has not trusted. */
  waiting: { name: string; path: string; description: string }[];
}

const emptyList = (): SkillList => ({ skills: [], problems: [], shadowed: [], withheld: [], waiting: [] });

/** Every skill there is, nearest first. A broken one is reported and hides nothing. */
export async function loadSkills(sources: ConfigSources): Promise<SkillList> {
  const list = emptyList();
  const byName = new Map<string, SkillSource & { skill: Skill }>();
  for (const found of everySkill(sources, list.problems)) {
    const known = outrankedBy(found, sourcesOf(found.name, sources), sources.trust);
    if (known) {
      if (!isSame(found, known)) {
        const waits = notInPlaceOf(found, known, "skill");
        list.shadowed.push({ name: found.name, path: found.source, by: known.source, waits });
      }
      continue;
    }
    const skill = await attempt(found, sources, list);
    if (!skill) continue;
    const nearer = byName.get(found.name);
    if (!nearer) byName.set(found.name, { ...found, skill });
    else if (nearer.content() !== found.content()) {
      list.shadowed.push({ name: found.name, path: found.source, by: nearer.source });
    }
  }
  list.skills = [...byName.values()].map(({ skill }) => skill).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  return list;
}

/** Fails with NOT_FOUND, INVALID when the only one is broken, or PERMISSION for scripts of a project that is not trusted. */
export async function loadSkill(name: string, sources: ConfigSources): Promise<Skill> {
  const list = emptyList();
  const untrusted: string[] = [];
  for (const found of sourcesOf(name, sources)) {
    const known = outrankedBy(found, sourcesOf(found.name, sources), sources.trust);
    if (known) {
      if (!isSame(found, known)) untrusted.push(notInPlaceOf(found, known, "skill"));
      continue;
    }
    const skill = await attempt(found, sources, list);
    if (skill) return { ...skill, untrusted };
  }
  const [withheld] = list.withheld;
  if (withheld !== undefined) throw new SyscallError("PERMISSION", scriptsWait(withheld));
  const [problem] = list.problems;
  if (problem) throw new SyscallError("INVALID", problem.message);
  const names = new Set(everySkill(sources, []).map((found) => found.name));
  throw new SyscallError("NOT_FOUND", `There is no skill "${name}".${suggestion(name, names)}`);
}

/** What of the project's skills needs trust: scripts, what agents have written, and names of a user's or stock skill. */
export function projectSkills(sources: ConfigSources): TrustRequest[] {
  return projectRoots(sources)
    .flatMap((root) => skillFolders(root, []))
    .flatMap((found): TrustRequest[] => {
      const { name, source: file, dir, isWritten } = found;
      const known = knownAmong(sourcesOf(name, sources));
      if (known && isSame(found, known)) return [];
      const scripts = scriptsOf(dir);
      const requests: (Pick<TrustRequest, "kind" | "what" | "parts" | "files"> | false | undefined)[] = [
        known && {
          kind: "skill",
          what: `skill ${name}: in place of ${ownerText(known, "skill")} of this name`,
          parts: { name },
        },
        isWritten && {
          kind: "skill",
          what: `skill ${name}, written by ${authorOf(found)}`,
          files: [{ path: file }],
        },
        scripts.length > 0 && {
          kind: "scripts",
          what: `${scripts.length} scripts of the skill ${name}`,
          files: scripts,
        },
      ];
      return requests.flatMap((request) => (request ? [{ ...request, name, file }] : []));
    });
}

/** Who wrote a skill, by the front matter that SkillManage gives it, and what it is for. */
function authorOf(found: SkillSource): string {
  try {
    const { front } = splitSkill(found.content() ?? "", found.source);
    const field = (key: string): string =>
      new RegExp(`^ *${key}: "?(.*?)"?$`, "m").exec(front)?.[1] ?? "unknown";
    return `agent ${field("agent")} in run ${field("run")}: ${field("description")}`;
  } catch (error) {
    if (error instanceof SyscallError) return `an agent; it can't be read: ${error.message}`;
    throw error;
  }
}

/**
 * Checks a skill, or a folder of skills, strictly against the format. Fails with INVALID when there is none. `checked`:
 * the SKILL.md files. A skill with warnings works as it is.
 */
export async function checkSkills(
  dir: string,
): Promise<{ checked: string[]; problems: Problem[]; warnings: Problem[] }> {
  const alone = join(dir, SKILL_FILE);
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  const files =
    readText(alone) === null
      ? skillFolders({ dir, tier: "user" }, problems).map(({ source }) => source)
      : [alone];
  if (files.length === 0) {
    throw new SyscallError("INVALID", `${dir}: expected a ${SKILL_FILE}, or folders that have one.`);
  }
  for (const path of files) {
    try {
      const found = await checkSkillFile(path, skillFiles.get(path) ?? "");
      warnings.push(...found.map((message) => ({ path, message })));
    } catch (error) {
      problems.push(...problemsOf(error, path));
    }
  }
  return { checked: files, problems, warnings };
}

/** A skill that waits for trust, as shown to the user. `file`: its SKILL.md. */
export function scriptsWait(file: string): string {
  const isWritten = !existsSync(join(dirname(file), "scripts"));
  const why = isWritten ? "that an agent has written" : "with its scripts";
  return `the skill ${basename(dirname(file))} ${why} (${file})`;
}

async function attempt(found: SkillSource, sources: ConfigSources, list: SkillList): Promise<Skill | null> {
  try {
    const content = found.content();
    if (content === null) return null;
    if (found.isWritten && !sources.trust.allows({ files: [{ path: found.source }] })) {
      const { description } = await parseSkill(found, content);
      list.withheld.push(found.source);
      list.waiting.push({ name: found.name, path: found.source, description });
      return null;
    }
    if (found.tier === "project" && !found.isWritten) {
      refuseEscape(found.source, sources.project);
      const scripts = scriptsOf(found.dir);
      const asks = scripts.length > 0 && asksTrust("skills/*/scripts/**", "content");
      if (asks && !sources.trust.allows({ files: scripts })) {
        list.withheld.push(found.source);
        return null;
      }
    }
    return await parseSkill(found, content);
  } catch (error) {
    list.problems.push(...problemsOf(error, found.source));
    return null;
  }
}

/** Parsed skills by tier and file: the stock agents offer all of them to each run. */
const parsedSkills = new BoundedMap<string, { content: string; skill: Skill }>(512);

async function parseSkill(found: SkillSource, content: string): Promise<Skill> {
  const key = `${found.tier} ${found.source === EMBEDDED ? found.name : found.source}`;
  const cached = parsedSkills.get(key);
  if (cached?.content === content) return cached.skill;
  const skill = await readSkill(found, content);
  parsedSkills.set(key, { content, skill });
  return skill;
}

async function readSkill(found: SkillSource, content: string): Promise<Skill> {
  const label = found.source === EMBEDDED ? stockLabel(`${found.name}/${SKILL_FILE}`) : found.source;
  const { front, body } = splitSkill(content, label);
  const { value, text: yaml } =
    found.tier === "embedded"
      ? stockYaml(SkillFile, found.front, front, label)
      : await parseYaml(SkillFile, front, label, { firstLine: 2 });
  const listed = value["allowed-tools"];
  return {
    name: found.name,
    description: value.description,
    dir: found.dir,
    allowedTools: listed === undefined ? null : toolNames(listed),
    body: async () => body,
    ...(found.dir !== "" && {
      files: async () => (await import("./skill-resources.ts")).skillResources(found.dir),
      file: async (path: string) => (await import("./skill-resources.ts")).readSkillResource(found.dir, path),
    }),
    tier: found.tier,
    source: found.source,
    warnings: warningsOf(found.name, value.name, yaml),
    untrusted: [],
  };
}

/** A SKILL.md that has not been read yet. */
interface SkillSource {
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
function everySkill(sources: ConfigSources, problems: Problem[]): SkillSource[] {
  const inFolders = roots(sources).flatMap((root) => skillFolders(root, problems));
  return [...inFolders, ...embeddedNames(sources.skills).flatMap((name) => embedded(name, sources))];
}

/** Where a skill of this name may be, the nearest first. */
function sourcesOf(name: string, sources: ConfigSources): SkillSource[] {
  if (!isFolderName(name)) return [];
  return [...roots(sources).map((root) => onDisk(root, name)), ...embedded(name, sources)];
}

const skillFiles = new FileCache((content) => content);

function roots(sources: ConfigSources): Root[] {
  const user = [
    join(sources.configDir, "skills"),
    join(sources.home, ".agents/skills"),
    join(sources.home, ".claude/skills"),
  ];
  return [...projectRoots(sources), ...user.map((dir): Root => ({ dir, tier: "user" }))];
}

function projectRoots(sources: ConfigSources): Root[] {
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
function skillFolders(root: Root, problems: Problem[]): SkillSource[] {
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
  const { front, text } = file;
  return [
    { name, source: EMBEDDED, dir: "", tier: "embedded", front, isThere: () => true, content: () => text },
  ];
}

/** The files of its `scripts/`, absolute. Fails with INVALID for too many. */
function scriptsOf(dir: string): { path: string }[] {
  const scripts = entriesIn(join(dir, "scripts"), { recursive: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => ({ path: join(entry.parentPath, entry.name) }))
    .toSorted((a, b) => (a.path < b.path ? -1 : 1));
  if (scripts.length > MAX_SCRIPTS) {
    throw new SyscallError(
      "INVALID",
      `${dir}: expected at most ${MAX_SCRIPTS} scripts, found ${scripts.length}.`,
    );
  }
  return scripts;
}

const MAX_SCRIPTS = 1000;
