/** One mounted source, such as an MCP server: opens it, restarts it and closes it. */

import { type Timer, withDeadline, withGrace, withTimeout } from "../../lib/clock.ts";
import { detailOf, messageOf } from "../../lib/error-detail.ts";
import {
  type Device,
  type Mounted,
  type OpenContext,
  SyscallError,
  type VFSFileFactory,
} from "../../plugin/index.ts";
import type { DeviceRegistry } from "../../vfs/namespace.ts";
import type { Process } from "../process/process.ts";
import { Restarts, rulesFor } from "../supervisor/restart-policy.ts";
import type { Core } from "../tiers/core.ts";
import type { MountOpener, MountRequest, ProjectHandle } from "../types.ts";
import { type Confine, mountContext } from "./mount-context.ts";

/** A path at which a source is mounted. */
export interface MountPoint {
  request: MountRequest;
  path: string;
  table: MountTable;
  source: MountSource;
  /** True while processes see its devices. */
  isVisible: boolean;
  /** The mount was ready after the first step began: the model loads its tools with ToolSearch. */
  defers?: true;
  /** Names of its visible tools. */
  tools: ReadonlySet<string>;
  release?(): void;
}

/** The mounts of one process, of all processes that share them, or of a listing. */
export interface MountTable {
  /** The process that owns it. */
  proc?: Process;
  /** All processes of a scope share its mounts. The other tables use them instead of sources of their own. */
  isShared?: true;
  /** Made on first use. */
  devices(): DeviceRegistry;
  points: Map<string, MountPoint>;
  /** The processes that see it now. */
  processes(): Process[];
  /** The process of the table is ending: its model is not notified of removed tools. */
  ending?: boolean;
}

/** What is opened, in which project and with which environment. */
interface SourceSpec {
  type: string;
  name: string;
  opener: MountOpener;
  config: object;
  project: ProjectHandle;
  env: Record<string, string>;
  confine?: Confine | undefined;
  timeoutMs: number;
}

export interface SourceEvents {
  changed(source: MountSource): void;
  /** Called when it could not be opened the first time. */
  failed(source: MountSource, why: SyscallError): void;
  /** Sends a text of its plugin to the processes that use it. */
  inbox(source: MountSource, text: string): Promise<void>;
}

const UNMOUNT_MS = 5_000;
/** After more restarts than this, it is started again only for a new user. */
const RESTARTS = { intensity: 3, periodMs: 60_000 };

/** An attempt to open the source: its signal, and the UUID that owns its programs. */
interface MountAttempt {
  uuid: string;
  abort: AbortController;
  mounted?: Mounted;
  ending?: Promise<void>;
}

/**
 * A source may have several mount points. It is opened once, opened again when it ends by itself, and closed once. It
 * owns the programs that the plugin starts for it.
 */
export class MountSource {
  /** Identifies what is opened: equal requests share a source. */
  readonly key: string;
  devices: Readonly<Record<string, Device>> = {};
  /** Why it can't be used now; undefined while it can. */
  down: SyscallError | undefined;
  readonly points = new Set<MountPoint>();
  /** Closes it, while it is kept without a mount point. */
  closing: Timer | undefined;
  readonly #spec: SourceSpec;
  readonly #parts: Core;
  readonly #events: SourceEvents;
  readonly #restarts: Restarts;
  readonly #opened: Promise<void>;
  #attempt: MountAttempt;
  /** The reason of its last end, if it ended too often. */
  #givenUp: SyscallError | undefined;
  #timer: Timer | undefined;
  #closed: Promise<void> | undefined;
  #state: "opening" | "open" | "failed" = "opening";

