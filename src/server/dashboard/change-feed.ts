/** What changes of the live processes and open questions, for the pages and terminals that watch. */

import type { GateStatus } from "../../kernel/llm/model-gate.ts";
import type { Clock, Timer } from "../../lib/clock.ts";
import type { ListedAsk, ProcChanges, ProviderQueue, ShownProc } from "../../protocol/methods.ts";
import { ownCaller } from "../connection/connection.ts";
import { listProcs } from "../methods/list-procs.ts";
import { listedProc } from "../methods/shared/listed-proc.ts";
import { openAsks } from "../methods/shared/open-asks.ts";
import type { ProcFeed, ProcWatcher, Services } from "../services.ts";

/** How often changes are looked for that processes have logged, while there are watchers. */
const TICK_MS = 50;
/** The longest time between two looks at everything: for what no process logs, such as a pause. */
const LOOK_MS = 2000;
/** How often the records are read for questions of suspended runs, where no process and no question has come or gone. */
const ASKS_MS = 4000;
/** How often the records are asked for runs of other kernels, and whether these live. */
const RECORDS_MS = 400;
const INTENT = 200;

/** Live runs of other kernels that are shown. */
const MAX_OTHERS = 200;

type Row = Awaited<ReturnType<typeof listProcs.handle>>["processes"][number];

const EVERYTHING = { all_projects: true, waiting: true };
const NO_CALLER = ownCaller(new AbortController().signal);

interface KnownRow {
  shown: ShownProc;
  elapsed_ms: number;
  /** JSON of what is shown. */
  still: string;
}

/** One timer for all watchers. Each gets the whole state, then the rows that have changed and the UUIDs of the rows that are gone. */
export class ChangeFeed implements ProcFeed {
  readonly #services: Services;
  readonly #clock: Clock;
  readonly #watchers = new Set<ProcWatcher>();
  #rows = new Map<string, KnownRow>();
  #queues: ProviderQueue[] = [];
  /** JSON of the questions and the queues that were sent last. */
  #sent = { asks: "[]", queues: "[]" };
  /** By the records: live runs of other kernels, and all open questions. */
  #others: readonly Row[] = [];
  #asks: ListedAsk[] = [];
  /** The logs of live processes: each entry may be a change. */
  readonly #followed = new Map<number, { end(): void }>();
  #number = 0;
  #timer: Timer | undefined;
  /** The first watcher since nothing was sent: it needs the whole state. */
  #isFresh = true;
  readonly #dirty = new Set<number>();
  /** Everything may have changed. */
  #mustLook = true;
  /** What tells cheaply that processes or questions have come or gone. */
  #counts = "";
  #nextLookAt = 0;
  #nextReadAt = 0;
  #nextAsksAt = 0;
  #looks = false;
  #closed = false;

  constructor(services: Services, clock: Clock) {
    this.#services = services;
    this.#clock = clock;
  }

  wake(): void {
    this.#mustLook = true;
    this.#nextAsksAt = 0;
  }

