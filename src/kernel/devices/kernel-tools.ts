import {
  type Device,
  type FileStat,
  type OpenContext,
  SyscallError,
  type ToolDef,
  type VFSFile,
} from "../../plugin/index.ts";
import type { Process } from "../process.ts";

/**
 * The kernel's own tools, devices below /dev/kernel like any other: `Plan`, `Skill` and `Complete`.
 * `lookup` finds the process that opened the file.
 */
export function kernelTools(lookup: (uuid: string) => Process): Record<string, Device> {
  const device = (
    tool: ToolDef,
    run: (proc: Process, input: Record<string, unknown>) => string | Promise<string>,
  ): Device => ({
    tools: [tool],
    factory: (_subpath, _flags, context) =>
      new ToolFile(tool.name, context, (input) => run(lookup(context.process.uuid), input)),
  });
  return {
    "/dev/kernel/plan": device(PLAN, plan),
    "/dev/kernel/skill": device(SKILL, loadSkill),
    "/dev/kernel/complete": device(COMPLETE, complete),
  };
}

const PLAN: ToolDef = {
  name: "Plan",
  description:
    "Write down the steps you intend to take before work that needs several of them. Call it again when the plan changes.",
  input: {
    type: "object",
    properties: {
      steps: { type: "array", items: { type: "string" }, minItems: 1, description: "The steps, in order." },
      reason: { type: "string", description: "Why the plan is as it is, or why it changed." },
    },
    required: ["steps"],
    additionalProperties: false,
  },
  annotations: { idempotentHint: true },
};

const SKILL: ToolDef = {
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
};

const COMPLETE: ToolDef = {
  name: "Complete",
  description:
    "Finish the run with this result. Call it alone, when the task is done and nothing is left to do.",
  input: {
    type: "object",
    properties: { result: { type: "string", description: "The final answer, whole." } },
    required: ["result"],
    additionalProperties: false,
  },
  annotations: { idempotentHint: true },
};

/** Tools that finishing and planning need are not taken away by a skill's list. */
const ALWAYS = ["Plan", "Skill", "Complete"];

function plan(proc: Process, input: Record<string, unknown>): string {
  const steps = Array.isArray(input.steps) ? input.steps.map(String) : [];
  proc.plan = steps.map((step, index) => `${index + 1}. ${step}`).join("\n");
  return `The plan is noted:\n${proc.plan}`;
}

function complete(proc: Process, input: Record<string, unknown>): string {
  proc.completion = String(input.result);
  return "The run is complete.";
}

/** Loads a skill and narrows the rights to the agent's own and what the called skills list together. */
async function loadSkill(proc: Process, input: Record<string, unknown>): Promise<string> {
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

/** One operation per file: write the input, read the result. */
class ToolFile implements VFSFile {
  readonly #name: string;
  readonly #context: OpenContext;
  readonly #run: (input: Record<string, unknown>) => string | Promise<string>;
  #result = "";

  constructor(
    name: string,
    context: OpenContext,
    run: (input: Record<string, unknown>) => string | Promise<string>,
  ) {
    this.#name = name;
    this.#context = context;
    this.#run = run;
  }

  async write(data: string | Uint8Array): Promise<void> {
    const text = typeof data === "string" ? data : new TextDecoder().decode(data);
    this.#result = await this.#run(parseInput(this.#name, text));
  }

  async read(max: number): Promise<string> {
    const piece = this.#result.slice(0, max);
    this.#result = this.#result.slice(piece.length);
    return piece;
  }

  async close(): Promise<void> {
    this.#result = "";
  }

  async stat(): Promise<FileStat> {
    const devicePath = `/dev/kernel/${this.#name.toLowerCase()}`;
    return {
      name: this.#name,
      size: this.#result.length,
      isDevice: true,
      devicePath,
      pid: this.#context.process.pid,
    };
  }
}

function parseInput(tool: string, text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
  } catch (cause) {
    throw new SyscallError("INVALID", `${tool}: expected a JSON object, got ${text.slice(0, 100)}`, {
      cause,
    });
  }
  throw new SyscallError("INVALID", `${tool}: expected a JSON object, got ${text.slice(0, 100)}`);
}
