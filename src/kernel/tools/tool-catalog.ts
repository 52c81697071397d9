/** The tools of a process: those it may use, and those that its model is offered. */

import { recordedOptions } from "../../options/option-list.ts";
import type { LLMTool, ToolDef } from "../../plugin/index.ts";
import type { InboxEntry } from "../../store/runs/schema.ts";
import { READ_MESSAGES, SEND_MESSAGE } from "../../vfs/kernel-paths.ts";
import type { Conversations } from "../conversation/conversations.ts";
import { plan } from "../devices/plan.ts";
import { searchTool, TOOL_SEARCH } from "../devices/tool-search.ts";
import type { Permissions } from "../permission/permissions.ts";
import type { Toolset } from "../process/live-state.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTool, StartingMount } from "../process/process-spec.ts";
import type { ProcessTable } from "../process/process-table.ts";
import type { AgentInfo } from "../types.ts";

export function usableTools({ spec, permissions }: Process): Map<string, ProcessTool> {
  const { namespace, agent, budget } = spec;
  const names = permissions.shownNames();
  if (agent.deferredSkills.length === 0) names.delete("Skill");
  if (budget.limits.depth === 0) names.delete("Agent");
  const usable = new Map<string, ProcessTool>();
  for (const named of namespace.tools()) if (names.has(named.tool.name)) usable.set(named.tool.name, named);
  return usable;
}

/** Whether its model can load tools later. */
export function maySearchTools(proc: Process): boolean {
  return usableTools(proc).has(TOOL_SEARCH.tool.name);
}

/** The usable tools that the model may see: message tools and Plan only if they are useful, as each request carries all. */
function visibleTools(proc: Process, usable = usableTools(proc)): ProcessTool[] {
  const hasPlan = offersPlan(proc.spec.agent, proc.permissions);
  const isUseful = (path: string): boolean =>
    (proc.toolset.messaging || !isMessageTool(path)) && (hasPlan || !isPlanTool(path));
  return [...usable.values()].filter(({ entry }) => isUseful(entry.path));
}

/**
 * Adds the tools that the model is shown in full. Without the right to ToolSearch these are all. ToolSearch itself is
 * shown when a tool is deferred. `loaded`: names of deferred tools that the model has loaded already.
 */
export function showTools(proc: Process, loaded: ReadonlySet<string> = NONE): void {
  const usable = usableTools(proc);
  const visible = visibleTools(proc, usable).filter(({ tool }) => !proc.toolset.shown.has(tool.name));
  const search = usable.get(TOOL_SEARCH.tool.name);
  const limit = proc.spec.opts.limits.tools_shown;
  const already = { shown: proc.toolset.shown.size, loaded };
  const deferred = new Set(search === undefined ? [] : deferredAmong(visible, limit, already));
  const later = [...proc.toolset.starting].flatMap(([prefix, one]) => (one.isPromised ? [] : [`${prefix}*`]));
  const shown = visible.flatMap((named): ProcessTool[] => {
    if (named.entry.path !== TOOL_SEARCH.path) return deferred.has(named) ? [] : [named];
    if (deferred.size === 0 && later.length === 0) return [];
    const names = [...deferred].map((one) => one.tool.name);
    return [{ tool: searchTool([...later, ...names]), entry: named.entry }];
  });
  if (shown.length > 0) proc.toolset.show(shown);
}

/**
 * The tools that are not shown in full: those that ask for it, and MCP tools beyond the limit. `shown`: how many are shown
 * already. `loaded`: names that the model has loaded.
 */
export function deferredAmong<T extends ProcessTool>(
  candidates: readonly T[],
  limit: number,
  { shown, loaded = NONE }: { shown: number; loaded?: ReadonlySet<string> },
): T[] {
  const deferred = candidates.filter(({ tool }) => tool.defer === true && !loaded.has(tool.name));
  const others = candidates.filter((one) => !deferred.includes(one) && one.entry.path !== TOOL_SEARCH.path);
  const mounted = others.filter(({ tool, entry }) => isMounted(entry.path) && !loaded.has(tool.name));
  const excess = shown + others.length - limit;
  return excess <= 0 ? deferred : [...deferred, ...mounted.slice(-excess)];
}

/** Waits for mounts that are being made, and returns why some failed. A mount ends with its process. */
export async function awaitMounts(
  { toolset }: { toolset: Pick<Toolset, "starting"> },
  isWanted: (prefix: string, mount: StartingMount) => boolean,
): Promise<string[]> {
  const wanted = [...toolset.starting].filter(([prefix, mount]) => isWanted(prefix, mount));
  const failed = wanted.map(async ([prefix, { ended }]) => {
    const error = await ended;
    return error ? [`${prefix}*: ${error.message}`] : [];
  });
  return (await Promise.all(failed)).flat();
}

