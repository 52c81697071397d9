import type { ContextManager } from "../context/manager.ts";
import type { LLMTool, ToolDef } from "../plugin/index.ts";
import type { Namespace } from "../vfs/namespace.ts";
import type { Envelope } from "./envelope.ts";
import type { Permissions } from "./permission/permissions.ts";
import type { Process } from "./process.ts";
import type { ProcessTool } from "./process-spec.ts";
import type { AgentInfo } from "./types.ts";

/** What the model may be shown of a namespace: no tool that none of its calls could ever use. */
export function shownTools(
  namespace: Namespace,
  permissions: Permissions,
  agent: AgentInfo,
  envelope: Envelope,
): Map<string, ProcessTool> {
  const shown = namespace
    .tools()
    .filter(({ tool }) => permissions.showsTool(tool.name))
    .filter(({ tool }) => tool.name !== "Skill" || agent.deferredSkills.length > 0)
    .filter(({ tool }) => tool.name !== "Agent" || envelope.limits.depth !== 0);
  return new Map(shown.map((named) => [named.tool.name, named]));
}

/**
 * Appends to a live process's tools what it may use by now and has not been shown yet. The names of the new
 * ones, which the caller tells the model. None is taken out or moved: a provider's prompt cache must hit, and
 * what was withdrawn is refused when it is called.
 */
export function appendTools(proc: Process, contexts: ContextManager): string[] {
  const shown = shownTools(proc.spec.namespace, proc.permissions, proc.spec.agent, proc.spec.envelope);
  const fresh = [...shown].filter(([name]) => !proc.tools.has(name));
  if (fresh.length === 0) return [];
  for (const [name, tool] of fresh) proc.tools.set(name, tool);
  // One that is being built is written by its builder.
  if (proc.ctxId !== 0) writeMeta(proc, contexts);
  return fresh.map(([name]) => name);
}

/** The prompt's head and the tools shown, on disk as they are now. */
export function writeMeta(proc: Process, contexts: ContextManager): void {
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
      folders: [...(proc.spec.opts.folders ?? [])],
      mounts: (proc.spec.opts.mounts ?? []).map(({ type, name }) => ({ type, name })),
      depth: proc.spec.envelope.limits.depth,
      system_prompt: proc.spec.opts.systemPrompt ?? null,
      ...(proc.images.length > 0 && { images: [...proc.images] }),
      ...(proc.spec.opts.outputSchema && { output_schema: { ...proc.spec.opts.outputSchema } }),
    },
  });
}

/** As a model is told of it. Made once per tool: each process keeps those of its requests. */
export function asTold(tool: ToolDef): LLMTool {
  const known = told.get(tool);
  if (known) return known;
  const { name, description, input } = tool;
  const made = { name, description, input };
  told.set(tool, made);
  return made;
}

const told = new WeakMap<ToolDef, LLMTool>();
