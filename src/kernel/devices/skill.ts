/** The tool Skill, which loads a skill's instructions. */

import { SyscallError } from "../../plugin/index.ts";
import type { Process } from "../process/process.ts";
import type { SkillInfo } from "../types.ts";
import type { KernelCall, KernelTool } from "./tool-device.ts";

/** Loads a skill of the agent's list. It changes no rights. */
export const skill: KernelTool = {
  path: "/dev/kernel/skill",
  tool: {
    name: "Skill",
    description: "Load a listed skill, or a `file` of it.",
    input: {
      type: "object",
      properties: { skill: { type: "string" }, file: { type: "string" } },
      required: ["skill"],
      additionalProperties: false,
    },
    annotations: { idempotentHint: true },
  },
  run: loadSkill,
};

async function loadSkill({ proc, input }: KernelCall): Promise<string> {
  const name = String(input.skill);
  const loaded = proc.conversation.skills.find((one) => one.name === name);
  if (typeof input.file === "string") return fileOf(proc, loaded ?? offered(proc, name), input.file);
  if (loaded) throw new SyscallError("INVALID", `The skill ${name} is already loaded.`);
  const found = offered(proc, name);
  const [body, files] = await Promise.all([found.body(), found.files?.() ?? []]);
  proc.conversation.skills.push(found);
  const base = found.dir === "" ? "" : `\nBase folder of this skill: ${found.dir}`;
  const missing = proc.permissions.notHeld(found.allowedTools ?? []);
  const note = missing.length === 0 ? "" : `\n[You may not use these tools of it: ${missing.join(", ")}.]`;
  return `# Skill: ${name}${base}${filesLine(files)}${note}\n\n${body.trim()}`;
}

/** A skill outside the project can't be read by Read: its files come by this tool. */
function filesLine(files: readonly string[]): string {
  return files.length === 0
    ? ""
    : `\nFiles of this skill (Skill with \`file\` reads one): ${files.join(", ")}`;
}

async function fileOf(proc: Process, skill: SkillInfo, file: string): Promise<string> {
  if (!skill.file) throw new SyscallError("NOT_FOUND", `The skill ${skill.name} has no files.`);
  return proc.secrets.hide(await skill.file(file));
}

function offered(proc: Process, name: string): SkillInfo {
  const { deferredSkills } = proc.spec.agent;
  const found = deferredSkills.find((candidate) => candidate.name === name);
  if (found) return found;
  throw new SyscallError(
    "NOT_FOUND",
    `There is no skill ${JSON.stringify(name)} to load. Loadable: ${deferredSkills.map((one) => one.name).join(", ") || "none"}.`,
  );
}
