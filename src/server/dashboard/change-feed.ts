/** What changes of the live processes and open questions, for the pages that watch. */

import type { Clock, Timer } from "../../lib/clock.ts";
import { listProcs } from "../methods/list-procs.ts";
import { openAsks } from "../methods/shared/open-asks.ts";
import type { Services } from "../services.ts";

/** Nothing is looked at while no page watches. */
const EVERY_MS = 250;
/** A page that has not read this many bytes misses changes until it asks again. */
const MAX_UNREAD = 4 * 1024 ** 2;
const INTENT = 200;

interface Watcher {
  send(text: string): void;
  close(): void;
}

/** One timer for all pages. Each gets the whole state, then the rows that have changed and the UUIDs of the rows that are gone. */
export class ChangeFeed {
  readonly #services: Services;
  readonly #clock: Clock;
  readonly #watchers = new Set<Watcher>();
  /** The rows that were sent last, by UUID, and the questions. */
  #rows = new Map<string, string>();
  #asks = "";
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
      this.#asks = "";
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
    const [{ processes }, asks] = await Promise.all([
      listProcs.handle({ all_projects: true, waiting: true }, this.#services, caller),
      openAsks(this.#services),
    ]);
    const rows = new Map(
      processes.map((info) => [
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
    const asked = JSON.stringify(asks);
    const asksChanged = asked !== this.#asks;
    this.#rows = rows;
    this.#asks = asked;
    if (changed.length === 0 && gone.length === 0 && !asksChanged && !this.#isFresh) return;
    this.#number++;
    const text = this.#isFresh
      ? this.#whole()
      : event(this.#number, changed, gone, asksChanged ? asked : undefined);
    this.#isFresh = false;
    for (const watcher of this.#watchers) watcher.send(text);
  }

  #whole(): string {
    return event(this.#number, [...this.#rows.values()], null, this.#asks || "[]");
  }
}

/** `gone`: null with the whole state. */
function event(
  number: number,
  rows: readonly string[],
  gone: readonly string[] | null,
  asks: string | undefined,
): string {
  const data = `{"number":${number},"rows":[${rows.join(",")}],"gone":${JSON.stringify(gone)},"asks":${asks ?? "null"}}`;
  return `id: ${number}\ndata: ${data}\n\n`;
}

/** The clock alone changes nothing: a page counts by itself. */
function isSameRow(before: string | undefined, now: string): boolean {
  const still = (row: string): string =>
    row.replace(/"elapsed_ms":\d+,/, "").replace(/"elapsed_at_ms":\d+/, "");
  return before !== undefined && still(before) === still(now);
}

type Listed = Awaited<ReturnType<typeof listProcs.handle>>["processes"][number];

function pick(info: Listed) {
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
