/** The connection to the process of one plugin: start, calls, deadlines and end. */

import { realClock, type Timer } from "../../lib/clock.ts";
import type { ProgramChannel } from "../../lib/program-channel.ts";
import { SyscallError } from "../index.ts";
import { pluginProgram } from "./embedded.ts";
import { OpenFiles } from "./open-files.ts";
import {
  PROCESS_LIMITS,
  type ProcessLimits,
  type ProcessOptions,
  realTimers,
  type Timers,
} from "./process-options.ts";
import type { Problem } from "./report.ts";
import {
  type Answer,
  type DriverAnswers,
  type DriverCall,
  PendingCalls,
  type ServiceCall,
  type ToHost,
  type ToProgram,
} from "./wire.ts";
import { errorText, fromWire, type SourcePosition, toWire, type WireError } from "./wire-error.ts";

/** The receiver of a mount's events. */
interface MountObserver {
  changed(sketch: unknown): void;
  ended(why: SyscallError): void;
}

const MAX_PROBLEMS = 10;
const MIB = 2 ** 20;
/** Memory that one plugin may hold, and how often that is checked. */
const MAX_MEMORY = 1024 * MIB;
const MEMORY_CHECK_MS = 200;

interface Bounds {
  signal?: AbortSignal;
  limit?: "loadMs" | "openMs" | "callMs";
  /** Called when an answer comes after the call was given up. */
  late?(): void;
}

/** The messages to and from one process, and its end. */
export class ProcessLink {
  readonly files = new OpenFiles();
  readonly mounts = new Map<number, MountObserver>();
  readonly problems: Problem[] = [];
  ended: SyscallError | undefined;
  /** Why it ended, if the end was unexpected. */
  crash: Problem | undefined;

  readonly #options: ProcessOptions;
  readonly #limits: ProcessLimits;
  readonly #timers: Timers;
  readonly #program: ProgramChannel;
  #memoryCheck: Timer | undefined;
  readonly #calls = new PendingCalls<DriverAnswers>();
  readonly #loaded = Promise.withResolvers<unknown>();
  #busy = 0;
  /** A plugin past a deadline was pinged, and has not answered yet. */
  #lifeCheck: { timer: { cancel(): void }; done: PromiseWithResolvers<void> } | undefined;

  constructor(options: ProcessOptions) {
    this.#options = options;
    this.#limits = { ...PROCESS_LIMITS, ...options.limits };
    this.#timers = options.timers ?? realTimers;
    // Both ends are this program, and speak as `wire.ts` defines.
    this.#program = options.start([...pluginProgram], (message) => this.#received(message as ToHost));
    this.#program.hold(false);
    void this.#program.ended.then(({ signal }) =>
      this.#die(signal === null ? "it ended itself (process.exit)" : `the signal ${signal} ended it`),
    );
    options.signal?.addEventListener("abort", () => this.#die(null), { once: true });
    this.#watchMemory();
  }

  /** Imports the plugin and returns its sketch. Throws the import's error. */
  async load(): Promise<unknown> {
    const { name, code } = this.#options;
    this.#post({ t: "load", name, code });
    return this.#while(this.#bounded(this.#loaded.promise, () => {}, { limit: "loadMs" }, "its import"));
  }

  ask<M extends DriverCall["m"]>(
    call: Extract<DriverCall, { m: M }>,
    bounds: Bounds,
  ): Promise<Answer<DriverAnswers, M>> {
    if (this.ended) return Promise.reject(this.ended);
    if (bounds.signal?.aborted) return Promise.reject(abortError(bounds.signal));
    const { id, answer } = this.#calls.begin<M>();
    try {
      this.#post({ t: "call", id, call });
    } catch (cause) {
      const message = `Plugin ${this.#options.name}, ${call.m}: only data can cross.`;
      this.#calls.fail(id, new SyscallError("INVALID", message, { cause }));
    }
    const abort = (error: SyscallError) => this.#post({ t: "abort", id, error: toWire(error) });
    return this.#while(this.#bounded(answer, abort, bounds, call.m));
  }

  /** Closes a file. Never throws: an error of close() is recorded as a problem. */
  async closeFile(file: number): Promise<void> {
    if (!this.ended) {
      await this.ask({ m: "close", file }, { limit: "callMs" }).catch((thrown) => this.recordProblem(thrown));
    }
    this.files.drop(file);
    this.#options.onLess?.();
  }

  /** A use without a file is over. */
  settle(): void {
    this.#options.onLess?.();
  }

  /** Ends a mount. Throws the error of its unmount; the mount has ended anyway. */
  async closeMount(mount: number): Promise<void> {
    this.mounts.delete(mount);
    try {
      if (!this.ended) await this.ask({ m: "unmount", mount }, { limit: "callMs" });
    } finally {
      this.files.dropMount(mount);
      this.#options.onLess?.();
    }
  }

  /** Records a problem for `rnix plugins`. */
  recordProblem(thrown: unknown): void {
    // A DRIVER error was recorded when it arrived.
    if (thrown === this.ended || (thrown instanceof SyscallError && thrown.code === "DRIVER")) return;
    const wire = toWire(thrown);
    this.#problem({ ...wire.place, message: wire.message });
  }

  async end(): Promise<void> {
    this.#die(null);
    // An idle one does not keep this process running, but waiting for its end must.
    this.#program.hold(true);
    await this.#program.ended;
  }

