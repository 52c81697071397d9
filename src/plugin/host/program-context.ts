/** The contexts and mounts of a plugin in its process. */

import { lazy } from "../../lib/caches.ts";
import { countLines, TextTail } from "../../lib/text-tail.ts";
import {
  type Child,
  type Device,
  type ExecRequest,
  type Mounted,
  type OpenContext,
  type Services,
  SyscallError,
} from "../index.ts";
import { sketch } from "./sketch.ts";
import {
  type Answer,
  type ContextEvent,
  PendingCalls,
  REMOTE_METHODS,
  type RemoteMethods,
  type RemoteOwner,
  SERVICES,
  type ServiceAnswers,
  type ServiceCall,
  type ToHost,
  type WireContext,
} from "./wire.ts";
import { fromWire, toWire, type WireError } from "./wire-error.ts";

/** The limit of open service calls per process. */
const MAX_CALLS = 256;

/** Runs in the process: sends the calls of a driver's OpenContext to the kernel's thread. */
export class HostServices {
  readonly #calls = new PendingCalls<ServiceAnswers>();
  readonly #post: (message: ToHost) => void;

  constructor(post: (message: ToHost) => void) {
    this.#post = post;
  }

  answered(id: number, value: unknown, error: WireError | undefined, plugin: string): void {
    if (error) this.#calls.fail(id, fromWire(error, plugin));
    else this.#calls.answer(id, value);
  }

  context(file: number, wire: WireContext): OpenContext {
    const { services, ...data } = wire;
    const emit = (event: ContextEvent) => this.#post({ t: "note", file, note: event });
    const progress = limited((text) => emit({ n: "progress", text }));
    const logged = (level: "debug" | "info" | "warn") => limited((text) => emit({ n: "log", level, text }));
    const log = { debug: logged("debug"), info: logged("info"), warn: logged("warn") };
    const { secret, ...own } = this.#remote(file, "context");
    const offered = <O extends keyof Services & RemoteOwner>(service: O): RemoteMethods[O] | undefined =>
      services.includes(service) ? this.#remote(file, service) : undefined;
    const context: OpenContext = {
      ...data,
      ...own,
      env: Object.freeze({ ...data.env }),
      progress,
      output: coalesced((text, skipped) => emit({ n: "output", text, skipped })),
      checklist: (items) => emit({ n: "checklist", items }),
      changed: (path) => emit({ n: "changed", file: path }),
      log: (level, text) => log[level](text),
      exec: services.includes("exec") ? (request) => this.#exec(file, request) : undefined,
      secret: services.includes("secret") ? secret : undefined,
      store: offered("store"),
      tools: offered("tools"),
      history: offered("history"),
      search: offered("search"),
      schedule: offered("schedule"),
      ask: offered("ask"),
      llm: offered("llm"),
      units: offered("units"),
    };
    for (const service of SERVICES) if (context[service] === undefined) delete context[service];
    return context;
  }

  async #exec(file: number, request: ExecRequest): Promise<Child> {
    const { child, pid, reused } = await this.#ask(file, { m: "exec", request }, "exec");
    const methods = this.#remote(file, "child", child);
    return { ...methods, pid, reused, exited: lazy(() => methods.exited()) };
  }

  /** The methods of an owner: each asks the kernel's thread. */
  #remote<O extends RemoteOwner>(file: number, of: O, child?: number): RemoteMethods[O] {
    const methods = Object.keys(REMOTE_METHODS[of]).map((method) => [
      method,
      (...args: unknown[]) => this.#ask(file, { m: "method", of, method, args, child }, `${of}.${method}`),
    ]);
    // The table has all their names, and both sides belong to this program.
    return Object.fromEntries(methods) as RemoteMethods[O];
  }

  async #ask<M extends ServiceCall["m"]>(
    file: number,
    call: Extract<ServiceCall, { m: M }>,
    what: string,
  ): Promise<Answer<ServiceAnswers, M>> {
    if (this.#calls.size >= MAX_CALLS) {
      const text = `${MAX_CALLS} service calls are open. Wait for some of them first.`;
      throw new SyscallError("EXHAUSTED", text);
    }
    const { id, answer } = this.#calls.begin<M>();
    try {
      this.#post({ t: "call", id, file, call });
    } catch (cause) {
      // A function or a class instance in a request can't cross.
      const message = `${what}: only data can be passed to a service.`;
      this.#calls.fail(id, new SyscallError("INVALID", message, { cause }));
    }
    return answer;
  }
}

