/** Takes the signals of one run's units to its inbox: in order, and each once. */

import type { DaemonState } from "../../daemons/daemon-state.ts";
import type { Signal } from "../../daemons/signal.ts";
import { isTerminal } from "../../daemons/snapshot.ts";
import type { Clock, Timer } from "../../lib/clock.ts";
import { messageOf } from "../../lib/error-detail.ts";
import { type DaemonSnapshot, SyscallError } from "../../plugin/index.ts";
import type { Inboxes } from "../ipc/inboxes.ts";
import type { Process } from "../process/process.ts";

interface OutboxPorts {
  clock: Pick<Clock, "now" | "timer">;
  inboxes: Pick<Inboxes, "put">;
  state: DaemonState;
  /** The process of the run now. */
  owner(): Process;
  /** A unit's end is in the inbox, or there is none any more. */
  over(id: string): void;
  /** Called when no signal is left to deliver. */
  idle(): void;
  warn(source: string, text: string): void;
}

/** A signal on its way: what of it is on disk is not written again. */
interface Outgoing {
  signal: Signal;
  text: string;
  recorded: boolean;
  put: boolean;
}

/** After this time a signal that the disk has refused is tried again. */
const RETRY_MS = 1_000;

/** Ends of commands with their whole output in the record of a run, and the characters of later ones. */
const WHOLE_ENDS = 100;
const SHORT_OUTPUT = 4_096;

/** A unit is evicted only when its end is in the inbox. While it is held, signals wait: the run has no process. */
export class Outbox {
  readonly #o: OutboxPorts;
  /** Commands whose end was recorded. */
  #ended = 0;
  #queue: Outgoing[] = [];
  #pumping: Promise<void> | undefined;
  #retry: Timer | undefined;
  #held = false;
  /** A refusal is reported once. */
  #warned = false;

  constructor(o: OutboxPorts) {
    this.#o = o;
  }

  /** Whether a signal is not in the inbox yet. */
  get busy(): boolean {
    return this.#o.state.hasPending() || this.#queue.length > 0 || this.#pumping !== undefined;
  }

  /** Delivers what is queued, unless it is held. */
  wake(): void {
    if (this.#held || this.#retry !== undefined || this.#pumping !== undefined) return;
    this.#pumping = this.#pump().finally(() => {
      this.#pumping = undefined;
      if (this.#o.state.hasPending()) this.wake();
      else if (this.#queue.length === 0) this.#o.idle();
    });
  }

  /** Resolves when no delivery is under way. */
  async settled(): Promise<void> {
    await this.#pumping;
  }

  /** Delivers nothing until `release`. Resolves when no delivery is under way. */
  async hold(): Promise<void> {
    this.#held = true;
    this.#retry?.cancel();
    this.#retry = undefined;
    await this.#pumping;
  }

  release(): void {
    this.#held = false;
    this.wake();
  }

  async #pump(): Promise<void> {
    const { owner, state, warn } = this.#o;
    // A unit emits its last event and its end together.
    await Promise.resolve();
    while (!this.#held) {
      for (const signal of state.drainSignals()) this.#enqueue(signal);
      const [next] = this.#queue;
      if (!next) return;
      try {
        await this.#deliver(next);
        this.#warned = false;
      } catch (thrown) {
        // An ending process reads nothing more; its record has the end of the unit.
        if (!(thrown instanceof SyscallError && thrown.code === "CLOSED")) {
          if (!this.#warned)
            warn(`PID ${owner().pid}`, `signal of unit ${next.signal.daemonId}: ${messageOf(thrown)}`);
          this.#warned = true;
          return this.#later();
        }
      }
      this.#queue.shift();
      if (isLast(next.signal)) this.#o.over(next.signal.daemonId);
    }
  }

  /** The last event of a unit is one entry with its end: each entry that wakes an agent costs a model call. */
  #enqueue(signal: Signal): void {
    const last = this.#queue.at(-1);
    const closing = last?.signal.event?.closing === true && last.signal.daemonId === signal.daemonId;
    const text = signalText(signal);
    if (last && closing && !last.put && isLast(signal))
      this.#queue[this.#queue.length - 1] = { ...last, signal, text: `${last.text}\n${text}` };
    else this.#queue.push({ signal, text, recorded: false, put: false });
  }

