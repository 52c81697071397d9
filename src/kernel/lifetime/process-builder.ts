/** Builds a process for a spawn or a resume. */

import type { Lazy } from "../../lib/caches.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { RunStore } from "../../store/runs/run-store.ts";
import type { RunWriter } from "../../store/runs/run-writer.ts";
import type { Namespace } from "../../vfs/namespace.ts";
import type { DailyBudget } from "../budget/call-budget.ts";
import { toolPrefix } from "../mount/mount-tables.ts";
import type { ProcGroupManager } from "../proc-group-manager.ts";
import { Process } from "../process/process.ts";
import { bareAgent } from "../process/process-spec.ts";
import { Secrets, secretLabels, secretVariables, withheldSecrets } from "../process/secrets.ts";
import { adoptedOpts, savedLimits, savedOpts, savedPermissions } from "../resume/restored-settings.ts";
import type { SavedRun } from "../resume/saved-run.ts";
import type { Io } from "../tiers/io.ts";
import type { AgentInfo, ProcessKind, SpawnOpts } from "../types.ts";
import { type OpenRequest, ProcessOpener } from "./process-opener.ts";
import { forget, type Holders } from "./reap.ts";
import {
  leaveOutUnpriced,
  limitsOf,
  permissionsOf,
  requirePrice,
  requireWithinParent,
  settledOptions,
} from "./spawn-limits.ts";

type ProcessBuilderParts = Io & {
  days: DailyBudget;
  groups: Lazy<ProcGroupManager>;
  holders: Holders;
};

interface BuildRequest extends OpenRequest {
  kind: ProcessKind;
  intent: string;
  agent: AgentInfo;
  opts: Omit<SpawnOpts, "images">;
}

const UNNAMED_AGENT = bareAgent("none");

/**
 * Builds processes. It is their one constructor, so each has a project, environment, rights and limits. A built process
 * is in the table, has its files on disk and its model open; `start` starts it. If any part fails, all parts are
 * undone.
 */
export class ProcessBuilder {
  readonly #parts: ProcessBuilderParts;
  readonly #opener: ProcessOpener;

  constructor(parts: ProcessBuilderParts) {
    this.#parts = parts;
    this.#opener = new ProcessOpener(parts);
  }

  build(
    kind: ProcessKind,
    intent: string,
    agent: AgentInfo | null,
    { images, ...opts }: SpawnOpts,
    start: (proc: Process) => Promise<void>,
  ): Promise<Process> {
    return this.#make({ kind, intent, agent: agent ?? UNNAMED_AGENT, opts, images }, start);
  }

  /**
   * Builds the process of a resumed run: same UUID, new PID, and the recorded settings except those that `opts` brings.
   * Of `agent` it takes the skills. The caller holds the claim of the run. A fork is a new run that begins with the
   * recorded steps: it has its own UUID, prompt head and usage, and no parent.
   */
  async rebuild(
    saved: SavedRun,
    agent: AgentInfo | null,
    opts: SpawnOpts,
    start: (proc: Process) => Promise<void>,
  ): Promise<Process> {
    const { kind, intent, agent: name } = saved.info;
    const request = {
      kind,
      intent,
      agent: { ...(agent ?? UNNAMED_AGENT), name },
      opts: saved.fork?.adopted ? adoptedOpts(saved, opts) : savedOpts(saved, opts),
      saved,
    };
    return this.#make(request, start);
  }

  async #make(request: BuildRequest, start: (proc: Process) => Promise<void>): Promise<Process> {
    const { opts, saved } = request;
    const undo: (() => unknown)[] = [() => opts.devices.release()];
    try {
      const { days } = this.#parts;
      if (days.needsBegin(opts)) await days.begin(opts);
      const { runsIn } = this.#parts;
      if (runsIn && request.kind === "agent") {
        undo.push(() => runsIn.end(opts.project));
        await runsIn.begin(opts.project);
      }
      const record = saved && (await this.#recordOf(saved, opts, undo));
      const proc = this.#construct(request, record, await this.#rootOf(request), undo);
      await this.#opener.open(proc, request, undo);
      await start(proc);
      return proc;
    } catch (thrown) {
      await this.#undo(undo);
      throw thrown;
    }
  }

