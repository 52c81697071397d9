/** A unit that a driver runs itself, such as a language server: its state is what the driver reports. */

import type { Clock, Timer } from "../lib/clock.ts";
import type { Daemon, DaemonSnapshot, DaemonStatus, RegisterRequest, UnitUpdate } from "../plugin/index.ts";
import { TAIL_BYTES } from "./output-file.ts";
import { newEventSignal, newLifecycleSignal, type Signal } from "./signal.ts";

interface DriverUnitOptions {
  id: string;
  agentId: string;
  request: RegisterRequest;
  clock: Clock;
  /** Its driver has this time for its end. */
  graceMs: number;
  emit(signal: Signal): void;
  /** Removes keys from what is shown. */
  hide(text: string): string;
}

export class DriverUnit implements Daemon {
  /** Resolves when its lifecycle signal was emitted. */
  readonly done: Promise<void>;
  /** Resolves when it is to end. */
  readonly killed: Promise<void>;
  readonly #o: DriverUnitOptions;
  readonly #startedAt: string;
  readonly #done = Promise.withResolvers<void>();
  readonly #kill = Promise.withResolvers<void>();
  #metadata: RegisterRequest["metadata"];
  #output = "";
  #status: DaemonStatus = "running";
  #endedAt: string | null = null;
  #grace: Timer | undefined;

  constructor(o: DriverUnitOptions) {
    this.#o = o;
    this.#metadata = o.request.metadata;
    this.#startedAt = this.#now();
    this.done = this.#done.promise;
    this.killed = this.#kill.promise;
  }

  snapshot(): DaemonSnapshot {
    const { id, agentId, request } = this.#o;
    return {
      id,
      kind: request.kind,
      status: this.#status,
      description: request.description,
      agent_id: agentId,
      started_at: this.#startedAt,
      ended_at: this.#endedAt,
      metadata: this.#metadata,
    };
  }

  output(): string {
    return this.#output;
  }

  /** Its driver ends it. One that does not counts as killed after the grace. */
  async kill(): Promise<void> {
    if (this.#endedAt !== null) return;
    this.#kill.resolve();
    this.#grace ??= this.#o.clock.timer(this.#o.graceMs, () => this.#end("killed"));
    await this.done;
  }

  update({ metadata, output, event, status }: UnitUpdate): void {
    const { clock, emit, hide } = this.#o;
    if (metadata) this.#metadata = metadata;
    if (output !== undefined) this.#output = hide(this.#output + output).slice(-TAIL_BYTES);
    if (event !== undefined) emit(newEventSignal(this, hide(event), false, clock.now()));
    if (status !== undefined) this.#end(status);
  }

  /** Its run is suspended: it ends without a signal. */
  leave(): void {
    this.#grace?.cancel();
    this.#endedAt ??= this.#now();
    this.#kill.resolve();
    this.#done.resolve();
  }

  #end(status: DaemonStatus): void {
    if (this.#endedAt !== null) return;
    this.#status = status;
    this.#endedAt = this.#now();
    this.#o.emit(newLifecycleSignal(this, status, this.#o.clock.now()));
    this.leave();
  }

  #now(): string {
    return new Date(this.#o.clock.now()).toISOString();
  }
}
