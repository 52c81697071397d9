import { withDeadline, withGrace } from "../../lib/cancellation.ts";
import type { Clock, Timer } from "../../lib/clock.ts";
import {
  type Device,
  type Mounted,
  type OpenContext,
  SyscallError,
  type VFSFileFactory,
} from "../../plugin/index.ts";
import { Restarts, rulesFor } from "../supervisor/restart-policy.ts";
import type { MountOpener, ProjectHandle } from "../types.ts";
import { type MountContextPorts, mountContext } from "./mount-context.ts";

export interface MountSourcePorts extends MountContextPorts {
  clock: Clock;
  random(): number;
  uuid(): string;
}

/** What is to be opened, and in whose surroundings. */
interface SourceSpec {
  type: string;
  name: string;
  opener: MountOpener;
  config: object;
  project: ProjectHandle;
  env: Record<string, string>;
  timeoutMs: number;
}

/** Gets the changes of a mount source. */
interface SourceEvents {
  /** Its table is another one: the devices, by their place below the mount point. */
  changed(): void;
  inbox(text: string): Promise<void>;
}

/** Ms that a plugin may take for its `unmount`. */
const UNMOUNT_MS = 5_000;
/** The source is given up after more restarts than this. */
const RESTARTS = { intensity: 3, periodMs: 60_000 };

/** One opening: the signal it lives under and the owner of its programs. */
interface Attempt {
  uuid: string;
  abort: AbortController;
  mounted?: Mounted;
  ending?: Promise<void>;
}

/**
 * One thing that is mounted, at one place or at many: opened once, opened anew when it ends by itself, closed
 * once. It owns the programs that the plugin starts for it.
 */
export class MountSource {
  readonly #spec: SourceSpec;
  readonly #ports: MountSourcePorts;
  readonly #events: SourceEvents;
  readonly #restarts: Restarts;
  readonly #opened: Promise<void>;
  #devices: Readonly<Record<string, Device>> = {};
  #attempt: Attempt;
  /** Why it can't be used now. */
  #down: SyscallError | undefined;
  /** Why it ended last, if it ended too often: it starts again only for a new user. */
  #left: SyscallError | undefined;
  #timer: Timer | undefined;
  #closing: Promise<void> | undefined;

  constructor(spec: SourceSpec, ports: MountSourcePorts, events: SourceEvents) {
    this.#spec = spec;
    this.#ports = ports;
    this.#events = events;
    const rules = rulesFor(RESTARTS);
    this.#restarts = new Restarts(rules, { clock: ports.clock, random: () => ports.random() });
    this.#attempt = this.#newAttempt();
    this.#opened = this.#open(this.#attempt);
    this.#opened.catch(() => undefined); // `ready` reports it to its callers.
  }

  get label(): string {
    return `${this.#spec.type} ${this.#spec.name}`;
  }

  get opener(): MountOpener {
    return this.#spec.opener;
  }

  get devices(): Readonly<Record<string, Device>> {
    return this.#devices;
  }

  /** Why it can't be used now; undefined while it can. */
  get down(): SyscallError | undefined {
    return this.#down;
  }

