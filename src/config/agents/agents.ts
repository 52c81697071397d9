/** Finds and reads agents. */

import { dirname, join } from "node:path";
import type { AgentInfo } from "../../options/definitions.ts";
import { namesWith } from "../../options/option-list.ts";
import { type Effort, SyscallError } from "../../plugin/index.ts";
import {
  type ConfigSources,
  EMBEDDED,
  type Problem,
  problemsOf,
  refuseEscape,
  type Tier,
  unreadable,
  workTreeOf,
} from "../config-sources.ts";
import { allNamed, filesOfLine } from "../files/named-files.ts";
import { suggestion } from "../files/suggestion.ts";
import { optionsIn } from "../files/values.ts";
import { yamlError } from "../files/yaml.ts";
import type { McpServerRef } from "../mcp/mcp.ts";
import { loadSettings } from "../settings/settings.ts";
import { isSame, knownAmong, notInPlaceOf, outrankedBy, ownerText } from "../trust/project-keys.ts";
import type { TrustRequest } from "../trust/trust.ts";
import { type AgentFront, EVERY } from "./agent-file.ts";
import {
  type AgentSource,
  agentSkill,
  everyAgent,
  INSTRUCTIONS_FILE,
  type SkillNews,
  skillsOfAgent,
  sourcesOf,
} from "./agent-sources.ts";
import { type AskedKey, askedOf, without } from "./project-agent.ts";

/** An agent as its files define it, with what a spawn needs beside the kernel's part. */
export interface Agent extends AgentInfo {
  tier: Tier;
  /** This and the next three are read from `models` in agent.yaml. */
  provider?: string;
  model?: string;
  /** `model` or `provider/model`, in the order in which they are tried. */
  fallback?: readonly string[];
  effort?: Effort;
  /** MCP servers that it names. */
  mcp: McpServerRef[];
  /** The agent gets every other trusted MCP server as well. */
  mcpAll: boolean;
  /** It declares checks that are not trusted: see `requireChecks`. */
  checksWithheld: boolean;
  /** Rules that it denies. */
  deny: string[];
  /** The model that a file of Claude Code names: it counts for Anthropic and the Claude Code CLI only. */
  claudeModel?: string;
  /** Its other keys that are not trusted and do not count. */
  withheld: AskedKey[];
  /** What waits for trust: skills, and agents of the project that do not replace this one. */
  untrusted: string[];
  /** Shown to the user: what is wrong with its skills. */
  notices: string[];
}

interface AgentList {
  agents: Agent[];
  problems: Problem[];
  shadowed: { name: string; path: string; by: string }[];
}

/** All agents, sorted by name. A broken one is in `problems`; the others are not affected. */
export async function loadAgents(sources: ConfigSources): Promise<AgentList> {
  const list: AgentList = { agents: [], problems: [], shadowed: [] };
  const byName = new Map<string, AgentSource>();
  for (const found of everyAgent(sources, list.problems)) {
    try {
      const known = outrankedBy(found, sourcesOf(found.name, sources), sources.trust);
      if (known) {
        if (!isSame(found, known)) {
          list.shadowed.push({ name: found.name, path: found.source, by: known.source });
        }
        continue;
      }
      const nearer = byName.get(found.name);
      if (!nearer) {
        byName.set(found.name, found);
        const agent = await read(found, sources);
        if (agent) list.agents.push(agent);
      } else if (nearer.content() !== found.content()) {
        list.shadowed.push({ name: found.name, path: found.source, by: nearer.source });
      }
    } catch (error) {
      list.problems.push(...problemsOf(error, found.source));
    }
  }
  list.agents.sort((a, b) => (a.name < b.name ? -1 : 1));
  return list;
}

/** The nearest agent of this name. Fails with NOT_FOUND, which lists the others, or INVALID with file, line and column. */
export async function loadAgent(name: string, sources: ConfigSources): Promise<Agent> {
  const untrusted: string[] = [];
  const all = sourcesOf(name, sources);
  for (const found of all) {
    const known = outrankedBy(found, all, sources.trust);
    if (known) {
      if (!isSame(found, known)) untrusted.push(notInPlaceOf(found, known, "agent"));
      continue;
    }
    const agent = await read(found, sources);
    if (agent) return { ...agent, untrusted: [...untrusted, ...agent.untrusted] };
  }
  const names = new Set(everyAgent(sources, []).map((found) => found.name));
  throw new SyscallError("NOT_FOUND", `There is no agent "${name}".${suggestion(name, names)}`);
}

/** Fails with INVALID (exit 64) for untrusted checks: a run without its checks must never look like one that passed. */
export function requireChecks(agent: Agent): void {
  if (!agent.checksWithheld) return;
  throw new SyscallError(
    "INVALID",
    `The agent ${agent.name} declares checks, and the project is not trusted to run them: look at ${agent.source}, then run \`rnix trust\`, or give --trust for this run.`,
  );
}

/** What of the project's agents needs trust. Checks are asked for apart, because they are commands. */
export async function projectAgents(sources: ConfigSources): Promise<TrustRequest[]> {
  const byName = new Map<string, TrustRequest[]>();
  for (const found of everyAgent(sources, [])) {
    if (found.tier !== "project" || byName.has(found.name)) continue;
    const known = knownAmong(sourcesOf(found.name, sources));
    if (known && isSame(found, known)) continue;
    // An unreadable agent needs no trust. `rnix agents` and a spawn report its problem.
    const front = (await found.manifest().catch(unreadable))?.value;
    const asked = front ? await askedOfAgent(found, front, sources) : [];
    const parts = Map.groupBy(asked, ({ key }) => key === AGENT_CHECKS);
    const requests = [false, true].flatMap((isCheck) => {
      const keys = parts.get(isCheck);
      return keys ? [requestOf(found, keys, front?.checks, sources)] : [];
    });
    byName.set(found.name, requests);
  }
  return [...byName.values()].flat();
}

