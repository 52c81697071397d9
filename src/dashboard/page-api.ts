/** What the page asks of the daemon, and the state that its stream of changes keeps. */

import { signal } from "@preact/signals";
import type { ListedAsk, ProcChanges, ProviderQueue, ShownProc, WatchedProc } from "../protocol/methods.ts";
import type { PageAnswer, PageMethod, PagePayload } from "../server/dashboard/page-methods.ts";

export type Run = ShownProc & Pick<WatchedProc, "elapsed_ms"> & Partial<WatchedProc>;
/** A run with all that its record has of it. */
export type RunDetail = PageAnswer<"show">;
/** A run as History lists it. */
export type PastRun = PageAnswer<"history">["runs"][number];
/** A run that another has started. */
export type Child = PageAnswer<"children">["children"][number];
export type Step = PageAnswer<"list_steps">["steps"][number];
export type Unit = RunDetail["all_units"][number];

export const live = signal<ReadonlyMap<string, Run>>(new Map());
export const asks = signal<readonly ListedAsk[]>([]);
/** When a question last took the place of another, as `performance.now()` has it. */
export const asksMovedAt = signal(Number.NEGATIVE_INFINITY);
export const queues = signal<readonly ProviderQueue[]>([]);
/** Grows with each run that is live no longer. */
export const left = signal(0);
/** null while the daemon answers; else since when it does not. */
export const lostSince = signal<number | null>(null);
/** Moves once a second, for what counts time. */
export const now = signal(Date.now());

/** Follows the changes. The browser reconnects by itself, and gets the whole state again. */
export function follow(): void {
  const stream = new EventSource("/api/changes");
  stream.onopen = () => {
    lostSince.value = null;
  };
  stream.onerror = () => {
    lostSince.value ??= Date.now();
  };
  let last: ReadonlyMap<string, Run> = new Map();
  let due = false;
  stream.onmessage = ({ data }: MessageEvent<string>) => {
    const change: ProcChanges = JSON.parse(data);
    const rows = new Map(change.gone === null ? [] : last);
    for (const uuid of change.gone ?? []) rows.delete(uuid);
    for (const row of change.rows) rows.set(row.uuid, row);
    last = rows;
    if (change.asks !== null) {
      const left = change.asks.map(({ request_id }) => request_id);
      // Below a question that is gone, the others move up.
      if (asks.value.some(({ request_id }, at) => left[at] !== request_id))
        asksMovedAt.value = performance.now();
      asks.value = change.asks;
    }
    if (change.queues !== null) queues.value = change.queues;
    if (change.gone === null || change.gone.length > 0) left.value++;
    if (due) return;
    due = true;
    requestAnimationFrame(() => {
      due = false;
      live.value = last;
    });
  };
  setInterval(() => {
    now.value = Date.now();
  }, 1000);
}

/** Fails with the daemon's message. */
export async function read<M extends PageMethod>(method: M, payload: PagePayload<M>): Promise<PageAnswer<M>> {
  return answered(await fetch(`/api/${method}?payload=${encodeURIComponent(JSON.stringify(payload))}`));
}

export async function act<M extends PageMethod>(method: M, payload: PagePayload<M>): Promise<PageAnswer<M>> {
  const headers = { "content-type": "application/json" };
  return answered(await fetch(`/api/${method}`, { method: "POST", headers, body: JSON.stringify(payload) }));
}

async function answered<T>(response: Response): Promise<T> {
  if (response.ok) return response.json();
  const text = await response.text();
  let message = text;
  try {
    message = JSON.parse(text).error.message;
  } catch {
    // The text itself says why.
  }
  throw new Error(message);
}
