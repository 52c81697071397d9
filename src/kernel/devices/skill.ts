import { SyscallError } from "../../plugin/index.ts";
import type { CapabilityManager } from "../capability-manager.ts";
import type { Process } from "../process/process.ts";
import type { SkillInfo } from "../types.ts";
import type { KernelCall, KernelTool } from "./tool-device.ts";

export function skillTool(capabilities: () => CapabilityManager): KernelTool {
  return {
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
    run: (call) => loadSkill(capabilities(), call),
  };
}

/** A skill's list as rules: the tools that finishing and planning need are not taken away by it. */
export function withAlways(list: readonly string[]): string[] {
  return [...list, "Plan", "Skill", "Complete"];
}

/** Loads a skill and narrows the rights to the agent's own and what the called skills list together. */
async function loadSkill(capabilities: CapabilityManager, { proc, input }: KernelCall): Promise<string> {
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
  const withheld = narrow(capabilities, proc, skill);
  proc.skills.push(skill);
  const base = skill.dir === "" ? "" : `\nBase folder of this skill: ${skill.dir}`;
  const note = withheld === 0 ? "" : `\n[${withheld} of your tools are withheld while this skill is loaded.]`;
  return `# Skill: ${name}${base}${note}\n\n${body.trim()}`;
}

/** How many of the tools are withheld from now on. */
function narrow(capabilities: CapabilityManager, proc: Process, skill: SkillInfo): number {
  if (skill.allowedTools === null) return 0;
  const before = proc.permissions.allowedTools().length;
  capabilities.narrow(proc, skill.name, withAlways(skill.allowedTools));
  return before - proc.permissions.allowedTools().length;
}
