/** Lists the places of agents: folders of the project and the user, files of Claude Code, the binary. */

import { type Dirent, existsSync } from "node:fs";
import { join } from "node:path";
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
  type Tier,
} from "../config-sources.ts";
import { entriesIn, FileCache, readText } from "../files/file.ts";
import {
  type Checked,
  type FrontMatter,
  readYaml,
  splitFrontMatter,
  stockYaml,
  type YamlText,
  yamlError,
} from "../files/yaml.ts";
import { loadSkill, loadSkills, scriptsWait } from "../skills/skills.ts";
import { AGENT_FILE, AgentFile, type AgentFront, EVERY, stockLabel } from "./agent-file.ts";
import type { ClaudeAgent } from "./claude-agent.ts";

export const INSTRUCTIONS_FILE = "instructions.md";

/** An agent that has not been read yet. */
export interface AgentSource {
  name: string;
  /** The path of its agent.yaml, or "embedded". */
  source: string;
  tier: Tier;
  isThere(): boolean;
  manifest(): Promise<Checked<typeof AgentFile> | null>;
  instructions(): string | null;
  /** Both files as one text, for comparison. */
  content(): string;
  /** A file of Claude Code: what it denies, and what of it has no effect. Its models and skills may be missing here. */
  claude?(): Promise<Pick<ClaudeAgent, "deny" | "notes">>;
}

const instructionFiles = new FileCache((content) => content.trim());

/** Every agent that is found, the nearest of a name first. What can't be listed is added to `problems`. */
export function everyAgent(sources: ConfigSources, problems: Problem[]): AgentSource[] {
  const inFolders = roots(sources).flatMap((root) =>
    root.isClaude
      ? claudeFiles(root, problems).map((file) => ofClaude(root, file))
      : foldersOf(root, problems).map((name) => onDisk(root, name)),
  );
  return [...inFolders, ...embeddedNames(sources.agents).flatMap((name) => embedded(name, sources))];
}

/** Where an agent of this name may be, the nearest first. */
export function sourcesOf(name: string, sources: ConfigSources): AgentSource[] {
  if (!isFolderName(name)) return [];
  const inFolders = roots(sources).flatMap((root) =>
    root.isClaude
      ? claudeFiles(root, [])
          .map((file) => ofClaude(root, file))
          .filter((one) => one.name === name)
          .slice(0, 1)
      : [onDisk(root, name)],
  );
  return [...inFolders, ...embedded(name, sources)];
}

/** The nearest first. `isClaude`: it holds Markdown files of Claude Code. */
function roots(sources: ConfigSources): (Root & { isClaude?: boolean })[] {
  return [
    ...inProject(sources, "agents", ".rnix/agents"),
    ...inProject(sources, CLAUDE_AGENTS).map((root) => ({ ...root, isClaude: true })),
    { dir: join(sources.configDir, "agents"), tier: "user" },
    { dir: join(sources.home, CLAUDE_AGENTS), tier: "user", isClaude: true },
  ];
}

const CLAUDE_AGENTS = ".claude/agents";
/** More files in one folder are not read. */
const MAX_CLAUDE_FILES = 500;

interface ClaudeFile {
  path: string;
  name: string;
  text: string;
  parts: FrontMatter;
}

const claudeTexts = new FileCache((text) => ({ text, parts: splitFrontMatter(text) }));

/** Markdown files with a name in their front matter; others are no agents. */
function claudeFiles({ dir }: Root, problems: Problem[]): ClaudeFile[] {
  return listed(dir, problems)
    .map(({ name }) => name)
    .filter((name) => name.endsWith(".md"))
    .toSorted()
    .slice(0, MAX_CLAUDE_FILES)
    .flatMap((file): ClaudeFile[] => {
      const path = join(dir, file);
      try {
        const read = claudeTexts.get(path);
        const name = read?.parts && AGENT_NAME.exec(read.parts.front)?.[2];
        return read?.parts && name && isFolderName(name)
          ? [{ path, name, text: read.text, parts: read.parts }]
          : [];
      } catch (error) {
        problems.push(...problemsOf(error, path));
        return [];
      }
    });
}