/** The tools that the model can load with ToolSearch. */
export function deferredTools(proc: Process): ProcessTool[] {
  return visibleTools(proc).filter(
    ({ tool, entry }) => !proc.toolset.shown.has(tool.name) && entry.path !== TOOL_SEARCH.path,
  );
}

/** Shows the model these deferred tools in full from its next request on. */
export function loadTools(proc: Process, contexts: Conversations, tools: readonly ProcessTool[]): void {
  if (tools.length === 0) return;
  proc.toolset.show(tools);
  writeMeta(proc, contexts);
}

/** The tools of a program that acts as the model: all in full, because it has its own way to defer them. */
export function toolsOfProgram(proc: Process): ToolDef[] {
  const shown = [...proc.toolset.shown.values()].filter(({ entry }) => entry.path !== TOOL_SEARCH.path);
  return [...shown, ...deferredTools(proc)].map(({ tool }) => ({ ...tool, input: toolForModel(tool).input }));
}

const NONE: ReadonlySet<string> = new Set();

function isMounted(path: string): boolean {
  return path.startsWith("/mnt/");
}

/** The tool that a call names, offered or only usable. */
export function toolNamed(proc: Process, name: string): ProcessTool | undefined {
  return proc.toolset.shown.get(name) ?? usableTools(proc).get(name);
}

/**
 * Appends the tools that a live process may use since its last request. Returns their names, for the caller to notify
 * the model. No tool is removed or moved, or the provider's prompt cache would miss; a withdrawn tool is denied when
 * it is called.
 */
export function appendTools(proc: Process, contexts: Conversations): string[] {
  if (proc.toolset.preparation) return [];
  const before = proc.toolset.shown.size;
  showTools(proc);
  // For a process that is being built, its builder writes them.
  if (proc.toolset.shown.size > before && proc.conversation.id !== 0) writeMeta(proc, contexts);
  return [...proc.toolset.shown.keys()].slice(before);
}

/** Writes the prompt head and the offered tools to the run's record. */
export function writeMeta(proc: Process, contexts: Conversations): void {
  proc.record.meta({
    v: 1,
    system_prompt: contexts.buildPrompt(proc.conversation.id).systemPrompt,
    tools: [...proc.toolset.shown.values()].map(({ tool: { name, description, input } }) => ({
      name,
      description,
      input: { ...input },
    })),
    ...(proc.conversation.promptParts.length > 0 && { prompt_parts: [...proc.conversation.promptParts] }),
    spawned: {
      input: proc.spec.opts.input ?? null,
      checks: [...proc.spec.checks],
      folders: [...(proc.spec.opts.folders ?? [])],
      mounts: (proc.spec.opts.mounts ?? []).map(({ type, name }) => ({ type, name })),
      depth: proc.spec.budget.limits.depth,
      ...(proc.conversation.images.length > 0 && { images: [...proc.conversation.images] }),
      ...(proc.spec.opts.script && { script: proc.spec.opts.script }),
      ...recordedOptions(proc.spec.opts, "head"),
    },
  });
}

/** A tool as the model gets it. Made once per tool, because each process holds the tools of its requests. */
export function toolForModel(tool: ToolDef): LLMTool {
  return modelTools.getOrInsertComputed(tool, ({ name, description, input }) => {
    return { name, description, input: modelSchema(input) };
  });
}

const modelTools = new WeakMap<ToolDef, LLMTool>();

// Most runs have no other process to write to, and each request would carry both message tools. A process may call them
// even if they are not offered.

const PATHS = [SEND_MESSAGE, READ_MESSAGES];
const MESSAGE_TOOLS = new RegExp(`\\b(?:SendMessage|ReadMessages)\\b|(?:${PATHS.join("|")})\\b`);

export function isMessageTool(path: string): boolean {
  return PATHS.includes(path);
}

/** Whether an agent's own list, or the list of one of its skills, names them. `*` names none. */
export function listsMessageTools({ allowedTools, skills, deferredSkills }: Lists): boolean {
  const ofSkills = [...skills, ...deferredSkills].flatMap((skill) => skill.allowedTools ?? []);
  return namesMessageTools(...allowedTools, ...ofSkills);
}