/** The limit of change messages per second and mount. Faster changes are combined. */
const CHANGES_PER_SECOND = 5;

interface ProgramMount {
  mounted: Mounted;
  devices: Record<string, Device>;
  /** The timer of a change message. */
  pendingChange: ReturnType<typeof setTimeout> | undefined;
}

/** Runs in the process: the open mounts of the plugin, by the kernel's numbers. */
export class ProgramMounts {
  readonly #mounts = new Map<number, ProgramMount>();
  readonly #post: (message: ToHost) => void;

  constructor(post: (message: ToHost) => void) {
    this.#post = post;
  }

  /** Returns a sketch of the mount, which the kernel's side checks. */
  add(mount: number, mounted: Mounted): unknown {
    const held: ProgramMount = { mounted, devices: mounted?.devices, pendingChange: undefined };
    this.#mounts.set(mount, held);
    mounted?.onChange?.((devices) => {
      if (this.#mounts.get(mount) !== held) return;
      held.devices = devices;
      held.pendingChange ??= setTimeout(() => {
        held.pendingChange = undefined;
        this.#post({ t: "changed", mount, sketch: sketchOf(held.mounted, held.devices) });
      }, 1_000 / CHANGES_PER_SECOND);
    });
    mounted?.onEnd?.((why) => {
      if (this.#mounts.get(mount) === held) this.#post({ t: "ended", mount, error: toWire(why) });
    });
    return sketchOf(mounted, held.devices);
  }

  device(mount: number, place: string): Device {
    const found = this.#mounts.get(mount)?.devices[place];
    if (!found)
      throw new SyscallError("NOT_FOUND", `The mount has no ${place === "" ? "root" : place} any more.`);
    return found;
  }

  async end(mount: number): Promise<void> {
    const held = this.#mounts.get(mount);
    this.#mounts.delete(mount);
    clearTimeout(held?.pendingChange);
    await held?.mounted.unmount();
  }
}

function sketchOf(mounted: Mounted, devices: Record<string, Device>): unknown {
  const { onChange, onEnd, unmount } = Object(mounted);
  return sketch({ devices, onChange, onEnd, unmount: unmount === undefined ? undefined : unmount });
}

/** The limit of texts per second from one process to the kernel's thread. */
const PER_SECOND = 200;

/** Limits a function to 200 texts per second. The rest is counted and dropped. */
export function limited(pass: (text: string) => void): (text: string) => void {
  let from = 0;
  let count = 0;
  return (text) => {
    const now = performance.now();
    if (now - from >= 1_000) {
      if (count > PER_SECOND) pass(`(${count - PER_SECOND} more were dropped)`);
      from = now;
      count = 0;
    }
    if (++count <= PER_SECOND) pass(text);
  };
}

const EVERY_MS = 50;
/** Characters of one message: the newest. */
const MAX_CHARS = 8 * 1024;

/** The returned function collects texts; `pass` gets them together, with the number of lines left out before them. */
function coalesced(pass: (text: string, skipped: number) => void): (text: string, skipped?: number) => void {
  const tail = new TextTail(MAX_CHARS);
  let lines = 0;
  let isWaiting = false;
  const flush = (): void => {
    isWaiting = false;
    const text = tail.take();
    pass(text, lines - countLines(text));
    lines = 0;
  };
  return (text, skipped = 0) => {
    tail.add(text);
    lines += skipped + countLines(text);
    if (isWaiting) return;
    isWaiting = true;
    setTimeout(flush, EVERY_MS).unref();
  };
}
