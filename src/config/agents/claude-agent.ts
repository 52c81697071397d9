/** Reads agents of Claude Code: Markdown files with front matter in `.claude/agents`. */

import { z } from "zod";
import { EFFORTS, SyscallError } from "../../plugin/index.ts";
import { type Checked, type FrontMatter, parseYaml } from "../files/yaml.ts";
import { toolNames } from "../skills/skill-file.ts";
import type { AgentFile, AgentFront } from "./agent-file.ts";
import { readOnlyRules } from "./project-agent.ts";

/** Such a file, in the terms of an agent.yaml. */
export interface ClaudeAgent {
  manifest: Checked<typeof AgentFile>;
  /** Rules that it denies, beside what it allows. */
  deny: string[];
  /** Shown to the user: what of the file has no effect. */
  notes: string[];
}

/** Fails with INVALID, which names the file. */
export async function readClaudeAgent(file: string, parts: FrontMatter): Promise<ClaudeAgent> {
  const { value, text } = await frontOf(file, parts);
  const notes: string[] = [];
  const note = (what: string): void => void notes.push(`${file}: ${what}`);
  const { name, description, tools, disallowedTools, model, skills, maxTurns, effort, mcpServers } = value;
  const listed = tools === undefined ? undefined : mapped(toolNames(tools), note);
  const deny = disallowedTools === undefined ? [] : mapped(toolNames(disallowedTools), note);
  const allowed = (listed ?? ["*"]).filter((rule) => !deny.includes(rule));
  const isPlan = value.permissionMode === "plan";
  const { shape } = Front.unwrap();
  for (const key of Object.keys(value).filter((one) => !Object.hasOwn(shape, one)))
    note(`the key "${key}" has no effect in Rnix`);
  if (value.permissionMode !== undefined && !isPlan && value.permissionMode !== "default") {
    note(
      `permissionMode ${String(value.permissionMode)} has no effect: rights come from tools, trust and flags`,
    );
  }
  const isEffort = EFFORTS.find((one) => one === effort);
  if (effort !== undefined && isEffort === undefined)
    note(`effort ${String(effort)} is not known: it has no effect`);
  const wantsModel = model !== undefined && model !== "inherit";
  const front: AgentFront = {
    name,
    description,
    allowed_tools: isPlan ? readOnlyRules(allowed).kept : allowed,
    mcp: serversOf(listed, mcpServers, note),
    ...((wantsModel || isEffort) && {
      models: { ...(wantsModel && { preferred: model }), ...(isEffort && { effort: isEffort }) },
    }),
    ...(skills !== undefined && { skills: toolNames(skills) }),
    ...(listed === undefined && { deferred_skills: ["*"] }),
    ...(maxTurns !== undefined && { max_steps: maxTurns }),
  };
  return { manifest: { value: front, text }, deny: [...deny], notes };
}

const words = z
  .union([z.string(), z.array(z.string())])
  .nullish()
  .transform((value) => value ?? undefined);

const Front = z.lazy(() =>
  z.looseObject({
    name: z.coerce.string().min(1),
    description: z.coerce.string().min(1),
    tools: words,
    disallowedTools: words,
    model: z.string().optional(),
    skills: words,
    maxTurns: z.coerce.number().int().positive().optional(),
    effort: z.unknown().optional(),
    permissionMode: z.unknown().optional(),
    mcpServers: z.unknown().optional(),
    /** Of Claude Code's screen alone. */
    color: z.unknown().optional(),
  }),
);

/** Many of these files are no YAML: a description with ": " in it. Then each line is a key and its text. */
async function frontOf(file: string, { front }: FrontMatter): Promise<Checked<typeof Front>> {
  try {
    return await parseYaml(Front, front, file, { firstLine: 2 });
  } catch (error) {
    if (!(error instanceof SyscallError) || error.code !== "INVALID") throw error;
    const checked = Front.safeParse(linesOf(front));
    if (!checked.success) throw error;
    return {
      value: checked.data,
      text: { file, value: checked.data, position: () => ({ line: 1, column: 1 }) },
    };
  }
}

function linesOf(front: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const line of front.split(/\r?\n/)) {
    const [, key, text = ""] = /^([A-Za-z][\w-]*):[ \t]*(.*)$/.exec(line) ?? [];
    if (key !== undefined && text !== "") found[key] = text.replace(/^(["'])(.*)\1$/, "$2");
  }
  return found;
}

/** Claude Code's tools by their names here. An empty name: part of another tool, or without a counterpart that is missed. */
const TOOLS: Readonly<Record<string, string>> = {
  Agent: "Agent",
  Bash: "Bash",
  Edit: "Edit",
  Glob: "Glob",
  Grep: "Grep",
  Read: "Read",
  Skill: "Skill",
  Write: "Write",
  MultiEdit: "Edit",
  LS: "Glob",
  NotebookRead: "Read",
  Task: "Agent",
  TodoRead: "Plan",
  TodoWrite: "Plan",
  TaskCreate: "TaskCreate",
  TaskGet: "TaskGet",
  TaskList: "TaskList",
  TaskUpdate: "TaskUpdate",
  SlashCommand: "Skill",
  SendMessage: "SendMessage",
  BashOutput: "",
  KillBash: "",
  KillShell: "",
  TaskOutput: "",
  TaskStop: "",
  ToolSearch: "",
  ExitPlanMode: "",
  EnterPlanMode: "",
  ListMcpResourcesTool: "",
  ReadMcpResourceTool: "",
};

/** The rules with the names that they have here. A tool that does not exist here is noted. */
function mapped(rules: readonly string[], note: (what: string) => void): string[] {
  const found: string[] = [];
  for (const rule of rules) {
    const [, name = rule, pattern] = /^([^(]+)\((.*)\)$/s.exec(rule) ?? [];
    const known = name === "*" || name.startsWith("mcp__") ? name : TOOLS[name];
    if (known === undefined) note(`the tool ${name} does not exist in Rnix`);
    else if (known !== "") found.push(ruleOf(known, pattern));
  }
  return [...new Set(found)];
}

/** `Bash(git:*)` is written `Bash(git *)` here. A server's name stands for all its tools. */
function ruleOf(name: string, pattern: string | undefined): string {
  if (/^mcp__[^_]+(?:_[^_]+)*$/.test(name)) return `${name}__*`;
  // Claude Code names kinds of agents here; the tool of Rnix takes each.
  if (pattern === undefined || name === "Agent" || name === "Skill") return name;
  return `${name}(${pattern.replace(/:\*$/, " *")})`;
}

type Servers = NonNullable<AgentFront["mcp"]>;

/** Without a list of tools it takes every trusted server, as Claude Code does; a missing one is no error. */
function serversOf(
  listed: readonly string[] | undefined,
  named: unknown,
  note: (what: string) => void,
): Servers {
  if (listed === undefined && named === undefined) return ["*"];
  const ofTools = (listed ?? []).flatMap((rule) => /^mcp__(.+?)__/.exec(rule)?.[1] ?? []);
  const isList = Array.isArray(named);
  if (named !== undefined && !isList)
    note("mcpServers with definitions has no effect: define them in .mcp.json");
  const names = isList ? named.filter((one): one is string => typeof one === "string") : [];
  if (isList && names.length < named.length)
    note("a server defined in mcpServers has no effect: define it in .mcp.json");
  return [...new Set([...ofTools, ...names])].map((name) => ({ name, required: false }));
}
