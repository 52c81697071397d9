/** The units of one process, and the queue of their signals. */

import { type Daemon, type DaemonKind, type DaemonSnapshot, SyscallError } from "../plugin/index.ts";
import type { Signal } from "./signal.ts";
import { isTerminal } from "./snapshot.ts";

/** The domain of each change that a DaemonState emits. */
export const DOMAIN = "daemons";
export const OP_ADDED = "added";
export const OP_REMOVED = "removed";
export const OP_EVENT = "event";

/** A change for a watcher. `op`: one of the three above, or the status of a transition. */
export interface Change {
  domain: typeof DOMAIN;
  op: string;
  snapshot: DaemonSnapshot;
}

/**
 * The only list of a process's units. `emit` queues first, then reports, then calls `notify`: a wake may be lost, a
 * signal may not.
 */
export class DaemonState {
  readonly #daemons = new Map<string, Daemon>();
  readonly #subscribers = new Set<(change: Change) => void>();
  readonly #notify: () => void;
  #signals: Signal[] = [];

  constructor(notify: () => void = () => {}) {
    this.#notify = notify;
  }

  domain(): typeof DOMAIN {
    return DOMAIN;
  }

  /** Calls `f` with each change until the returned function is called. */
  subscribe(f: (change: Change) => void): () => void {
    this.#subscribers.add(f);
    return () => void this.#subscribers.delete(f);
  }

  /** A second unit with the same id replaces the first. A unit with an empty id is ignored. */
  register(daemon: Daemon): void {
    const snapshot = daemon.snapshot();
    if (snapshot.id === "") return;
    this.#daemons.set(snapshot.id, daemon);
    this.#report(OP_ADDED, snapshot);
  }

  get(id: string): Daemon | undefined {
    return this.#daemons.get(id);
  }

  /** All units, sorted by start. */
  snapshot(): DaemonSnapshot[] {
    return [...this.#daemons.values()]
      .map((daemon) => daemon.snapshot())
      .sort((a, b) => Date.parse(a.started_at) - Date.parse(b.started_at));
  }

  snapshotByKind(kind: DaemonKind): DaemonSnapshot[] {
    return this.snapshot().filter((snapshot) => snapshot.kind === kind);
  }

  /**
   * Asks a unit to end, and returns its state before that. The unit itself emits its lifecycle signal. Fails with
   * NOT_FOUND, CLOSED for a terminal unit, or the error of `kill`.
   */
  async stop(id: string): Promise<DaemonSnapshot> {
    const daemon = this.#daemons.get(id);
    if (!daemon) throw daemonNotFound(id);
    const before = daemon.snapshot();
    if (isTerminal(before.status)) throw alreadyTerminal(before);
    await daemon.kill();
    return before;
  }

  emit(signal: Signal): void {
    this.#signals.push(signal);
    this.#report(signal.lifecycle?.status ?? OP_EVENT, signal.snapshot);
    this.#notify();
  }

  /** Reports a change that is no signal, such as a new phase of an agent. */
  changed(id: string, op: string): void {
    const daemon = this.#daemons.get(id);
    if (daemon) this.#report(op, daemon.snapshot());
  }

  /** Takes every queued signal. */
  drainSignals(): Signal[] {
    const signals = this.#signals;
    this.#signals = [];
    return signals;
  }

  hasPending(): boolean {
    return this.#signals.length > 0;
  }

  /** Removes a unit. An unknown id changes nothing. */
  evict(id: string): void {
    const daemon = this.#daemons.get(id);
    if (!daemon) return;
    this.#daemons.delete(id);
    this.#report(OP_REMOVED, daemon.snapshot());
  }

  len(): number {
    return this.#daemons.size;
  }

  #report(op: string, snapshot: DaemonSnapshot): void {
    for (const subscriber of [...this.#subscribers]) subscriber({ domain: DOMAIN, op, snapshot });
  }
}

/** ErrDaemonNotFound of the seed. */
export function daemonNotFound(id: string): SyscallError {
  const message = `There is no unit ${JSON.stringify(id)}. DaemonList (rnix units) lists the units.`;
  return new SyscallError("NOT_FOUND", message);
}

function alreadyTerminal({ id, status }: DaemonSnapshot): SyscallError {
  return new SyscallError("CLOSED", `Unit ${id} has already ended: ${status}.`);
}
