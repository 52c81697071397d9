/** Restores the settings of a resumed run: options, limits, rights and tools. */

import { realOrSame } from "../../lib/inner-path.ts";
import { budgetOf, restoredOptions } from "../../options/option-list.ts";
import type { ProcessMeta } from "../../store/runs/schema.ts";
import type { Namespace } from "../../vfs/namespace.ts";
import type { BudgetLimits } from "../budget/budget.ts";
import { confinedFact, factsOf } from "../permission/coverage.ts";
import { Permissions } from "../permission/permissions.ts";
import type { Process } from "../process/process.ts";
import type { ProcessTool } from "../process/process-spec.ts";
import { showTools, usableTools } from "../tools/tool-catalog.ts";
import type { SpawnOpts } from "../types.ts";
import type { SavedRun } from "./saved-run.ts";

/** The settings of the spawn stay; all others are those that the resume has planned. */
export function savedOpts({ info, spawned, fork }: SavedRun, given: SpawnOpts): SpawnOpts {
  return {
    ...given,
    cwd: info.cwd,
    folders: spawned.folders,
    input: spawned.input ?? undefined,
    sandbox: info.sandbox,
    chat: info.chat,
    effort: info.effort ?? undefined,
    script: fork ? undefined : spawned.script,
    workflow: spawned.script ? undefined : (info.workflow ?? undefined),
    ...restoredOptions(given, { ...info.options, ...spawned }),
    // A fork is another run, with settings of its own.
    resume_on_restart: fork ? given.resume_on_restart : info.resume_on_restart,
    supervised: fork ? undefined : (info.supervised ?? undefined),
    job: fork ? undefined : (given.job ?? info.job ?? undefined),
    envHad: info.env.names,
  };
}

/**
 * The options of a run that adopts a foreign one: only the attached input is copied; all others are those of a new run.
 */
export function adoptedOpts({ spawned }: SavedRun, given: SpawnOpts): SpawnOpts {
  return { ...given, input: spawned.input ?? undefined };
}

/** The limits of the run, where the resume brings no new ones. */
export function savedLimits({ info, spawned }: SavedRun, opts: SpawnOpts): BudgetLimits {
  return {
    ...budgetOf((name) => (opts[name] === undefined ? info[name] : opts[name])),
    children: opts.limits.live_children,
    depth: spawned.depth,
  };
}

/** The recorded rights, applied to today's tools, and within those of the parent if it is alive. */
export function savedPermissions(
  { info }: SavedRun,
  namespace: Namespace,
  opts: SpawnOpts,
  parent: Process | undefined,
): Permissions {
  const folders = (opts.folders ?? []).map(realOrSame);
  const places = { projectDir: opts.project.dir, cwd: info.cwd, folders };
  const facts = { ...factsOf(namespace), ...places, ...confinedFact(opts) };
  const saved = Permissions.from(info.permissions, facts).withAsks(opts);
  return parent ? saved.within(parent.permissions) : saved;
}

/**
 * Shows the tools as before and in the same order, so that the prompt head does not change. A tool that is gone stays
 * in the list, and its calls are refused. New tools are appended. Returns a notice of what is gone.
 */
export function restoreTools(proc: Process, shown: ProcessMeta["tools"]): string[] {
  const usable = usableTools(proc);
  const before = shown.map(({ name, description, input }): ProcessTool => {
    const { tool, entry } = usable.get(name) ?? gone(name);
    return { tool: { ...tool, name, description, input }, entry };
  });
  proc.toolset.show(before);
  showTools(proc);
  const missing = [...proc.toolset.shown]
    .filter(([, { entry }]) => entry.path.startsWith(GONE))
    .map(([name]) => name);
  return missing.length === 0 ? [] : [`tools that are no longer available: ${missing.join(", ")}`];
}

const GONE = "/dev/gone/";

/** A tool without a device: its calls fail with NOT_FOUND. */
function gone(name: string): ProcessTool {
  const path = `${GONE}${name}`;
  const tool = { name, description: "", input: {} };
  const factory = (): never => {
    throw new Error(`the tool ${name} has no device`);
  };
  return { tool, entry: { path, device: { factory }, plugin: "", layer: "kernel", needs: [] } };
}
