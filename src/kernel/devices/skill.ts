/** The tool Skill, which loads a skill's instructions. */

import { SyscallError } from "../../plugin/index.ts";
import type { KernelCall, KernelTool } from "./tool-device.ts";

/** The tool Skill: loads a skill of the agent's list. It changes no rights (interfaces §2). */
export const skill: KernelTool = {
  path: "/dev/kernel/skill",
  tool: {
    name: "Skill",
    description: "Load the instructions of a listed skill.",
    input: {
      type: "object",
      properties: { skill: { type: "string" } },
      required: ["skill"],
      additionalProperties: false,
    },
    annotations: { idempotentHint: true },
  },
  run: loadSkill,
};

async function loadSkill({ proc, input }: KernelCall): Promise<string> {
  const name = String(input.skill);
  if (proc.skills.some((loaded) => loaded.name === name)) {
    throw new SyscallError("INVALID", `The skill ${name} is already loaded.`);
  }
  const found = proc.spec.agent.deferredSkills.find((candidate) => candidate.name === name);
  if (!found) {
    const names = proc.spec.agent.deferredSkills.map((candidate) => candidate.name);
    throw new SyscallError(
      "NOT_FOUND",
      `There is no skill ${JSON.stringify(name)} to load. Loadable: ${names.join(", ") || "none"}.`,
    );
  }
  const body = await found.body();
  proc.skills.push(found);
  const base = found.dir === "" ? "" : `\nBase folder of this skill: ${found.dir}`;
  const missing = proc.permissions.notHeld(found.allowedTools ?? []);
  const note = missing.length === 0 ? "" : `\n[You may not use these tools of it: ${missing.join(", ")}.]`;
  return `# Skill: ${name}${base}${note}\n\n${body.trim()}`;
}