/** The name that a front matter gives its agent. */
const AGENT_NAME = /^name:[ \t]*(["']?)([^"'\r\n#]+?)\1[ \t]*$/m;

function ofClaude({ tier }: Root, { path, name, text, parts }: ClaudeFile): AgentSource {
  const read = async (): Promise<ClaudeAgent> => {
    const { readClaudeAgent } = await import("./claude-agent.ts");
    return readClaudeAgent(path, parts);
  };
  return {
    name,
    source: path,
    tier,
    isThere: () => true,
    manifest: async () => (await read()).manifest,
    instructions: () => parts.body,
    content: () => text,
    claude: read,
  };
}

/** Folders with an agent.yaml. `agents/` is a common name, so other folders in it are ignored. */
function foldersOf({ dir }: Root, problems: Problem[]): string[] {
  return listed(dir, problems)
    .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
    .map(({ name }) => name)
    .filter((name) => existsSync(join(dir, name, AGENT_FILE)))
    .toSorted();
}

function listed(dir: string, problems: Problem[]): Dirent[] {
  try {
    return entriesIn(dir);
  } catch (error) {
    problems.push(...problemsOf(error, dir));
    return [];
  }
}

function onDisk({ dir, tier }: Root, name: string): AgentSource {
  const source = join(dir, name, AGENT_FILE);
  const instructions = join(dir, name, INSTRUCTIONS_FILE);
  return {
    name,
    source,
    tier,
    isThere: () => existsSync(source),
    manifest: () => readYaml(AgentFile, source),
    instructions: () => instructionFiles.get(instructions),
    content: () => `${readText(source)}\n${readText(instructions)}`,
  };
}

function embedded(name: string, sources: ConfigSources): AgentSource[] {
  const fileOf = (file: string) => sources.agents.find(({ path }) => path === `${name}/${file}`);
  const manifest = fileOf(AGENT_FILE);
  if (manifest === undefined) return [];
  const instructions = fileOf(INSTRUCTIONS_FILE)?.text ?? null;
  const agent: AgentSource = {
    name,
    source: EMBEDDED,
    tier: "embedded",
    isThere: () => true,
    manifest: async () => stockYaml(AgentFile, manifest.front, manifest.text, stockLabel(manifest.path)),
    instructions: () => instructions?.trim() ?? null,
    content: () => `${manifest.text}\n${instructions}`,
  };
  return [agent];
}

/** What is said of an agent's skills. */
export interface SkillNews {
  /** What waits for trust. */
  untrusted: string[];
  /** Shown to the user: what is wrong with them. */
  notices: string[];
}

/** `isForeign`: a file of Claude Code, whose skills may be missing here. For any other, a missing or broken one fails. */
export async function skillsOfAgent(
  front: AgentFront,
  o: { yaml: YamlText; sources: ConfigSources; news: SkillNews; isForeign: boolean },
): Promise<{ skills: SkillInfo[]; deferredSkills: SkillInfo[] }> {
  const { yaml, sources, news, isForeign } = o;
  const named = async (key: "skills" | "deferred_skills"): Promise<SkillInfo[]> => {
    const loaded = [...(front[key] ?? []).entries()]
      .filter(([, name]) => key === "skills" || name !== EVERY)
      .map(([index, name]) =>
        agentSkill(name, sources, news, (message) => yamlError(yaml, [key, index], message)).catch(
          (error) => {
            if (!isForeign || !(error instanceof SyscallError)) throw error;
            news.notices.push(error.message);
            return [];
          },
        ),
      );
    return (await Promise.all(loaded)).flat();
  };
  const skills = await named("skills");
  const deferred = await named("deferred_skills");
  const offersAll = front.deferred_skills?.includes(EVERY) === true;
  const deferredSkills = offersAll
    ? await withEverySkill([...skills, ...deferred], deferred, sources, news)
    : deferred;
  return { skills, deferredSkills };
}

/** Loads one skill of an agent. An unknown or broken one fails; an untrusted one is left out. */
export async function agentSkill(
  name: string,
  sources: ConfigSources,
  { untrusted, notices }: SkillNews,
  wrong: (message: string) => SyscallError,
): Promise<SkillInfo[]> {
  try {
    const skill = await loadSkill(name, sources);
    notices.push(...skill.warnings);
    untrusted.push(...skill.untrusted);
    return [skill];
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error;
    if (error.code !== "PERMISSION") throw wrong(error.message);
    untrusted.push(error.message);
    return [];
  }
}

/** Characters of all descriptions that an agent with every skill shows its model. */
const MAX_OFFERED = 16_000;
const MAX_DESCRIPTION = 1_024;

/** `named`, and every other skill that there is except those in `taken`: the project's first, then the user's. */
async function withEverySkill(
  taken: readonly SkillInfo[],
  named: readonly SkillInfo[],
  sources: ConfigSources,
  { untrusted, notices }: SkillNews,
): Promise<SkillInfo[]> {
  const { skills, problems, withheld, shadowed } = await loadSkills(sources);
  notices.push(...problems.map(({ message }) => `left out: ${message}`));
  untrusted.push(...withheld.map(scriptsWait), ...shadowed.flatMap(({ waits }) => waits ?? []));
  const others = skills
    .filter(({ name }) => !taken.some((one) => one.name === name))
    .map((skill) => ({ ...skill, description: skill.description.slice(0, MAX_DESCRIPTION) }))
    .toSorted((a, b) => TIERS.indexOf(a.tier) - TIERS.indexOf(b.tier));
  let length = named.reduce((sum, { description }) => sum + description.length, 0);
  const { offered = [], left = [] } = Object.groupBy(others, ({ description }) => {
    if (length + description.length > MAX_OFFERED) return "left";
    length += description.length;
    return "offered";
  });
  if (left.length > 0) {
    const names = left.map(({ name }) => name).join(", ");
    notices.push(
      `Skills whose descriptions exceed ${MAX_OFFERED} characters in all are not offered: ${names}. Load one with --skill NAME.`,
    );
  }
  return [...named, ...offered];
}

const TIERS: readonly Tier[] = ["project", "user", "embedded"];
