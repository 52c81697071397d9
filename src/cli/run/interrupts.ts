/** Handles Ctrl-C and other signals while a command runs. */

import { isServerError } from "../../client/client.ts";
import { messageOf } from "../../lib/error-detail.ts";
import { SIGINT } from "../../lib/signals.ts";
import { SyscallError } from "../../plugin/errors.ts";
import type { ProcRef } from "../../protocol/methods.ts";
import type { Payload } from "../../server/methods/method-table.ts";
import type { Io, Session } from "../io.ts";

/** How long the command waits for a killed run to end. */
const PATIENCE_MS = 30_000;

/**
 * A CI service that cancels a job sends INT, 7.5 s later TERM and 2.5 s later KILL (GitHub), or TERM and 10 s later KILL
 * (GitLab, Kubernetes). So in CI, signals in this time after the first do not kill the run.
 */
const CI_GRACE_MS = 9_500;
/** From then on, programs that ignore TERM are killed, so that the record is on disk in time. */
const CI_HURRY_MS = 4_000;

/** A run inside the command ends with it, so HUP (a closed terminal) counts like the others. */
const INSIDE = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Holds signals while a server inside this command starts or stops: its lock and its programs must not stay behind. */
export class HeldSignals {
  /** A signal came before the run began. */
  any = false;
  readonly #stop: (() => void)[];

  constructor(io: Io, o: { inside: boolean }) {
    const held = (): void => {
      this.any = true;
    };
    this.#stop = o.inside ? INSIDE.map((name) => io.onSignal(name, held)) : [];
  }

  [Symbol.dispose](): void {
    for (const stop of this.#stop) stop();
  }
}

/**
 * Ctrl-C or TERM on the command (design §2): the first suspends the run, the second kills it, a third stops
 * waiting for that. In CI only the first counts for a while, because the second one comes by itself.
 */
export class Interrupts {
  readonly #io: Io;
  readonly #session: Session;
  readonly #say: (line: string) => void;
  readonly #stop: (() => void)[];
  readonly #abandon = Promise.withResolvers<never>();
  #count: number;
  #ref: ProcRef | undefined;
  #timer: { cancel(): void } | undefined;
  readonly #inCi: boolean;
  /** In CI: signals have no effect until it fires. */
  #ciGrace: { cancel(): void } | undefined;
  #over = false;

  /** `firstIsTaken`: the first signal has another meaning and does nothing here. */
  constructor(
    io: Io,
    session: Session,
    say: (line: string) => void,
    o: { inside: boolean; firstIsTaken?: boolean },
  ) {
    this.#count = o.firstIsTaken ? -1 : 0;
    this.#io = io;
    this.#session = session;
    this.#say = say;
    this.#inCi = Boolean(io.env.CI);
    const signalled = () => this.#signalled();
    const names = o.inside ? INSIDE : (["SIGINT", "SIGTERM"] as const);
    this.#stop = names.map((name) => io.onSignal(name, signalled));
  }

  /** Rejects with CANCELLED (exit 130) when the command stops waiting for the run. */
  get abandoned(): Promise<never> {
    return this.#abandon.promise;
  }

  /** The run exists: a signal that came earlier takes effect now. */
  started(ref: ProcRef): void {
    this.#ref = ref;
    if (this.#count === 1) this.#act(ref);
  }

  [Symbol.dispose](): void {
    this.#over = true;
    this.#timer?.cancel();
    this.#ciGrace?.cancel();
    for (const stop of this.#stop) stop();
  }

  #signalled(): void {
    if (this.#ciGrace !== undefined) return void this.#say("still suspending the run");
    this.#count++;
    if (this.#count < 1) return;
    if (this.#count === 1 && this.#inCi) {
      this.#ciGrace = this.#io.timer(CI_GRACE_MS, () => {
        this.#ciGrace = undefined;
      });
    }
    if (this.#count > 2 || (this.#count === 2 && this.#ref === undefined)) this.#giveUp();
    else if (this.#ref !== undefined) this.#act(this.#ref);
  }

  #act(ref: ProcRef): void {
    const asked = this.#count;
    const doing = asked === 1 ? this.#suspend(ref) : this.#kill(ref);
    doing.catch((error: unknown) => {
      // The run ended before the answer and closed its connections, or it was killed meanwhile.
      if (this.#over || asked < this.#count) return;
      this.#say(messageOf(error));
      // The server refuses when the run has ended already: its receipt is on the way.
      if (this.#count > 1 && !isServerError(error)) this.#giveUp();
    });
  }

  #giveUp(): void {
    const where = this.#ref === undefined ? "rnix ps" : `rnix show ${this.#ref.uuid}`;
    this.#abandon.reject(
      new SyscallError("CANCELLED", `interrupted; ${where} shows whether anything still runs`),
    );
  }

  async #suspend(ref: ProcRef): Promise<void> {
    this.#say(this.#inCi ? "suspending the run" : "suspending the run; interrupt again to kill it");
    if (this.#inCi) {
      this.#timer = this.#io.timer(CI_HURRY_MS, () => {
        // The first request reports how the suspension went.
        this.#request("suspend", { ...ref, now: true }).catch(() => undefined);
      });
    }
    await this.#request("suspend", ref);
  }

  async #kill(ref: ProcRef): Promise<void> {
    this.#say("killing the run; interrupt again to stop waiting for it");
    this.#timer?.cancel();
    this.#timer = this.#io.timer(PATIENCE_MS, () => this.#giveUp());
    await this.#request("signal_tree", { ...ref, signal: SIGINT });
  }

  /** On a separate connection, because the run's stream occupies the other one. */
  async #request<M extends "suspend" | "signal_tree">(method: M, payload: Payload<M>): Promise<void> {
    const wire = await this.#session.connect();
    try {
      await wire.request(method, payload);
    } finally {
      wire.close();
    }
  }
}
