/** What changes of the live processes and open questions, for the pages that watch. */

import type { GateStatus } from "../../kernel/llm/model-gate.ts";
import type { Clock, Timer } from "../../lib/clock.ts";
import type { Caller } from "../connection/caller.ts";
import { listProcs } from "../methods/list-procs.ts";
import { listedProc } from "../methods/shared/listed-proc.ts";
import { type ListedAsk, openAsks } from "../methods/shared/open-asks.ts";
import type { Services } from "../services.ts";

/** How often changes are looked for that processes have logged, while a page watches. */
const TICK_MS = 50;
/** The longest time between two looks at everything: for what no process logs, such as a pause. */
const LOOK_MS = 2000;
/** How often the records are read for questions of suspended runs, where no process and no question has come or gone. */
const ASKS_MS = 4000;
/** How often the records are asked for runs of other kernels, and whether these live. */
const RECORDS_MS = 400;
/** A page that has not read this many bytes misses changes until it asks again. */
const MAX_UNREAD = 4 * 1024 ** 2;
const INTENT = 200;

/** Live runs of other kernels that a page shows. */
const MAX_OTHERS = 200;

type Row = Awaited<ReturnType<typeof listProcs.handle>>["processes"][number];

/** JSON of what a page shows beside the rows; in a change, "null" for a part that is as before. */
interface Parts {
  asks: string;
  queues: string;
}

const EVERYTHING = { all_projects: true, waiting: true };
const NO_CALLER: Caller = { unit: () => undefined, service: () => null, gone: new AbortController().signal };

const NO_PARTS: Parts = { asks: "[]", queues: "[]" };

interface Watcher {
  send(text: string): void;
  close(): void;
}

interface KnownRow {
  row: Row;
  /** Without what a page counts by itself. */
  still: string;
}

/** One timer for all pages. Each gets the whole state, then the rows that have changed and the UUIDs of the rows that are gone. */
export class ChangeFeed {
  readonly #services: Services;
  readonly #clock: Clock;
  readonly #watchers = new Set<Watcher>();
  /** What was sent last. */
  #rows = new Map<string, KnownRow>();
  #parts: Parts = NO_PARTS;
  /** By the records: live runs of other kernels, and all open questions. */
  #others: readonly Row[] = [];
  #asks: readonly ListedAsk[] = [];
  /** The logs of live processes: each entry may be a change. */
  readonly #followed = new Map<number, { end(): void }>();
  #number = 0;
  #timer: Timer | undefined;
  /** The first page since nothing was sent: it needs the whole state. */
  #isFresh = true;
  /** Live processes that may have changed. */
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

  /** The page has done something: its effect is shown soon. */
  wake(): void {
    this.#mustLook = true;
    this.#nextAsksAt = 0;
  }

