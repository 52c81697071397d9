/** Loads the skills that an agent names or offers. */

import type { SkillInfo } from "../../options/definitions.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { ConfigSources, Tier } from "../config-sources.ts";
import { type YamlText, yamlError } from "../files/yaml.ts";
import { loadSkill, loadSkills, scriptsWait } from "../skills/skills.ts";
import { type AgentFront, EVERY } from "./agent-file.ts";

/** What is said of an agent's skills. */
export interface SkillNews {
  /** What waits for trust. */
  untrusted: string[];
  /** Shown to the user: what is wrong with them. */
  notices: string[];
}

/**
 * The skills of an agent's file. `isForeign`: a file of Claude Code, whose skills may be missing here; for any other, a
 * missing or broken one fails.
 */
export async function skillsOfAgent(
  front: AgentFront,
  {
    yaml,
    sources,
    news,
    isForeign,
  }: { yaml: YamlText; sources: ConfigSources; news: SkillNews; isForeign: boolean },
): Promise<{ skills: SkillInfo[]; deferredSkills: SkillInfo[] }> {
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
  const offered = [...named];
  const left: string[] = [];
  let length = offered.reduce((sum, { description }) => sum + description.length, 0);
  for (const skill of others) {
    if (length + skill.description.length > MAX_OFFERED) left.push(skill.name);
    else {
      length += skill.description.length;
      offered.push(skill);
    }
  }
  if (left.length > 0) {
    notices.push(
      `Skills whose descriptions exceed ${MAX_OFFERED} characters in all are not offered: ${left.join(", ")}. Load one with --skill NAME.`,
    );
  }
  return offered;
}

const TIERS: readonly Tier[] = ["project", "user", "embedded"];
