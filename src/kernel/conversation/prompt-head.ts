/** Assembles the system prompt of a run. */

/** The parts of a prompt head, in their order. */
export interface PromptHead {
  instructions: string;
  /** Loaded skills, with the folder that relative paths in the body refer to. */
  skills: readonly { name: string; dir: string; body: string }[];
  /** Skills that the Skill tool can load. */
  deferredSkills: readonly { name: string; description: string }[];
  systemPrompt?: string;
  /** AGENTS.md of the project. */
  projectDoc?: string;
  parts?: readonly { plugin?: string; title: string; text: string }[];
  /** JSON Schema that the answer must fit. */
  outputSchema?: object;
  /** Commands that must succeed at the end. */
  checks?: readonly string[];
  environment: { project: string; cwd: string; date: string; platform: string };
}

/**
 * The fixed head of a process's prompt. It is built once, at spawn, and never changes during the run:
 * providers cache a prompt by its prefix, and one changed word in it costs the whole cache.
 */
export function assembleHead(head: PromptHead): string {
  return headParts(head)
    .map(({ text }) => text)
    .join("\n\n");
}

/** The parts that are not empty, with their names for the user. */
export function headParts(head: PromptHead): { name: string; text: string }[] {
  const parts = [
    { name: "instructions", text: head.instructions.trim() },
    ...head.skills.map((skill) => ({ name: `skill ${skill.name}`, text: skillSection(skill) })),
    { name: "skills to load", text: deferredSection(head.deferredSkills) },
    { name: "--system-prompt", text: head.systemPrompt?.trim() ?? "" },
    { name: "project document", text: head.projectDoc?.trim() ?? "" },
    ...(head.parts ?? []).map(({ plugin = "", title, text }) => ({
      name: `plugin ${plugin}: ${title}`,
      text: `# ${title}\n\n${text.trim()}`,
    })),
    { name: "environment", text: environmentSection(head.environment) },
    { name: "schema of the answer", text: answerSection(head.outputSchema) },
    { name: "checks", text: checkSection(head.checks ?? []) },
  ];
  return parts.filter(({ text }) => text !== "");
}

function skillSection(skill: { name: string; dir: string; body: string }): string {
  const where = skill.dir === "" ? "" : `\nBase folder of this skill: ${skill.dir}`;
  return `# Skill: ${skill.name}${where}\n\n${skill.body.trim()}`;
}

function deferredSection(skills: PromptHead["deferredSkills"]): string {
  if (skills.length === 0) return "";
  const list = skills.map((skill) => `- ${skill.name}: ${skill.description}`);
  return ["# Skills that can be loaded", "Load one with Skill before work it fits:", ...list].join("\n");
}

function answerSection(schema: object | undefined): string {
  if (schema === undefined) return "";
  return [
    "# Answer",
    "Your final answer, or what you give the tool Complete, is read by a program. It must be one JSON document that fits this JSON Schema, and nothing else: no words around it, no code fence.",
    JSON.stringify(schema),
  ].join("\n");
}

/** Without the number of attempts: a replay has those of its recording, and the same head. */
function checkSection(checks: readonly string[]): string {
  if (checks.length === 0) return "";
  return [
    "# Checks",
    "When you finish, these commands run in the working folder, in this order. All of them must exit with 0. If one fails and an attempt is left, you are shown its output and continue.",
    ...checks.map((command) => `- ${command.includes("\n") ? JSON.stringify(command) : command}`),
  ].join("\n");
}

function environmentSection(environment: PromptHead["environment"]): string {
  const { project, cwd, date, platform } = environment;
  return [
    "# Environment",
    ...(project === cwd ? [] : [`Project folder: ${project}`]),
    `Working folder: ${cwd} (relative paths start here)`,
    `Date: ${date}`,
    `Platform: ${platform}`,
  ].join("\n");
}
