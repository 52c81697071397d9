import type { Process } from "../process/process.ts";

/**
 * Which tools the skills of a new process are made for and it may not use, a sentence for each skill (interfaces
 * §2): a skill's list adds nothing to its rights.
 */
export function unmetSkillNeeds({ spec, permissions }: Process): string[] {
  const { agent } = spec;
  return [...agent.skills, ...agent.deferredSkills].flatMap(({ name, allowedTools }) => {
    const missing = permissions.notHeld(allowedTools ?? []);
    if (missing.length === 0) return [];
    return [
      `Skill ${name} is made for ${missing.join(", ")}, which this run may not use: allowed_tools of agent ${agent.name} and --allow say what it may.`,
    ];
  });
}