  constructor(key: string, spec: SourceSpec, parts: Core, events: SourceEvents) {
    this.key = key;
    this.#spec = spec;
    this.#parts = parts;
    this.#events = events;
    const rules = rulesFor(RESTARTS);
    this.#restarts = new Restarts(rules, { clock: parts.clock, random: () => parts.random() });
    this.#attempt = this.#newAttempt();
    this.#opened = this.#open(this.#attempt);
    this.#opened.then(
      () => {
        this.#state = "open";
      },
      (thrown) => {
        this.#state = "failed"; // `ready` reports it to its callers.
        events.failed(this, errorOf(thrown));
      },
    );
  }

  get label(): string {
    return `${this.#spec.type} ${this.#spec.name}`;
  }

  /** The URL to which the plugin connects by itself. */
  get address(): string | undefined {
    return addressIn(this.#spec.config, this.#spec.opener);
  }

  get opener(): MountOpener {
    return this.#spec.opener;
  }

  /** Whether the source is open and can be used now. */
  get isOpen(): boolean {
    return this.#state === "open" && this.down === undefined;
  }

  /** Whether the source is open or may be opened again. */
  get isUseful(): boolean {
    return this.#state !== "failed" && this.down === undefined;
  }

  /** Waits until it is open for the first time. Throws the error of the attempt, or the signal's reason. */
  ready(signal: AbortSignal): Promise<void> {
    return withGrace(this.#opened, signal, this.#parts.clock, 0);
  }

  /** Returns a factory that opens files on the current device at this subpath. */
  factory(at: string): VFSFileFactory {
    return async (subpath, flags, context) => {
      // The period of the restart limit may have passed.
      if (this.#givenUp) this.#scheduleRestart(this.#givenUp);
      if (this.down) throw this.down;
      const device = this.devices[at];
      if (!device)
        throw new SyscallError("NOT_FOUND", `${this.label} no longer has ${at || "a root device"}.`);
      if (this.address !== undefined) await context.connect(this.address);
      return device.factory(subpath, flags, context);
    };
  }

  /** Closes it in any state and waits for that, up to a deadline. Throws the plugin's error. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  /** Cancels the grace period of its programs. Does not end them. */
  hurry(): void {
    this.#parts.children.hurryOwner(this.#attempt.uuid);
  }

  async #close(): Promise<void> {
    this.#timer?.cancel();
    this.down = this.#closedError();
    const ended = this.#end(this.#attempt);
    // A program that has never answered has nothing to finish.
    if (this.#state === "opening") this.hurry();
    await ended;
  }

  #newAttempt(): MountAttempt {
    return { uuid: this.#parts.uuid(), abort: new AbortController() };
  }

  /** Opens it within the time limit. A failed attempt leaves nothing running. */
  #open(attempt: MountAttempt): Promise<void> {
    const { clock } = this.#parts;
    const { timeoutMs, config, opener } = this.#spec;
    const late = `${this.label} did not start within ${timeoutMs} ms. Increase its timeout where it is declared.`;
    return withDeadline(clock, attempt.abort.signal, timeoutMs, late, async (limited) => {
      const over = AbortSignal.any([attempt.abort.signal, limited]);
      const context = this.#context(attempt, over);
      const opening = this.#guarded(() => opener.type.open(config, context, limited));
      try {
        const mounted = await withGrace(opening, limited, clock, 0);
        limited.throwIfAborted();
        attempt.mounted = mounted;
        this.#onMounted(attempt, mounted);
      } catch (thrown) {
        // If it opens after the deadline, it must be closed here.
        opening
          .then(
            (mounted) => (attempt.mounted === mounted ? undefined : this.#unmount(mounted)),
            () => undefined,
          )
          .catch((fault) => this.#warn(fault));
        await this.#end(attempt).catch((fault) => this.#warn(fault));
        throw this.#spec.confine ? inSandbox(errorOf(thrown)) : thrown;
      }
    });
  }

  /** Registers an open connection. Its later events count only while it is the current one. */
  #onMounted(attempt: MountAttempt, mounted: Mounted): void {
    const present = (): boolean => this.#attempt === attempt && !this.#closed;
    this.#restarts.started();
    this.down = undefined;
    this.#setDevices(mounted.devices);
    mounted.onChange?.((devices) => {
      if (present()) this.#setDevices(devices);
    });
    mounted.onEnd?.((why) => {
      if (present() && !attempt.abort.signal.aborted) void this.#onMountEnd(attempt, why);
    });
  }

  #setDevices(devices: Readonly<Record<string, Device>>): void {
    this.devices = devices;
    this.#events.changed(this);
  }

  /** Called when the source has ended by itself. Ends its programs and schedules a restart. */
  async #onMountEnd(attempt: MountAttempt, why: SyscallError): Promise<void> {
    this.down = this.#downError(why, "Its programs are being ended");
    await this.#end(attempt).catch((fault) => this.#warn(fault));
    this.#scheduleRestart(why);
  }

  #scheduleRestart(why: SyscallError): void {
    if (this.#closed) return;
    const delayMs = this.#restarts.ended();
    this.#givenUp = delayMs === null ? why : undefined;
    if (delayMs === null) {
      const often = `It ended more than ${RESTARTS.intensity} times within ${RESTARTS.periodMs / 1_000} s and is not restarted for now`;
      this.down = this.#downError(why, often);
      return;
    }
    const soon = `It restarts in ${Math.ceil(delayMs)} ms: try again then`;
    this.down = this.#downError(why, soon, delayMs);
    this.#timer = this.#parts.clock.timer(delayMs, () => void this.#reopen());
  }

  async #reopen(): Promise<void> {
    this.#attempt = this.#newAttempt();
    try {
      await this.#open(this.#attempt);
    } catch (thrown) {
      this.#scheduleRestart(errorOf(thrown));
    }
  }

  #end(attempt: MountAttempt): Promise<void> {
    attempt.ending ??= this.#endOnce(attempt);
    return attempt.ending;
  }

  async #endOnce({ uuid, abort, mounted }: MountAttempt): Promise<void> {
    abort.abort(this.#closedError());
    try {
      if (mounted) await this.#unmount(mounted);
    } finally {
      await this.#parts.children.endOwner(uuid);
    }
  }

  async #unmount(mounted: Mounted): Promise<void> {
    const unmounted = this.#guarded(() => mounted.unmount());
    if (await withTimeout(this.#parts.clock, UNMOUNT_MS, unmounted)) return;
    const { plugin } = this.#spec.opener;
    const message = `${this.label}: plugin ${plugin} did not unmount it within ${UNMOUNT_MS} ms.`;
    throw new SyscallError("TIMEOUT", message);
  }

  #context({ uuid }: MountAttempt, signal: AbortSignal): OpenContext {
    const { opener, project, env, confine } = this.#spec;
    return mountContext(this.#parts, {
      uuid,
      opener,
      label: this.label,
      project,
      env,
      confine,
      signal,
      inbox: (text) => this.#events.inbox(this, text),
    });
  }

  /** Turns errors that are no SyscallError into DRIVER, with the plugin's name. */
  async #guarded<T>(run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (thrown) {
      if (thrown instanceof SyscallError) throw thrown;
      const text = messageOf(thrown);
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
    this.#parts.log("warn", `mount ${this.label}`, errorOf(thrown).message);
  }
}

/** What a server lacks there is often the reason why it did not start. */
function inSandbox(error: SyscallError): SyscallError {
  const where =
    "It runs in the sandbox and the network of its run; sandbox: off in its entry starts it outside.";
  const ended = error.message.replace(/(?<![.!?\s])\s*$/, ".");
  return new SyscallError(error.code, `${ended} ${where}`, detailOf(error));
}

/** The URL in the config of a mount whose plugin connects by itself. */
export function addressIn(config: object, opener: MountOpener | undefined): string | undefined {
  const { address } = opener?.type ?? {};
  const url: unknown = address === undefined ? undefined : Reflect.get(config, address);
  return typeof url === "string" && URL.canParse(url) ? url : undefined;
}

function errorOf(thrown: unknown): SyscallError {
  if (thrown instanceof SyscallError) return thrown;
  return new SyscallError("INTERNAL", messageOf(thrown));
}