type Lists = Pick<AgentInfo, "allowedTools"> &
  Record<"skills" | "deferredSkills", readonly { allowedTools: readonly string[] | null }[]>;

export function namesMessageTools(...texts: readonly string[]): boolean {
  return texts.some((text) => MESSAGE_TOOLS.test(text));
}

/** Whether a new process is offered them from the start. `head` is its prompt head. */
export function startsWithMessages({ family, spec, permissions }: Process, head: string): boolean {
  if (family.ppid !== 0 || listsMessageTools(spec.agent)) return true;
  const [own = []] = permissions.record().allow;
  return namesMessageTools(spec.intent, head, ...own);
}

/**
 * Whether there is another process to write to: a live child, or the sender of a message in `entries`. A child that
 * has ended reads no answer, and the user, PID 0, has no inbox.
 */
export function hasCorrespondent(
  { family }: Process,
  entries: readonly InboxEntry[],
  table: ProcessTable,
): boolean {
  const ended = (uuid: string | null): boolean => family.results.some((child) => child.uuid === uuid);
  return (
    family.children.some((pid) => table.find(pid)?.state === "running") ||
    entries.some((entry) => entry.kind === "message" && entry.from_pid !== 0 && !ended(entry.from_uuid))
  );
}

const PLAN = new RegExp(`\\b${plan.tool.name}\\b|${plan.path}\\b`);

export function isPlanTool(path: string): boolean {
  return path === plan.path;
}

/**
 * Whether the agent's list or instructions, or a rule of the run, names Plan; `*` names nothing. A run keeps one list: the
 * tasks that it shares with its sub-agents, or a plan of its own if its agent names that tool. Plan may be called even if
 * it is not offered.
 */
export function offersPlan(
  { allowedTools, instructions }: Pick<AgentInfo, "allowedTools" | "instructions">,
  permissions: Permissions,
): boolean {
  const [own = []] = permissions.record().allow;
  return [...allowedTools, ...own, instructions].some((text) => PLAN.test(text));
}

/** Deeper than any real schema; what is below is not simplified. */
const MAX_DEPTH = 32;
/** Keywords whose value is a schema, a list of schemas, or schemas by name. */
const ONE = ["items", "contains", "not", "if", "then", "else", "propertyNames", "additionalProperties"];
const LIST = ["anyOf", "allOf", "oneOf", "prefixItems"];
const BY_NAME = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/** Keywords about the document, not about the input. */
const OMITTED = new Set(["$schema", "$comment"]);
/** Bounds that no model would violate when they are this low. */
const TRIVIAL_BOUNDS: Record<string, number> = { minLength: 1, minItems: 1, minimum: 1, minProperties: 1 };

type Schema = Readonly<Record<string, unknown>>;

/**
 * Shortens a tool's input schema for the model, because each request carries it. The full schema still checks each
 * call, and a call that violates it fails with INVALID and the field's name.
 */
export function modelSchema(schema: object): object {
  return simplified({ ...schema }, "", 0);
}

function simplified(schema: Schema, name: string, depth: number): object {
  if (depth > MAX_DEPTH) return schema;
  const kept = Object.entries(schema).filter(([key, value]) => !isRedundant(key, value, schema, name));
  return Object.fromEntries(kept.map(([key, value]) => [key, simplifiedValue(key, value, depth + 1)]));
}

function simplifiedValue(key: string, value: unknown, depth: number): unknown {
  const below = (one: unknown, name = ""): unknown => (isSchema(one) ? simplified(one, name, depth) : one);
  if (ONE.includes(key)) return below(value);
  if (LIST.includes(key) && Array.isArray(value)) return value.map((one) => below(one));
  if (!BY_NAME.includes(key) || !isSchema(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, below(one, name)]));
}

function isRedundant(key: string, value: unknown, { description }: Schema, name: string): boolean {
  if (OMITTED.has(key)) return true;
  if (key === "additionalProperties") return value === false;
  if (key === "required") return Array.isArray(value) && value.length === 0;
  if (key === "title") return description !== undefined || name === "" || letters(value) === letters(name);
  if (key === "description") return letters(value) === "" || letters(value) === letters(name);
  const lowest = TRIVIAL_BOUNDS[key];
  return lowest !== undefined && typeof value === "number" && value >= 0 && value <= lowest;
}

/** A text reduced to letters and digits, so that `Output mode` equals `output_mode`. */
function letters(text: unknown): string {
  return typeof text === "string" ? text.toLowerCase().replace(/[^\p{L}\p{N}]/gu, "") : "";
}

function isSchema(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
