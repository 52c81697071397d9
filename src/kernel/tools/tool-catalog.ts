/** The tools of a process: those it may use, and those that its model is offered. */

import type { LLMTool, ToolDef } from "../../plugin/index.ts";
import type { Conversations } from "../conversation/conversations.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTool } from "../process/process-spec.ts";
import { isMessageTool } from "./message-tools.ts";
import { modelSchema } from "./model-schema.ts";

/** The tools that a process may use. */
export function usableTools({ spec, permissions }: Process): Map<string, ProcessTool> {
  const { namespace, agent, budget } = spec;
  const usable = namespace
    .tools()
    .filter(({ tool }) => permissions.showsTool(tool.name))
    .filter(({ tool }) => tool.name !== "Skill" || agent.deferredSkills.length > 0)
    .filter(({ tool }) => tool.name !== "Agent" || budget.limits.depth !== 0);
  return new Map(usable.map((named) => [named.tool.name, named]));
}

/** The usable tools that the model is offered: the message tools only if they are useful, as each request carries all. */
function shownTools(proc: Process): Map<string, ProcessTool> {
  const usable = [...usableTools(proc)];
  return new Map(usable.filter(([, { entry }]) => proc.messaging || !isMessageTool(entry.path)));
}

/** Sets the tools that a new process's model is offered. */
export function showTools(proc: Process): void {
  proc.tools.clear();
  for (const [name, tool] of shownTools(proc)) proc.tools.set(name, tool);
}

/** The tool that a call names, offered or only usable. */
export function toolNamed(proc: Process, name: string): ProcessTool | undefined {
  return proc.tools.get(name) ?? usableTools(proc).get(name);
}

/**
 * Appends the tools that a live process may use since its last request. Returns their names, for the caller to notify
 * the model. No tool is removed or moved, or the provider's prompt cache would miss; a withdrawn tool is denied when
 * it is called.
 */
export function appendTools(proc: Process, contexts: Conversations): string[] {
  if (proc.preparing) return [];
  const fresh = [...shownTools(proc)].filter(([name]) => !proc.tools.has(name));
  if (fresh.length === 0) return [];
  for (const [name, tool] of fresh) proc.tools.set(name, tool);
  // For a process that is being built, its builder writes them.
  if (proc.ctxId !== 0) writeMeta(proc, contexts);
  return fresh.map(([name]) => name);
}

/** Writes the prompt head and the offered tools to the run's record. */
export function writeMeta(proc: Process, contexts: Conversations): void {
  proc.record.meta({
    v: 1,
    system_prompt: contexts.buildPrompt(proc.ctxId).systemPrompt,
    tools: [...proc.tools.values()].map(({ tool: { name, description, input } }) => ({
      name,
      description,
      input: { ...input },
    })),
    spawned: {
      input: proc.spec.opts.input ?? null,
      checks: [...proc.spec.checks],
      check_attempts: proc.spec.checkAttempts,
      folders: [...(proc.spec.opts.folders ?? [])],
      mounts: (proc.spec.opts.mounts ?? []).map(({ type, name }) => ({ type, name })),
      depth: proc.spec.budget.limits.depth,
      system_prompt: proc.spec.opts.systemPrompt ?? null,
      ...(proc.spec.opts.onAsk && { on_ask: proc.spec.opts.onAsk }),
      ...(proc.images.length > 0 && { images: [...proc.images] }),
      ...(proc.spec.opts.outputSchema && { output_schema: { ...proc.spec.opts.outputSchema } }),
    },
  });
}

/** A tool as the model gets it. Made once per tool, because each process holds the tools of its requests. */
export function toolForModel(tool: ToolDef): LLMTool {
  const known = modelTools.get(tool);
  if (known) return known;
  const { name, description, input } = tool;
  const made = { name, description, input: modelSchema(input) };
  modelTools.set(tool, made);
  return made;
}

const modelTools = new WeakMap<ToolDef, LLMTool>();
