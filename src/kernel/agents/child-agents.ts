/** Spawns the children of agents and waits for them. */

import { childOf, isTerminal } from "../../daemons/snapshot.ts";
import type { Lazy } from "../../lib/caches.ts";
import { orAborted } from "../../lib/clock.ts";
import { messageOf } from "../../lib/error-detail.ts";
import { SIGINT, SIGTERM } from "../../lib/signals.ts";
import type { DaemonSnapshot } from "../../plugin/index.ts";
import { requireOwn } from "../../store/runs/own-run.ts";
import { recordedUnits } from "../../store/runs/recorded-units.ts";
import { Process } from "../process/process.ts";
import { tracedEnv } from "../process/traced-env.ts";
import { killed } from "../process/verdict.ts";
import type { ProcessManager } from "../process-manager.ts";
import { hasEnded, resultOf, type SavedRun } from "../resume/saved-run.ts";
import type { Processes } from "../tiers/processes.ts";
import { callKey } from "../tools/open-calls.ts";
import type { AgentInfo, ChildRequest, PID, ProcInfo, SpawnOpts } from "../types.ts";
import type { RunResumer } from "./run-resumer.ts";

type ChildAgentParts = Processes & { processes: ProcessManager; resumer: Lazy<RunResumer> };

/** Child agents: spawns them, waits for them, and resumes them with their parent. */
export class ChildAgents {
  readonly #parts: ChildAgentParts;
  readonly #waiting = new Map<PID, Process>();
  /** The last call of each parent that has begun to start its child: the next one waits for it. */
  readonly #starts = new WeakMap<Process, Promise<unknown>>();
  /** Called at the end of each child that is waited for. */
  readonly #onEnd = new Set<() => void>();