  /** After many units the record keeps less of each output: its file has the rest. */
  #recorded(snapshot: DaemonSnapshot): DaemonSnapshot {
    if (snapshot.kind !== "local_bash" || ++this.#ended <= WHOLE_ENDS) return snapshot;
    const output = snapshot.metadata.output.slice(-SHORT_OUTPUT);
    return { ...snapshot, metadata: { ...snapshot.metadata, output } };
  }

  /** The end of a unit is recorded before it is announced. */
  async #deliver(next: Outgoing): Promise<void> {
    const { signal, text } = next;
    const { daemonId: unit, snapshot } = signal;
    const { record } = this.#o.owner();
    const ended = isLast(signal);
    const read = readBy(signal);
    if (ended && !next.recorded) {
      record.unit({ t: "ended", ts: this.#ts(), snapshot: this.#recorded(snapshot) });
      await record.sync();
    }
    next.recorded = true;
    if (!next.put) {
      const draft = { kind: "unit", ts: this.#ts(), unit, ended, text, ...read } as const;
      await this.#o.inboxes.put(this.#o.owner(), draft);
    }
    next.put = true;
    if (read) record.unit({ t: "reported", ts: this.#ts(), id: unit, ...read });
    if (ended) record.unit({ t: "announced", ts: this.#ts(), id: unit });
  }

  #later(): void {
    if (this.#held) return;
    this.#retry = this.#o.clock.timer(RETRY_MS, () => {
      this.#retry = undefined;
      this.wake();
    });
  }

  #ts(): string {
    return new Date(this.#o.clock.now()).toISOString();
  }
}

/** What of the output of a monitor is reported with this signal. */
function readBy({ event, snapshot }: Signal): { up_to: number; events: number } | undefined {
  if (event?.upTo === undefined || snapshot.kind !== "monitor") return undefined;
  return { up_to: event.upTo, events: snapshot.metadata.event_count };
}

/** Whether it is the end of its unit. */
function isLast({ lifecycle }: Signal): boolean {
  return lifecycle !== undefined && isTerminal(lifecycle.status);
}

/** Characters of the end of an output that a signal carries; DaemonOutput has the rest. */
const MAX_TAIL = 4000;

/** The text of an inbox entry. Keys are removed already. */
function signalText({ snapshot, event, lifecycle }: Signal): string {
  const unit = `unit ${snapshot.id} [${snapshot.kind}]`;
  if (event) {
    const rest = event.closing ? ["(stream closed)"] : [];
    return [`${unit} events:`, ...(event.line === "" ? [] : [event.line]), ...rest].join("\n");
  }
  if (!isTerminal(lifecycle.status)) return `${unit} still runs: ${snapshot.description}`;
  const tail = tailOf(snapshot);
  return `${unit} ${lifecycle.status}${detailOf(snapshot)}: ${snapshot.description}${tail}`;
}

function detailOf(snapshot: DaemonSnapshot): string {
  switch (snapshot.kind) {
    case "local_bash":
      if (snapshot.metadata.exit_code !== null) return `, exit code ${snapshot.metadata.exit_code}`;
      return snapshot.status === "failed" ? ", exit code unknown" : "";
    case "monitor":
      return `, events=${snapshot.metadata.event_count}`;
    case "lsp": {
      const { server_name, state, restart_count, max_restarts } = snapshot.metadata;
      return `, server=${server_name}, state=${state}, restarts=${restart_count}/${max_restarts}`;
    }
    default:
      return "";
  }
}

function tailOf(snapshot: DaemonSnapshot): string {
  const text = textOf(snapshot).trimEnd();
  if (text === "") return "";
  const cut = text.length > MAX_TAIL;
  const hint = `[the end of its output; DaemonOutput ${snapshot.id} has more]\n`;
  return `\n${cut ? hint : ""}${text.slice(-MAX_TAIL)}`;
}

function textOf({ metadata }: DaemonSnapshot): string {
  if ("output" in metadata) return metadata.output;
  if (!("err" in metadata)) return "";
  return [metadata.summary, metadata.err && `error: ${metadata.err}`]
    .filter((part) => part !== "")
    .join("\n");
}