  /** Waits for the first opening. Throws why it failed, or the signal's reason. */
  ready(signal: AbortSignal): Promise<void> {
    return withGrace(this.#opened, signal, this.#ports.clock, 0);
  }

  /** The factory of a device at this place: the one that stands there when a file is opened. */
  factory(place: string): VFSFileFactory {
    return (subpath, flags, context) => {
      // It may be within its limit again by now.
      if (this.#left) this.#again(this.#left);
      if (this.#down) throw this.#down;
      const device = this.#devices[place];
      if (!device) {
        throw new SyscallError("NOT_FOUND", `${this.label} no longer has ${place || "a root"}.`);
      }
      return device.factory(subpath, flags, context);
    };
  }

  /** Ends it, whatever it is doing, and waits for that, but not for ever. Throws what the plugin threw. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#timer?.cancel();
    this.#down = this.#closedError();
    await this.#end(this.#attempt);
  }

  #newAttempt(): Attempt {
    return { uuid: this.#ports.uuid(), abort: new AbortController() };
  }

  /** Opens it within the time limit. When that fails, nothing of the attempt is left. */
  async #open(attempt: Attempt): Promise<void> {
    const { clock } = this.#ports;
    const { timeoutMs, config, opener } = this.#spec;
    const late = `${this.label} was not there within ${timeoutMs} ms. Give it more time where it is declared.`;
    const deadline = withDeadline(clock, attempt.abort.signal, timeoutMs, late);
    const over = AbortSignal.any([attempt.abort.signal, deadline.signal]);
    const context = this.#context(attempt, over);
    const opening = this.#guarded(() => opener.type.open(config, context, deadline.signal));
    try {
      const mounted = await withGrace(opening, deadline.signal, clock, 0);
      deadline.signal.throwIfAborted();
      attempt.mounted = mounted;
      this.#stand(attempt, mounted);
    } catch (thrown) {
      // It was given up. If it opens after all, it must be closed here.
      opening
        .then(
          (mounted) => (attempt.mounted === mounted ? undefined : this.#unmount(mounted)),
          () => undefined,
        )
        .catch((fault) => this.#warn(fault));
      await this.#end(attempt).catch((fault) => this.#warn(fault));
      throw thrown;
    } finally {
      deadline.release();
    }
  }

  /** The connection is open. Its later events count only while it is the current one. */
  #stand(attempt: Attempt, mounted: Mounted): void {
    const present = (): boolean => this.#attempt === attempt && !this.#closing;
    this.#restarts.started();
    this.#down = undefined;
    this.#table(mounted.devices);
    mounted.onChange?.((devices) => {
      if (present()) this.#table(devices);
    });
    mounted.onEnd?.((why) => {
      if (present() && !attempt.abort.signal.aborted) void this.#fell(attempt, why);
    });
  }

  #table(devices: Readonly<Record<string, Device>>): void {
    this.#devices = devices;
    this.#events.changed();
  }

  /** It has ended by itself: what is left of it is cleared away, and it is opened again after a while. */
  async #fell(attempt: Attempt, why: SyscallError): Promise<void> {
    this.#down = this.#downError(why, "It is being cleared away");
    await this.#end(attempt).catch((fault) => this.#warn(fault));
    this.#again(why);
  }

  #again(why: SyscallError): void {
    if (this.#closing) return;
    const delayMs = this.#restarts.ended();
    this.#left = delayMs === null ? why : undefined;
    if (delayMs === null) {
      const often = `It ended more than ${RESTARTS.intensity} times within ${RESTARTS.periodMs / 1_000} s and is left alone for now`;
      this.#down = this.#downError(why, often);
      return;
    }
    const soon = `It is started again in ${Math.ceil(delayMs)} ms: try again after that`;
    this.#down = this.#downError(why, soon, delayMs);
    this.#timer = this.#ports.clock.timer(delayMs, () => void this.#reopen());
  }

  async #reopen(): Promise<void> {
    this.#attempt = this.#newAttempt();
    try {
      await this.#open(this.#attempt);
    } catch (thrown) {
      this.#again(errorOf(thrown));
    }
  }

  /** The end of one attempt, once. */
  #end(attempt: Attempt): Promise<void> {
    attempt.ending ??= this.#endOnce(attempt);
    return attempt.ending;
  }

  async #endOnce({ uuid, abort, mounted }: Attempt): Promise<void> {
    abort.abort(this.#closedError());
    try {
      if (mounted) await this.#unmount(mounted);
    } finally {
      await this.#ports.children.endOwner(uuid);
    }
  }

  async #unmount(mounted: Mounted): Promise<void> {
    const { clock } = this.#ports;
    const late = `${this.label}: plugin ${this.#spec.opener.plugin} did not unmount it within ${UNMOUNT_MS} ms.`;
    const deadline = withDeadline(clock, new AbortController().signal, UNMOUNT_MS, late);
    try {
      await withGrace(
        this.#guarded(() => mounted.unmount()),
        deadline.signal,
        clock,
        0,
      );
    } finally {
      deadline.release();
    }
  }

  #context({ uuid }: Attempt, signal: AbortSignal): OpenContext {
    const { opener, project, env } = this.#spec;
    return mountContext(this.#ports, {
      uuid,
      opener,
      label: this.label,
      project,
      env,
      signal,
      inbox: (text) => this.#events.inbox(text),
    });
  }

  /** What is no SyscallError of the plugin's own is DRIVER, with its name. */
  async #guarded<T>(run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (thrown) {
      if (thrown instanceof SyscallError) throw thrown;
      const text = thrown instanceof Error ? thrown.message : String(thrown);
      const { plugin } = this.#spec.opener;
      throw new SyscallError("DRIVER", `Plugin ${plugin}, ${this.label}: ${text}`, { cause: thrown });
    }
  }

  #downError(why: SyscallError, what: string, retryAfterMs?: number): SyscallError {
    const message = `${this.label} is down: ${why.message} ${what}.`;
    return new SyscallError("UNAVAILABLE", message, { cause: why, retryAfterMs });
  }

  #closedError(): SyscallError {
    return new SyscallError("CLOSED", `${this.label} is unmounted.`);
  }

  #warn(thrown: unknown): void {
    this.#ports.log("warn", `mount ${this.label}`, errorOf(thrown).message);
  }
}

function errorOf(thrown: unknown): SyscallError {
  if (thrown instanceof SyscallError) return thrown;
  return new SyscallError("INTERNAL", thrown instanceof Error ? thrown.message : String(thrown));
}