  open(gone: AbortSignal): ReadableStream<Uint8Array> {
    const encoder = new TextEncoder();
    let watcher: Watcher | undefined;
    const leave = (): void => {
      if (watcher) this.#watchers.delete(watcher);
      watcher?.close();
    };
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          watcher = {
            send(text) {
              if ((controller.desiredSize ?? 0) > 0) controller.enqueue(encoder.encode(text));
              else leave();
            },
            close: () => {
              try {
                controller.close();
              } catch {
                // It was closed by its reader.
              }
            },
          };
          gone.addEventListener("abort", leave, { once: true });
          watcher.send("retry: 1000\n\n");
          if (this.#watchers.size === 0) this.#isFresh = true;
          if (!this.#isFresh) watcher.send(this.#whole());
          this.#watchers.add(watcher);
          // One look at a time: its end sets the next timer.
          if (!this.#looks) this.#timer ??= this.#clock.timer(0, () => void this.#tick());
        },
        cancel: leave,
      },
      { highWaterMark: MAX_UNREAD, size: (chunk) => chunk?.byteLength ?? 0 },
    );
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    for (const watcher of this.#watchers) watcher.close();
    this.#watchers.clear();
    this.#forget();
  }

  /** The next page gets everything. */
  #forget(): void {
    this.#rows.clear();
    this.#parts = NO_PARTS;
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
    const dirty = [...this.#dirty];
    this.#dirty.clear();
    if (!this.#mustLook) {
      const rows = kernel.processes.infos().filter(({ pid }) => dirty.includes(pid));
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
    for (const { pid, ended_at_ms } of processes) if (ended_at_ms === null) this.#follow(pid);
    this.#send([...this.#others, ...processes], new Map());
  }

  /** `rows`: what the page has beside these. */
  #send(processes: readonly Row[], rows: Map<string, KnownRow>): void {
    const { kernel } = this.#services;
    const changed: KnownRow[] = [];
    for (const row of processes) {
      const known = { row, still: stillOf(row) };
      rows.set(row.uuid, known);
      if (this.#rows.get(row.uuid)?.still !== known.still) changed.push(known);
    }
    const gone = [...this.#rows.keys()].filter((uuid) => !rows.has(uuid));
    const before = this.#parts;
    this.#parts = {
      asks: JSON.stringify(this.#asks),
      queues: JSON.stringify(kernel.modelQueues().map(queue)),
    };
    this.#rows = rows;
    const news = {
      asks: this.#parts.asks === before.asks ? "null" : this.#parts.asks,
      queues: this.#parts.queues === before.queues ? "null" : this.#parts.queues,
    };
    const isNews = changed.length + gone.length > 0 || news.asks !== "null" || news.queues !== "null";
    if (!isNews && !this.#isFresh) return;
    this.#number++;
    const text = this.#isFresh ? this.#whole() : event(this.#number, this.#texts(changed), gone, news);
    this.#isFresh = false;
    for (const watcher of this.#watchers) watcher.send(text);
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
    const { runs } = await history.list({ status: "running", live, newest: true, limit: MAX_OTHERS });
    const own = new Set(live().map(({ uuid }) => uuid));
    return runs
      .filter(({ uuid, foreign }) => !own.has(uuid) && !foreign)
      .map((info) => ({ ...info, status: "running", doing: null }));
  }

  #texts(rows: Iterable<KnownRow>): string[] {
    return [...rows].map(({ row: { elapsed_ms }, still }) => {
      const counted = { elapsed_ms, elapsed_at_ms: this.#clock.now() - elapsed_ms };
      return `${still.slice(0, -1)},${JSON.stringify(counted).slice(1)}`;
    });
  }

  #whole(): string {
    return event(this.#number, this.#texts(this.#rows.values()), null, this.#parts);
  }
}

/** `gone`: null with the whole state. */
function event(
  number: number,
  rows: readonly string[],
  gone: readonly string[] | null,
  parts: Parts,
): string {
  const { asks, queues } = parts;
  const data = `{"number":${number},"rows":[${rows.join(",")}],"gone":${JSON.stringify(gone)},"asks":${asks},"queues":${queues}}`;
  return `id: ${number}\ndata: ${data}\n\n`;
}

function queue({ provider, running, waiting, at_once, holds }: GateStatus): object {
  return {
    provider,
    running,
    waiting,
    at_once,
    holds: holds.map(({ model, until_ms }) => ({ model, until_ms })),
  };
}

/** What a page shows of a run, without what it counts by itself. */
const SHOWN = [
  ...([
    "pid",
    "uuid",
    "parent_uuid",
    "agent",
    "model",
    "project",
    "status",
    "state",
    "doing",
    "steps",
  ] as const),
  ...(["max_steps", "tokens_used", "cost_usd", "created_at_ms", "ended_at_ms", "is_paused"] as const),
  ...(["paused_at_ms", "exit_code", "exit_reason", "suspended", "error", "workflow", "chat", "job"] as const),
  "units",
] as const;

function stillOf(row: Row): string {
  const shown = Object.fromEntries(SHOWN.map((key) => [key, row[key]]));
  return JSON.stringify({ ...shown, intent: row.intent.slice(0, INTENT) });
}
