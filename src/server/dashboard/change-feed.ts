/** What changes of the live processes and open questions, for the pages that watch. */

import type { GateStatus } from "../../kernel/llm/model-gate.ts";
import type { Clock, Timer } from "../../lib/clock.ts";
import { listProcs } from "../methods/list-procs.ts";
import { openAsks } from "../methods/shared/open-asks.ts";
import type { Services } from "../services.ts";

/** Nothing is looked at while no page watches. */
const EVERY_MS = 250;
/** How often runs of other kernels are looked for: their records say whether they live. */
const OTHERS_MS = 500;
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

const NO_PARTS: Parts = { asks: "[]", queues: "[]" };

interface Watcher {
  send(text: string): void;
  close(): void;
}

/** One timer for all pages. Each gets the whole state, then the rows that have changed and the UUIDs of the rows that are gone. */
export class ChangeFeed {
  readonly #services: Services;
  readonly #clock: Clock;
  readonly #watchers = new Set<Watcher>();
  /** What was sent last: the rows by UUID, and the other parts as JSON. */
  #rows = new Map<string, string>();
  #parts: Parts = NO_PARTS;
  /** Live runs of other kernels, and when they were read. */
  #others: readonly Row[] = [];
  #othersAt = 0;
  #number = 0;
  #timer: Timer | undefined;
  /** The first page since nothing was sent: it needs the whole state. */
  #isFresh = true;
  #looks = false;
  #closed = false;

  constructor(services: Services, clock: Clock) {
    this.#services = services;
    this.#clock = clock;
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
          if (!this.#looks) this.#timer ??= this.#clock.timer(0, () => void this.#look());
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
  }

  async #look(): Promise<void> {
    this.#timer = undefined;
    if (this.#closed) return;
    if (this.#watchers.size === 0) {
      // The next page gets everything.
      this.#rows.clear();
      this.#parts = NO_PARTS;
      return;
    }
    this.#looks = true;
    try {
      await this.#send();
    } catch (thrown) {
      this.#services.logger.warn("dashboard", String(thrown));
    }
    this.#looks = false;
    if (!this.#closed) this.#timer = this.#clock.timer(EVERY_MS, () => void this.#look());
  }

  async #send(): Promise<void> {
    const caller = { unit: () => undefined, service: () => null, gone: new AbortController().signal };
    const services = this.#services;
    const [{ processes }, asks, others] = await Promise.all([
      listProcs.handle({ all_projects: true, waiting: true }, services, caller),
      openAsks(services),
      this.#otherKernels(),
    ]);
    const rows = new Map(
      [...others, ...processes].map((info) => [
        info.uuid,
        JSON.stringify({
          ...pick(info),
          intent: info.intent.slice(0, INTENT),
          elapsed_at_ms: this.#clock.now() - info.elapsed_ms,
        }),
      ]),
    );
    const changed = [...rows]
      .filter(([uuid, row]) => !isSameRow(this.#rows.get(uuid), row))
      .map(([, row]) => row);
    const gone = [...this.#rows.keys()].filter((uuid) => !rows.has(uuid));
    const before = this.#parts;
    this.#parts = {
      asks: JSON.stringify(asks),
      queues: JSON.stringify(services.kernel.modelQueues().map(queue)),
    };
    this.#rows = rows;
    const news = {
      asks: this.#parts.asks === before.asks ? "null" : this.#parts.asks,
      queues: this.#parts.queues === before.queues ? "null" : this.#parts.queues,
    };
    const isNews = changed.length + gone.length > 0 || news.asks !== "null" || news.queues !== "null";
    if (!isNews && !this.#isFresh) return;
    this.#number++;
    const text = this.#isFresh ? this.#whole() : event(this.#number, changed, gone, news);
    this.#isFresh = false;
    for (const watcher of this.#watchers) watcher.send(text);
  }

  async #otherKernels(): Promise<readonly Row[]> {
    if (this.#clock.now() - this.#othersAt < OTHERS_MS) return this.#others;
    this.#othersAt = this.#clock.now();
    const { kernel, history } = this.#services;
    const live = () => kernel.processes.listProcs();
    const { runs } = await history.list({ status: "running", live, newest: true, limit: MAX_OTHERS });
    const own = new Set(live().map(({ uuid }) => uuid));
    this.#others = runs
      .filter(({ uuid, foreign }) => !own.has(uuid) && !foreign)
      .map((info) => ({ ...info, status: "running", doing: null }));
    return this.#others;
  }

  #whole(): string {
    return event(this.#number, [...this.#rows.values()], null, this.#parts);
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

/** The clock alone changes nothing: a page counts by itself. */
function isSameRow(before: string | undefined, now: string): boolean {
  const still = (row: string): string =>
    row.replace(/"elapsed_ms":\d+,/, "").replace(/"elapsed_at_ms":\d+/, "");
  return before !== undefined && still(before) === still(now);
}

function pick(info: Row) {
  const {
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
  } = info;
  const {
    cost_usd,
    elapsed_ms,
    created_at_ms,
    ended_at_ms,
    is_paused,
    paused_at_ms,
    exit_code,
    exit_reason,
  } = info;
  const { suspended, error, workflow, chat, job, units } = info;
  return {
    ...{ pid, uuid, parent_uuid, agent, model, project, status, state, doing, steps, max_steps, tokens_used },
    ...{ cost_usd, elapsed_ms, created_at_ms, ended_at_ms, is_paused, paused_at_ms, exit_code, exit_reason },
    ...{ suspended, error, workflow, chat, job, units },
  };
}