/** The key of agent.yaml that holds commands. */
const AGENT_CHECKS = "checks";

function requestOf(
  { name, source: file }: AgentSource,
  asked: readonly AskedKey[],
  checks: readonly string[] = [],
  sources: ConfigSources,
): TrustRequest {
  const dir = workTreeOf(sources);
  const hasChecks = asked.some(({ key }) => key === AGENT_CHECKS);
  return {
    kind: hasChecks ? "checks" : "agent",
    name,
    what: `agent ${name}: ${asked.map(({ says }) => says).join("; ")}`,
    file,
    parts: Object.fromEntries(asked.map(({ key, value }) => [key, value])),
    named: hasChecks ? allNamed(checks.map((check) => filesOfLine(check, dir, dir))) : undefined,
  };
}

/** The keys of a project's agent that need trust. */
async function askedOfAgent(
  found: AgentSource,
  front: AgentFront,
  sources: ConfigSources,
): Promise<AskedKey[]> {
  if (found.tier !== "project") return [];
  const known = knownAmong(sourcesOf(found.name, sources));
  const { values: limits } = await loadSettings(sources);
  return askedOf(front, limits, known && ownerText(known, "agent"));
}

/** null when the file does not exist. */
async function read(found: AgentSource, sources: ConfigSources): Promise<Agent | null> {
  const manifest = await found.manifest();
  if (!manifest) return null;
  if (found.tier === "project") {
    refuseEscape(found.source, sources.project);
    refuseEscape(join(dirname(found.source), INSTRUCTIONS_FILE), sources.project);
  }
  const { value: written, text: yaml } = manifest;
  if (written.name !== found.name) {
    throw yamlError(yaml, ["name"], `expected the folder's name "${found.name}", got "${written.name}"`);
  }
  const refused = (await askedOfAgent(found, written, sources)).filter(
    (one) => !sources.trust.allows(requestOf(found, [one], written.checks, sources)),
  );
  const value = refused.length === 0 ? written : without(written, refused);
  const claude = await found.claude?.();
  const news: SkillNews = { untrusted: [], notices: [...(claude?.notes ?? [])] };
  const isForeign = claude !== undefined;
  const skills = await skillsOfAgent(value, { yaml, sources, news, isForeign });
  const isRefused = (asked: string): boolean => refused.some(({ key }) => key === asked);
  const servers = [...(value.mcp ?? []).entries()].flatMap(([index, server]) =>
    server === EVERY ? [] : [{ index, ...(typeof server === "string" ? { name: server } : server) }],
  );
  const takesAll = value.mcp?.includes(EVERY) === true;
  return {
    name: value.name,
    description: value.description,
    instructions: instructionsOf(found),
    ...skills,
    allowedTools: value.allowed_tools ?? ["*"],
    ask: value.ask,
    ...optionsIn(value, namesWith({ agent: true })),
    checks: value.checks ?? [],
    mcpAll: takesAll && !isRefused("mcp"),
    mcp: servers.map(({ index, name, required = true }) => ({
      name,
      required,
      ...(isRefused("mcp") && { untrusted: found.source }),
      wrong: (message) => yamlError(yaml, ["mcp", index], message),
    })),
    source: found.source,
    tier: found.tier,
    provider: value.models?.provider,
    ...(claude ? { claudeModel: value.models?.preferred } : { model: value.models?.preferred }),
    deny: claude?.deny ?? [],
    fallback: value.models?.fallback,
    effort: value.models?.effort,
    checksWithheld: isRefused(AGENT_CHECKS),
    withheld: refused.filter(({ key }) => key !== AGENT_CHECKS && (key !== "mcp" || servers.length === 0)),
    ...news,
  };
}

/** With skills and servers of a command line. Fails with INVALID for a skill that is missing, broken or not trusted. */
export async function withAdded(
  agent: Agent,
  { skill = [], mcp = [] }: { skill?: readonly string[]; mcp?: readonly string[] },
  sources: ConfigSources,
): Promise<Agent> {
  const news: SkillNews = { untrusted: [], notices: [] };
  const wrong = (flag: string) => (message: string) => new SyscallError("INVALID", `${flag}: ${message}`);
  const fresh = skill.filter((name) => !agent.skills.some((one) => one.name === name));
  const loaded = await Promise.all(
    [...new Set(fresh)].map((name) => agentSkill(name, sources, news, wrong("--skill"))),
  );
  const [waits] = news.untrusted;
  if (waits !== undefined)
    throw wrong("--skill")(`not trusted: ${waits}. Run \`rnix trust\`, or give --trust.`);
  const added = loaded.flat();
  return {
    ...agent,
    skills: [...agent.skills, ...added],
    deferredSkills: agent.deferredSkills.filter(({ name }) => !added.some((one) => one.name === name)),
    mcp: [
      ...agent.mcp.filter(({ name }) => !mcp.includes(name)),
      ...[...new Set(mcp)].map((name) => ({ name, required: true, wrong: wrong("--mcp") })),
    ],
    notices: [...agent.notices, ...news.notices],
  };
}

function instructionsOf(found: AgentSource): string {
  const instructions = found.instructions();
  if (instructions) return instructions;
  if (found.claude) {
    throw new SyscallError(
      "INVALID",
      `${found.source}: expected the agent's instructions after the front matter.`,
    );
  }
  const file = found.source === EMBEDDED ? INSTRUCTIONS_FILE : join(dirname(found.source), INSTRUCTIONS_FILE);
  const what = instructions === null ? "found none" : "found it empty";
  throw new SyscallError("INVALID", `${file}: expected the agent's instructions, ${what}.`);
}