  constructor(parts: ChildAgentParts) {
    this.#parts = parts;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Spawns a child and waits until it is reaped, however it ends. The journal has the child's UUID before it begins, so
   * a repeated call resumes that child, or takes its result, and spawns no second one. A suspended child suspends its
   * parent. Parallel calls of one parent start their children in order, and wait while `live_children` is reached. Fails
   * with EXHAUSTED when the parent's budget allows no child, and with the signal's reason on abort.
   */
  async run(parent: Process, wish: ChildRequest, callId: string, signal: AbortSignal): Promise<ProcInfo> {
    const { suspend, waiting } = this.#parts;
    const on = waiting.of(parent, callId);
    const again = (uuid: string) => () => this.#resumeOrAdopt(parent, wish, uuid, callId, signal);
    const child =
      on?.on === "child"
        ? await this.#inOrder(parent, signal, again(on.uuid))
        : await this.#spawnFor(parent, wish, callId, signal);
    if (!(child instanceof Process)) return child;
    const info = await this.#awaitEnd(parent, child, signal);
    if (info.suspended && !parent.stopped) {
      const { uuid, agent, suspended } = info;
      const reason = `its child ${uuid} (${agent}) was suspended: ${suspended.reason}`;
      suspend(parent, reason, { on: "child", uuid });
      signal.throwIfAborted();
    }
    return info;
  }

  /**
   * Spawns a child in the background, as a unit of its parent. Its end is a signal to the parent. Fails with EXHAUSTED
   * when the parent's budget allows no child now.
   */
  async start(
    parent: Process,
    wish: ChildRequest,
    signal: AbortSignal,
  ): Promise<{ unit: DaemonSnapshot; pid: PID }> {
    parent.spec.budget.requireRoom(parent.elapsedMs);
    const child = await this.#spawn(parent, wish, {}, signal);
    try {
      return { unit: await this.#parts.units.startAgent(parent, child), pid: child.pid };
    } catch (thrown) {
      child.stop(killed(SIGTERM, false));
      throw thrown;
    }
  }

  /**
   * Resumes the children that were suspended with this process, except children that the user suspended, and children
   * that a repeated call of this process resumes itself.
   */
  async resumeChildren(parent: Process, saved: SavedRun): Promise<void> {
    const { info, history } = saved;
    const { openStep } = history;
    const waited = new Set<string>();
    for (const [callId, on] of openStep?.waiting ?? []) {
      if (on.on !== "child") continue;
      waited.add(on.uuid);
      if (openStep?.settled.has(callId)) await this.#countEnded(parent, on.uuid);
    }
    const suspended = info.children.filter(({ exit_reason }) => exit_reason === "suspended");
    const all = new Set([...suspended.map(({ uuid }) => uuid), ...liveChildren(saved)]);
    for (const uuid of all) {
      if (waited.has(uuid) || this.#parts.table.findByUuid(uuid)) continue;
      try {
        const child = await this.#parts.runs(parent.spec.opts.project.dataDir).info(uuid);
        if (!child) continue;
        requireOwn(child);
        if (hasEnded(child)) takeResult(parent, child);
        else if (child.suspended?.cause !== "asked") await this.#resumeChild(parent, uuid);
      } catch (thrown) {
        // Parent and child are being suspended again.
        if (parent.stopped) return;
        const why = messageOf(thrown);
        await this.#parts.notifyAsKernel(
          parent,
          `Your child ${uuid}, which was suspended with you, could not be resumed: ${why}`,
        );
      }
    }
  }

  /** Charges the parent for the child of a call that ended in the open step: a crash loses what no step has recorded. */
  async #countEnded(parent: Process, uuid: string): Promise<void> {
    try {
      const child = await this.#parts.runs(parent.spec.opts.project.dataDir).info(uuid);
      if (child && !child.foreign && hasEnded(child)) takeResult(parent, child);
    } catch (thrown) {
      const why = messageOf(thrown);
      const text = `The record of your child ${uuid} can't be read, so what it used is not counted: ${why}`;
      await this.#parts.notifyAsKernel(parent, text);
    }
  }

  /** The child of a new call. From here on a call that is cut off can be repeated. */
  async #spawnFor(
    parent: Process,
    wish: ChildRequest,
    callId: string,
    signal: AbortSignal,
  ): Promise<Process> {
    const { waiting, drain } = this.#parts;
    // Before anything is recorded or loaded: a model may repeat a refused request many times.
    if (!this.#waitsForSlot(parent)) parent.spec.budget.requireRoom(parent.elapsedMs);
    const uuid = this.#parts.uuid();
    try {
      // Recorded at once, also when the call has to wait for others: then it is certain that it did nothing.
      const recorded = waiting.begin(parent, callId, { on: "child", uuid });
      const start = this.#inOrder(parent, signal, async () => {
        await recorded;
        return this.#spawn(parent, wish, { uuid, parentCall: callId }, signal);
      });
      const [child] = await Promise.all([start, recorded]);
      return child;
    } catch (thrown) {
      // A draining kernel accepts no process. A suspended parent spawns the child when it is resumed.
      if (drain.isOn) await drain.waitForSuspend(parent);
      if (!parent.stopped) waiting.end(parent, callId);
      throw thrown;
    }
  }

  /** Starts the children of parallel calls one after the other, so that PIDs are in the order of the calls. */
  async #inOrder<T extends Process | ProcInfo>(
    parent: Process,
    signal: AbortSignal,
    start: () => Promise<T>,
  ): Promise<T> {
    const before = this.#starts.get(parent);
    const started = (async () => {
      if (before) await orAborted(before, signal);
      signal.throwIfAborted();
      const child = await start();
      // Before the next call starts its child: that call may have to wait for the end of this one.
      if (child instanceof Process) this.#waiting.set(child.pid, parent);
      return child;
    })();
    const over = started.catch(() => undefined);
    this.#starts.set(parent, over);
    return started;
  }

  /** Whether another call of this parent waits for a child whose end makes room for one more. */
  #waitsForSlot(parent: Process): boolean {
    return parent.spec.budget.isFull && [...this.#waiting.values()].includes(parent);
  }

  /** Waits while `live_children` or `live_processes` is reached by other calls of this parent. */
  async #slot(parent: Process, signal: AbortSignal): Promise<void> {
    while (this.#waitsForSlot(parent)) {
      const ended = Promise.withResolvers<void>();
      this.#onEnd.add(ended.resolve);
      try {
        await orAborted(ended.promise, signal);
      } finally {
        this.#onEnd.delete(ended.resolve);
      }
    }
    // The others may have stopped waiting because the parent was stopped.
    signal.throwIfAborted();
  }

  async #spawn(
    parent: Process,
    wish: ChildRequest,
    as: Pick<SpawnOpts, "uuid" | "parentCall">,
    signal: AbortSignal,
  ): Promise<Process> {
    const { table, processes, planChild, traces, watchers } = this.#parts;
    await this.#slot(parent, signal);
    parent.spec.budget.requireRoom(parent.elapsedMs);
    const child = as.uuid ?? this.#parts.uuid();
    const { agent, opts, notices } = await planChild(parent.uuid, wish, child);
    const { uuid, run } = parent;
    const call = as.parentCall === undefined ? undefined : callKey(uuid, run.step, as.parentCall);
    const env = traces ? tracedEnv(parent, call) : opts.env;
    const own = { ...opts, ...as, uuid: child, env, notices, parentPid: parent.pid };
    const pid = await processes.spawn(wish.intent, agent, own);
    for (const notice of notices) watchers.notice(parent, `Agent: ${notice}`);
    return table.get(pid);
  }

  /** The child of a call that was cut off: resumes it, or returns its record if it has ended. */
  async #resumeOrAdopt(
    parent: Process,
    wish: ChildRequest,
    uuid: string,
    callId: string,
    signal: AbortSignal,
  ): Promise<Process | ProcInfo> {
    const { table, resumer } = this.#parts;
    const runs = this.#parts.runs(parent.spec.opts.project.dataDir);
    const here = table.findByUuid(uuid);
    if (here && !here.exit) {
      // It was resumed before its parent.
      if (here.family.joinParent(parent.pid, callId)) parent.family.children.push(here.pid);
      return here;
    }
    if (here) await resumer().gone(here);
    const info = await runs.info(uuid);
    if (!info) {
      // The journal has the UUID, but the child was never spawned.
      await runs.remove(uuid);
      return this.#spawn(parent, wish, { uuid, parentCall: callId }, signal);
    }
    requireOwn(info);
    if (!hasEnded(info)) {
      await this.#slot(parent, signal);
      return this.#resumeChild(parent, uuid, callId);
    }
    takeResult(parent, info);
    return info;
  }

  async #resumeChild(parent: Process, uuid: string, parentCall?: string): Promise<Process> {
    const { table, planChildResume, watchers } = this.#parts;
    const { agent, opts, notices } = await planChildResume(parent.uuid, uuid);
    const child = table.get(await this.#resume(parent, uuid, agent, { ...opts, notices, parentCall }));
    charge(parent, uuid, child.spec.budget);
    for (const notice of notices) watchers.notice(parent, `Agent: ${notice}`);
    return child;
  }

  async #resume(parent: Process, uuid: string, agent: AgentInfo | null, opts: SpawnOpts): Promise<PID> {
    const { drain, resumer } = this.#parts;
    try {
      return (await resumer().resume(uuid, agent, { ...opts, parentPid: parent.pid })).pid;
    } catch (thrown) {
      // A draining kernel resumes no child: the parent keeps waiting for it.
      if (drain.isOn) await drain.waitForSuspend(parent);
      throw thrown;
    }
  }

  async #awaitEnd(parent: Process, child: Process, signal: AbortSignal): Promise<ProcInfo> {
    try {
      await orAborted(this.#parts.processes.wait(child.pid, parent), signal);
      return child.info();
    } catch (thrown) {
      // An ending parent ends its children itself, in its own order.
      if (parent.work.interrupted) {
        // The call ends when nothing of the child runs any more.
        child.stop({ ...killed(SIGINT, child.paused), withParent: true });
        await child.done;
      } else if (!parent.stopped) child.stop(killed(SIGTERM, child.paused));
      throw thrown;
    } finally {
      this.#waiting.delete(child.pid);
      for (const wake of [...this.#onEnd]) wake();
      // Only a child that was built below its parent charges the parent's budget directly.
      if (child.spec.ppid !== parent.pid) charge(parent, child.uuid, child.spec.budget);
    }
  }
}

/** The children that were background units when the kernel died: no record of the parent's end names them. */
function liveChildren({ units }: SavedRun): string[] {
  return recordedUnits(units).flatMap(({ snapshot, announced }) => {
    const uuid = announced || isTerminal(snapshot.status) ? undefined : childOf(snapshot);
    return uuid === undefined ? [] : [uuid];
  });
}

/** The child ended while its parent was suspended. */
function takeResult(parent: Process, info: ProcInfo): void {
  const { uuid, tokens_used, cost_usd, steps_used } = info;
  charge(parent, uuid, { tokens: tokens_used, cost: cost_usd, steps: steps_used ?? info.steps });
  parent.family.childEnded(resultOf(info));
}

/**
 * Charges the parent for what a child used while the parent was suspended. The parent knows the child's earlier tokens
 * only, so steps and cost are charged in proportion.
 */
function charge(
  parent: Process,
  uuid: string,
  used: { tokens: number; steps: number; cost: number | null },
): void {
  const known = parent.spec.progress?.counted.find((child) => child.uuid === uuid)?.tokens_used ?? 0;
  const tokens = Math.max(0, used.tokens - known);
  if (tokens === 0) return;
  const share = tokens / used.tokens;
  parent.spec.budget.charge({
    tokens,
    cost: used.cost === null ? null : used.cost * share,
    steps: Math.ceil(used.steps * share),
  });
}
