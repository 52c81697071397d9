/** The context and services of a driver in a Worker. */

import {
  type Child,
  type ExecRequest,
  type ExitInfo,
  type OpenContext,
  type Services,
  SyscallError,
} from "../index.ts";
import { coalesced } from "./coalesced.ts";
import { limited } from "./limited.ts";
import { PendingCalls } from "./pending-calls.ts";
import {
  type Answer,
  type ContextEvent,
  fromWire,
  REMOTE_METHODS,
  type RemoteMethods,
  type RemoteOwner,
  SERVICES,
  type ServiceAnswers,
  type ServiceCall,
  type ToHost,
  type WireContext,
  type WireError,
} from "./wire.ts";

/** The limit of open service calls per Worker. */
const MAX_CALLS = 256;

/** Runs in the Worker: sends the calls of a driver's OpenContext to the kernel's thread. */
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

  /** The context of the open file `file`. */
  context(file: number, wire: WireContext): OpenContext {
    const { services, ...data } = wire;
    const emit = (event: ContextEvent) => this.#post({ t: "note", file, note: event });
    const progress = limited((text) => emit({ n: "progress", text }));
    const log = {
      debug: limited((text) => emit({ n: "log", level: "debug", text })),
      info: limited((text) => emit({ n: "log", level: "info", text })),
      warn: limited((text) => emit({ n: "log", level: "warn", text })),
    };
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
    let exit: Promise<ExitInfo> | undefined;
    return {
      ...methods,
      pid,
      reused,
      exited: () => {
        exit ??= methods.exited();
        return exit;
      },
    };
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
      throw new SyscallError(
        "EXHAUSTED",
        `${MAX_CALLS} service calls are open. Wait for some of them first.`,
      );
    }
    const { id, answer } = this.#calls.begin<M>();
    try {
      this.#post({ t: "call", id, file, call });
    } catch (cause) {
      // A function or a class instance in a request can't cross.
      this.#calls.fail(
        id,
        new SyscallError("INVALID", `${what}: only data can be passed to a service.`, { cause }),
      );
    }
    return answer;
  }
}