  #received(message: ToHost): void {
    switch (message.t) {
      case "loaded":
        this.#loaded.resolve(message.sketch);
        break;
      case "failed":
        this.#loaded.reject(this.#error(message.error));
        break;
      case "answer":
        if (message.error) this.#calls.fail(message.id, this.#error(message.error));
        else this.#calls.answer(message.id, message.value);
        break;
      case "call":
        void this.#serve(message.id, message.file, message.call);
        break;
      case "note":
        this.files.emit(message.file, message.note);
        break;
      case "changed":
        this.mounts.get(message.mount)?.changed(message.sketch);
        break;
      case "ended":
        this.mounts.get(message.mount)?.ended(this.#error(message.error));
        break;
      case "said":
        this.#options.log?.("info", this.#options.name, message.text);
        break;
      case "pong":
        this.#endLifeCheck();
        break;
      case "crash":
        this.#die(errorText(message.error), message.error.place);
        break;
    }
  }

  /** The error of a driver. One that was no SyscallError is also recorded as a problem. */
  #error(wire: WireError): SyscallError {
    if (wire.code === undefined) this.#problem({ ...wire.place, message: errorText(wire) });
    return fromWire(wire, this.#options.name);
  }

  async #serve(id: number, file: number, call: ServiceCall): Promise<void> {
    try {
      const value = await this.files.serve(file, call);
      this.#post({ t: "answer", id, value });
    } catch (thrown) {
      this.#post({ t: "answer", id, error: toWire(thrown) });
    }
  }

  /** The answer, or the deadline's error at most `answerMs` after the deadline. */
  #bounded<T>(
    answer: Promise<T>,
    abort: (error: SyscallError) => void,
    bounds: Bounds,
    what: string,
  ): Promise<T> {
    const { signal, limit, late } = bounds;
    return new Promise<T>((resolve, reject) => {
      let givenUp = false;
      const timers: { cancel(): void }[] = [];
      const expire = (error: SyscallError) => {
        if (this.ended) return;
        abort(error);
        this.#askForLife();
        timers.push(
          this.#timers.timer(this.#limits.answerMs, () => {
            givenUp = true;
            reject(error);
          }),
        );
      };
      const onAbort = () => signal && expire(abortError(signal));
      signal?.addEventListener("abort", onAbort, { once: true });
      if (limit)
        timers.push(this.#timers.timer(this.#limits[limit], () => expire(this.#tooLate(what, limit))));
      answer
        .then((value) => (givenUp ? late?.() : resolve(value)), reject)
        .finally(() => {
          for (const timer of timers) timer.cancel();
          signal?.removeEventListener("abort", onAbort);
        });
    });
  }

  #tooLate(what: string, limit: NonNullable<Bounds["limit"]>): SyscallError {
    const message = `Plugin ${this.#options.name}: ${what} took longer than ${this.#limits[limit]} ms.`;
    const error = new SyscallError("TIMEOUT", message);
    this.recordProblem(error);
    return error;
  }

  /** Resolves when it is known whether a plugin past a deadline still responds: after at most `aliveMs`. */
  get checked(): Promise<void> | undefined {
    return this.#lifeCheck?.done.promise;
  }

  #askForLife(): void {
    if (this.#lifeCheck) return;
    this.#post({ t: "ping" });
    const timer = this.#timers.timer(this.#limits.aliveMs, () => {
      this.#die(`it was past a deadline and did not respond for ${this.#limits.aliveMs} ms`);
    });
    this.#lifeCheck = { timer, done: Promise.withResolvers() };
  }

  #endLifeCheck(): void {
    const check = this.#lifeCheck;
    this.#lifeCheck = undefined;
    check?.timer.cancel();
    check?.done.resolve();
  }

  /** Ends the process if it holds too much memory. */
  #watchMemory(): void {
    this.#memoryCheck = realClock.timer(MEMORY_CHECK_MS, () => {
      const bytes = this.#program.memory() ?? 0;
      if (bytes <= MAX_MEMORY) return this.#watchMemory();
      const held = Math.round(bytes / MIB);
      this.#die(`it held ${held} MiB of memory; a plugin may hold ${MAX_MEMORY / MIB}`);
    });
  }

  /** Ends the process, once. `why` is null for an expected end. */
  #die(why: string | null, place?: SourcePosition): void {
    if (this.ended) return;
    const { name, entry, onLess } = this.#options;
    this.ended = new SyscallError(
      "CLOSED",
      `Plugin ${name} (${entry}) was ended${why === null ? "" : `: ${why}`}. Its files are closed; the next call starts it again.`,
    );
    if (why !== null) {
      this.crash = { file: entry, ...place, message: `Ended: ${why}.` };
      this.#problem(this.crash);
    }
    this.#endLifeCheck();
    this.#memoryCheck?.cancel();
    this.#program.kill();
    this.#loaded.reject(this.ended);
    this.#calls.failAll(this.ended);
    this.files.clear();
    for (const mount of this.mounts.values()) mount.ended(this.ended);
    this.mounts.clear();
    onLess?.();
  }

  /** It keeps this process running only while calls are open. */
  async #while<T>(work: Promise<T>): Promise<T> {
    if (this.#busy++ === 0) this.#program.hold(true);
    try {
      return await work;
    } finally {
      if (--this.#busy === 0) this.#program.hold(false);
    }
  }

  #problem(problem: Problem): void {
    if (this.problems.some(({ message }) => message === problem.message)) return;
    this.problems.push(problem);
    if (this.problems.length > MAX_PROBLEMS) this.problems.shift();
  }

  #post(message: ToProgram): void {
    if (!this.ended) this.#program.send(message);
  }
}

function abortError(signal: AbortSignal): SyscallError {
  const { reason } = signal;
  if (reason instanceof SyscallError) return reason;
  if (reason instanceof DOMException && reason.name === "TimeoutError") {
    return new SyscallError("TIMEOUT", "The deadline has passed.", { cause: reason });
  }
  return new SyscallError("CANCELLED", "The call was cancelled.", { cause: reason });
}
