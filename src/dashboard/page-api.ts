/** What the page asks of the daemon, and the state that its stream of changes keeps. */

import { signal } from "@preact/signals";

export interface Activity {
  text: string;
  since_ms: number;
  until_ms: number | null;
}

/** A run as the stream and the lists have it. */
export interface Run {
  pid: number;
  uuid: string;
  parent_uuid: string | null;
  agent: string;
  model: string;
  project: string;
  intent: string;
  status: string;
  doing: Activity | null;
  steps: number;
  max_steps: number | null;
  tokens_used: number;
  cost_usd: number | null;
  elapsed_ms: number;
  /** When it would have begun without its pauses; of the stream. */
  elapsed_at_ms?: number;
  created_at_ms: number;
  ended_at_ms: number | null;
  is_paused: boolean;
  paused_at_ms: number;
  exit_code: number | null;
  exit_reason: string | null;
  result?: string | null;
  suspended: {
    reason: string;
    cause: string;
    wake: { on: string; at_ms?: number; until_ms?: number };
  } | null;
  error: { code: string; message: string } | null;
  workflow: { name: string; phase?: string; label?: string } | null;
  job: { name: string } | null;
  units?: Unit[];
}

/** A background unit. */
export interface Unit {
  id: string;
  kind: string;
  status: string;
  description: string;
  started_at: string;
  ended_at: string | null;
}

/** A run with all that its record has of it. */
export interface RunDetail extends Run {
  live: boolean;
  provider: string;
  cwd: string;
  sandbox: string;
  origin_uuid: string | null;
  tool_calls: number;
  usage: { cached_tokens: number };
  notices: string[];
  checks: {
    command: string;
    exit_code: number | null;
    elapsed_ms?: number;
    output?: string;
    attempt?: number;
  }[];
  children: { uuid: string; agent: string; exit_reason: string | null; tokens_used: number }[];
  all_units: Unit[];
  mounts: { path: string; type: string; down: string | null }[];
  receipt: { exit_code: number; exit_reason: string; files_changed: string[] } | null;
}

/** A run as History lists it. */
export interface PastRun {
  uuid: string;
  title: string;
  agent: string;
  project: string;
  status: string;
  exit_reason: string | null;
  created_at_ms: number;
  elapsed_ms: number;
  tokens_used: number;
  cost_usd: number | null;
}

/** A run that another has started. */
export interface Child {
  uuid: string;
  agent: string;
  intent: string;
  created_at_ms: number;
  ended_at_ms: number | null;
  exit_code: number | null;
}

/** An event of a run, in short. */
export interface StoryLine {
  n: number | null;
  t: string;
  ts?: string;
  step?: number;
  id?: string;
  title?: string;
  status?: string;
  tokens?: number;
}

interface Question {
  question: string;
  options: { id: string; label: string; about?: string }[];
  multi: boolean;
  text: boolean;
}

/** A question that waits for its person. */
export interface Ask {
  request_id: string;
  kind: "permission" | "question";
  uuid: string;
  pid: number;
  agent: string;
  intent: string;
  asked_at_ms: number;
  until_ms: number | null;
  call: {
    tool: string | null;
    path: string;
    subject: string;
    input: Record<string, unknown>;
    input_chars?: number;
    why?: string[];
    reason?: string;
  } | null;
  questions: Question[];
}

export interface Step {
  /** The number of its last event. */
  n?: number;
  step: number;
  ts: string;
  action: string;
  did: string;
  has_error: boolean;
  duration_ms: number;
  token_count: number;
  /** Tokens of its request. */
  context: number;
  /** Of the run up to here. */
  cost_usd: number | null;
}

interface Change {
  number: number;
  rows: Run[];
  gone: string[] | null;
  asks: Ask[] | null;
  queues: Queue[] | null;
}

/** The calls of one key of a provider. */
export interface Queue {
  provider: string;
  running: number;
  waiting: number;
  at_once: number;
  holds: { model: string; until_ms: number }[];
}

export const live = signal<ReadonlyMap<string, Run>>(new Map());
export const asks = signal<readonly Ask[]>([]);
export const queues = signal<readonly Queue[]>([]);
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
    const change: Change = JSON.parse(data);
    const rows = new Map(change.gone === null ? [] : last);
    for (const uuid of change.gone ?? []) rows.delete(uuid);
    for (const row of change.rows) rows.set(row.uuid, row);
    last = rows;
    if (change.asks !== null) asks.value = change.asks;
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
export async function read<T>(method: string, payload: object): Promise<T> {
  return answered<T>(await fetch(`/api/${method}?payload=${encodeURIComponent(JSON.stringify(payload))}`));
}

export async function act<T>(method: string, payload: object): Promise<T> {
  const headers = { "content-type": "application/json" };
  return answered<T>(
    await fetch(`/api/${method}`, { method: "POST", headers, body: JSON.stringify(payload) }),
  );
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
