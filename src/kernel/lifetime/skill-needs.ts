/** Finds tools that a skill needs and a process may not use. */

import type { Process } from "../process/process.ts";

/**
 * The tools that the skills of a new process need and it may not use, in a sentence for each skill (interfaces §2). A
 * skill's list adds no rights.
 */
export function unmetSkillNeeds({ spec, permissions }: Process): string[] {
  const { agent } = spec;
  const unmet = [...agent.skills, ...agent.deferredSkills].flatMap(({ name, allowedTools }) => {
    const missing = permissions.notHeld(allowedTools ?? []);
    return missing.length === 0 ? [] : [{ name, missing: missing.join(", ") }];
  });
  // An agent that offers every skill of the user may have dozens.
  if (unmet.length > MAX_SINGLE) {
    const list = unmet.map(({ name, missing }) => `${name} (${missing})`).join("; ");
    return [`Skills made for tools that this run may not use: ${list}.`];
  }
  return unmet.map(
    ({ name, missing }) =>
      `Skill ${name} is made for ${missing}, which this run may not use: allowed_tools of agent ${agent.name} and --allow say what it may.`,
  );
}

/** More skills than this are named in one sentence. */
const MAX_SINGLE = 3;
