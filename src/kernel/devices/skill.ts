import { SyscallError } from "../../plugin/index.ts";
import type { Process } from "../process.ts";
import type { KernelCall, KernelTool } from "./tool-device.ts";

export const skillTool: KernelTool = {
  path: "/dev/kernel/skill",
  tool: {
    name: "Skill",
    description:
      'Load one of the skills that are listed under "Skills that can be loaded". Its instructions are the result.',
    input: {
      type: "object",
      properties: { skill: { type: "string", description: "The skill's name." } },
      required: ["skill"],
      additionalProperties: false,
    },
    annotations: { idempotentHint: true },
  },
  run: loadSkill,
};

/** Tools that finishing and planning need are not taken away by a skill's list. */
const ALWAYS = ["Plan", "Skill", "Complete"];

/** Loads a skill and narrows the rights to the agent's own and what the called skills list together. */
async function loadSkill({ proc, input }: KernelCall): Promise<string> {
  const name = String(input.skill);
  if (proc.skills.some((skill) => skill.name === name)) {
    throw new SyscallError("INVALID", `The skill ${name} is already loaded.`);
  }
  const skill = proc.spec.agent.deferredSkills.find((candidate) => candidate.name === name);
  if (!skill) {
    const names = proc.spec.agent.deferredSkills.map((candidate) => candidate.name);
    throw new SyscallError(
      "NOT_FOUND",
      `There is no skill ${JSON.stringify(name)} to load. Loadable: ${names.join(", ") || "none"}.`,
    );
  }
  const body = await skill.body();
  const withheld = skill.allowedTools === null ? 0 : narrow(proc, skill.allowedTools);
  proc.skills.push(skill);
  const base = skill.dir === "" ? "" : `\nBase folder of this skill: ${skill.dir}`;
  const note = withheld === 0 ? "" : `\n[${withheld} of your tools are withheld while this skill is loaded.]`;
  return `# Skill: ${name}${base}${note}\n\n${body.trim()}`;
}

/** How many of the tools are withheld from now on. */
function narrow(proc: Process, list: readonly string[]): number {
  const before = proc.permissions.allowedTools().length;
  proc.permissions = proc.permissions.narrow([...list, ...ALWAYS]);
  return before - proc.permissions.allowedTools().length;
}