  /** Runs every step, also after a failed one, which is logged: the caller gets the spawn's own error. */
  async #undo(steps: (() => unknown)[]): Promise<void> {
    for (const step of steps.reverse()) {
      try {
        await step();
      } catch (thrown) {
        this.#parts.warn("spawn", `undo: ${String(thrown)}`);
      }
    }
  }

  /** The root run of the tree that a resumed child belongs to, also when it is resumed alone. */
  async #rootOf({ saved, opts }: BuildRequest): Promise<string | undefined> {
    if (!saved || saved.fork || saved.info.parent_uuid === null) return undefined;
    return this.#runs(opts).rootOf(saved.info.uuid);
  }

  /** The record of the run, or for a fork a new one. */
  async #recordOf(saved: SavedRun, opts: SpawnOpts, undo: (() => unknown)[]): Promise<RunWriter> {
    const runs = this.#runs(opts);
    const { fork, info } = saved;
    if (!fork) return runs.reopen(info.uuid, opts.limits, saved.state);
    const uuid = this.#parts.uuid();
    const sent = fork.steps.flatMap(({ messages }) => messages.flatMap(({ images = [] }) => images));
    const files = [...new Set([...(saved.spawned.images ?? []), ...sent].map(({ file }) => file))];
    const origin = { uuid: info.uuid, steps: fork.steps, files, foreign: fork.adopted };
    const record = await runs.fork(uuid, origin, opts.limits);
    undo.push(() => runs.remove(uuid));
    return record;
  }

  /** Fails as `build` does for rules and limits that can't hold. Creates nothing. */
  check(agent: AgentInfo, opts: SpawnOpts): void {
    permissionsOf(agent, opts, this.#namespace(opts), undefined, opts.mounts?.map(toolPrefix));
    requirePrice(limitsOf("agent", agent, opts), opts, this.#parts.days.of(opts));
  }

  /** Synchronous, so that the table does not change meanwhile. `reopened`: the record of a resumed run. */
  #construct(
    request: BuildRequest,
    reopened: RunWriter | undefined,
    root: string | undefined,
    undo: (() => unknown)[],
  ): Process {
    const { kind, intent, agent, opts, saved } = request;
    const { table } = this.#parts;
    // Users fork runs: the new process has no parent.
    const ofItself = saved?.fork ? undefined : saved;
    // An adopted run gives only its conversation; the settings are the present ones.
    const terms = saved?.fork?.adopted ? undefined : saved;
    const parent = ofItself && !opts.parentPid ? this.#liveParentOf(ofItself) : this.#parentOf(opts);
    if (parent) requireWithinParent(opts, parent);
    const namespace = this.#namespace(opts);
    // The tools of its mounts do not exist yet.
    const permissions = terms
      ? savedPermissions(terms, namespace, opts, parent)
      : permissionsOf(agent, opts, namespace, parent, opts.mounts?.map(toolPrefix));
    const limits = terms ? savedLimits(terms, opts) : limitsOf(kind, agent, opts);
    const day = this.#parts.days.of(opts);
    const above = parent?.spec.budget ?? day;
    requirePrice(limits, opts, above);
    const budget = above.child(limits, parent?.elapsedMs ?? 0, saved?.used);
    undo.push(() => budget.close());
    const runs = this.#runs(opts);
    const record = reopened ?? runs.create(opts.uuid ?? this.#parts.uuid(), opts.limits);
    const { uuid } = record;
    if (!reopened) undo.push(() => runs.remove(uuid));
    const settled = { ...opts, ...settledOptions(agent, opts, parent) };
    const secrets = new Secrets({
      // The shell of the process may print keys of the parent's environment.
      keys: [...(opts.secrets ?? []), ...(parent?.secrets.keys ?? [])],
      labels: secretLabels(settled.boundSecrets),
      shared: this.#parts.fetchedKeys,
    });
    const proc = new Process({
      pid: this.#parts.pids.next(),
      uuid,
      ppid: parent?.pid ?? 0,
      tree: parent?.spec.tree ?? root ?? uuid,
      parentUuid: parent?.uuid ?? ofItself?.info.parent_uuid ?? null,
      originUuid: saved?.fork ? saved.info.uuid : (saved?.info.origin_uuid ?? null),
      depth: parent ? parent.spec.depth + 1 : 0,
      intent: secrets.hide(intent),
      kind,
      agent,
      opts: settled.boundSecrets?.length ? { ...settled, env: secretVariables(settled) } : settled,
      namespace,
      permissions,
      secrets,
      record,
      budget,
      checks: terms?.spawned.checks ?? [...new Set([...agent.checks, ...(opts.check ?? [])])],
      kernelId: this.#parts.kernelId,
      wakes: this.#parts.wakes,
      version: this.#parts.version,
      clock: this.#parts.clock,
      progress: saved?.progress,
    });
    if (!parent) proc.notices.push(...withheldSecrets(settled));
    this.#parts.beginTainted(proc);
    if (opts.inputOrigin !== undefined) this.#parts.taint(proc, "input", opts.inputOrigin);
    leaveOutUnpriced(proc, above);
    table.add(proc);
    parent?.family.children.push(proc.pid);
    undo.push(async () => {
      table.remove(proc);
      parent?.family.remove(proc.pid);
      await forget(this.#parts, proc);
      proc.abandon();
    });
    if (ofItself) this.#parts.groups().restore(proc, ofItself.info.groups);
    return proc;
  }

  #runs(opts: SpawnOpts): RunStore {
    return this.#parts.runs(opts.project.dataDir);
  }

  /** Shared mounts, then the devices of the plugins, then the kernel's own. */
  #namespace({ devices, project }: SpawnOpts): Namespace {
    return this.#parts.mounts.addShared(project, devices.namespace.over(this.#parts.devices));
  }

  /** Without a live parent, the child is PID 0's. */
  #liveParentOf({ info }: SavedRun): Process | undefined {
    const parent = info.parent_uuid === null ? undefined : this.#parts.table.findByUuid(info.parent_uuid);
    return parent && takesChildren(parent) ? parent : undefined;
  }

  #parentOf(opts: SpawnOpts): Process | undefined {
    if (!opts.parentPid) return undefined;
    const parent = this.#parts.table.find(opts.parentPid);
    if (!parent || !takesChildren(parent)) {
      const message = `The parent process ${opts.parentPid} does not exist or has ended.`;
      throw new SyscallError("NOT_FOUND", message);
    }
    return parent;
  }
}

function takesChildren(parent: Process): boolean {
  return parent.state === "running" && !parent.stopped && !parent.ending;
}