  watch(watcher: ProcWatcher): { whole(): ProcChanges; end(): void } {
    if (this.#watchers.size === 0) this.#isFresh = true;
    if (!this.#isFresh) watcher.send(this.#whole());
    this.#watchers.add(watcher);
    // One look at a time: its end sets the next timer.
    if (!this.#looks) this.#timer ??= this.#clock.timer(0, () => void this.#tick());
    return { whole: () => this.#whole(), end: () => void this.#watchers.delete(watcher) };
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    for (const watcher of this.#watchers) watcher.close();
    this.#watchers.clear();
    this.#forget();
  }

  /** The next watcher gets everything. */
  #forget(): void {
    this.#rows.clear();
    this.#sent = { asks: "[]", queues: "[]" };
    this.#nextAsksAt = 0;
    for (const channel of this.#followed.values()) channel.end();
    this.#followed.clear();
  }

  async #tick(): Promise<void> {
    this.#timer = undefined;
    if (this.#closed) return;
    if (this.#watchers.size === 0) return this.#forget();
    this.#looks = true;
    try {
      await this.#lookIfDue();
    } catch (thrown) {
      this.#services.logger.warn("dashboard", String(thrown));
    }
    this.#looks = false;
    if (!this.#closed) this.#timer = this.#clock.timer(TICK_MS, () => void this.#tick());
  }

  async #lookIfDue(): Promise<void> {
    const now = this.#clock.monotonic();
    const { kernel } = this.#services;
    const counts = `${kernel.processes.count} ${kernel.asks.list().length}`;
    this.#mustLook ||= this.#isFresh || counts !== this.#counts || now >= this.#nextLookAt;
    if (now >= this.#nextReadAt) {
      this.#nextReadAt = now + RECORDS_MS;
      const others = await this.#otherKernels();
      this.#mustLook ||= !Bun.deepEquals(others, this.#others);
      this.#others = others;
    }
    if (!this.#mustLook && this.#dirty.size === 0) return;
    const dirty = new Set(this.#dirty);
    this.#dirty.clear();
    if (!this.#mustLook) {
      const rows = kernel.processes.infos().filter(({ pid }) => dirty.has(pid));
      return this.#send(
        rows.map((info) => listedProc(this.#services, info)),
        new Map(this.#rows),
      );
    }
    this.#mustLook = false;
    const { processes } = await listProcs.handle(EVERYTHING, this.#services, NO_CALLER);
    if (counts !== this.#counts || now >= this.#nextAsksAt) {
      this.#asks = await openAsks(this.#services);
      this.#nextAsksAt = now + ASKS_MS;
    }
    this.#counts = counts;
    this.#nextLookAt = now + LOOK_MS;
    // Reads the live processes again, because one of the list may have ended since.
    for (const { pid, ended_at_ms } of kernel.processes.infos()) if (ended_at_ms === null) this.#follow(pid);
    this.#send([...this.#others, ...processes], new Map());
  }

  /** `rows`: what the watchers have beside these. */
  #send(processes: readonly Row[], rows: Map<string, KnownRow>): void {
    const changed: KnownRow[] = [];
    for (const row of processes) {
      const shown = shownOf(row);
      const known = { shown, elapsed_ms: row.elapsed_ms, still: JSON.stringify(shown) };
      rows.set(row.uuid, known);
      if (this.#rows.get(row.uuid)?.still !== known.still) changed.push(known);
    }
    const gone = [...this.#rows.keys()].filter((uuid) => !rows.has(uuid));
    const before = this.#sent;
    this.#queues = this.#services.kernel.modelQueues().map(queue);
    this.#sent = { asks: JSON.stringify(this.#asks), queues: JSON.stringify(this.#queues) };
    this.#rows = rows;
    const asks = this.#sent.asks === before.asks ? null : this.#asks;
    const queues = this.#sent.queues === before.queues ? null : this.#queues;
    if (changed.length + gone.length === 0 && asks === null && queues === null && !this.#isFresh) return;
    this.#number++;
    const change = this.#isFresh ? this.#whole() : this.#change(changed, { gone, asks, queues });
    this.#isFresh = false;
    for (const watcher of this.#watchers) watcher.send(change);
  }

  /** Each entry of the process's log may be a change. Its reader keeps no run from being parked. */
  #follow(pid: number): void {
    if (this.#followed.has(pid)) return;
    const channel = this.#services.kernel.attach(pid, { watched: "log" });
    this.#followed.set(pid, channel);
    const wait = async (): Promise<void> => {
      for await (const _entry of channel) this.#dirty.add(pid);
      if (this.#followed.get(pid) === channel) this.#followed.delete(pid);
      this.wake();
    };
    void wait();
  }

  async #otherKernels(): Promise<readonly Row[]> {
    const { kernel, history, otherKernels } = this.#services;
    if (!otherKernels?.()) return [];
    const live = () => kernel.processes.infos();
    const { runs } = await (await history()).list({
      status: "running",
      live,
      newest: true,
      limit: MAX_OTHERS,
    });
    const own = new Set(live().map(({ uuid }) => uuid));
    return runs
      .filter(({ uuid, foreign }) => !own.has(uuid) && !foreign)
      .map((info) => ({ ...info, status: "running", doing: null }));
  }

  #change(rows: Iterable<KnownRow>, parts: Omit<ProcChanges, "number" | "rows">): ProcChanges {
    const now = this.#clock.now();
    const timed = ({ shown, elapsed_ms }: KnownRow) => ({
      ...shown,
      elapsed_ms,
      elapsed_at_ms: now - elapsed_ms,
    });
    return { number: this.#number, rows: Array.from(rows, timed), ...parts };
  }

  #whole(): ProcChanges {
    return this.#change(this.#rows.values(), { gone: null, asks: this.#asks, queues: this.#queues });
  }
}

function queue({ provider, running, waiting, at_once, holds }: GateStatus): ProviderQueue {
  return {
    provider,
    running,
    waiting,
    at_once,
    holds: holds.map(({ model, until_ms }) => ({ model, until_ms })),
  };
}

function shownOf(row: Row): ShownProc {
  const { pid, uuid, parent_uuid, agent, model, project, intent, status, state, doing, steps } = row;
  const { max_steps, tokens_used, cost_usd, created_at_ms, ended_at_ms, is_paused, paused_at_ms } = row;
  const { exit_code, exit_reason, suspended, error, workflow, chat, job, units } = row;
  return {
    pid,
    uuid,
    parent_uuid,
    agent,
    model,
    project,
    status,
    state,
    doing,
    steps,
    max_steps,
    tokens_used,
    cost_usd,
    created_at_ms,
    ended_at_ms,
    is_paused,
    paused_at_ms,
    exit_code,
    exit_reason,
    suspended,
    error,
    workflow,
    chat,
    job,
    units,
    intent: intent.slice(0, INTENT),
  };
}
