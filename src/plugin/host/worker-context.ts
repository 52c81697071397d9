/** The context and services of a driver in a Worker. */

import {
  type Child,
  type ExitInfo,
  type OpenContext,
  type Schedule,
  type Store,
  SyscallError,
} from "../index.ts";
import { coalesced } from "./coalesced.ts";
import { limited } from "./limited.ts";
import { PendingCalls } from "./pending-calls.ts";
import {
  type Answer,
  type ContextEvent,
  fromWire,
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
    const context: OpenContext = {
      ...data,
      env: Object.freeze({ ...data.env }),
      progress,
      output: coalesced((text, skipped) => emit({ n: "output", text, skipped })),
      checklist: (items) => emit({ n: "checklist", items }),
      changing: (path) => this.#ask(file, { m: "changing", file: path }),
      changed: (path) => emit({ n: "changed", file: path }),
      log: (level, text) => log[level](text),
      spill: (name, bytes) => this.#ask(file, { m: "spill", name, data: bytes }),
      inbox: (text) => this.#ask(file, { m: "inbox", text }),
      access: (paths, also) => this.#ask(file, { m: "access", paths, also }),
    };
    if (services.includes("exec")) context.exec = (request) => this.#exec(file, request);
    if (services.includes("store")) context.store = this.#store(file);
    if (services.includes("secret")) context.secret = (name) => this.#ask(file, { m: "secret", name });
    if (services.includes("history")) {
      context.history = {
        runs: (query) => this.#ask(file, { m: "history.runs", query }),
        steps: (uuid, after, max) => this.#ask(file, { m: "history.steps", uuid, after, max }),
      };
    }
    if (services.includes("search")) {
      context.search = {
        sources: (scope, collection) => this.#ask(file, { m: "search.sources", scope, collection }),
        put: (scope, collection, source, version, documents) =>
          this.#ask(file, { m: "search.put", scope, collection, source, version, documents }),
        find: (query) => this.#ask(file, { m: "search.find", query }),
      };
    }
    if (services.includes("schedule")) context.schedule = this.#schedule(file);
    if (services.includes("ask"))
      context.ask = { ask: (questions) => this.#ask(file, { m: "ask", questions }) };
    if (services.includes("llm")) context.llm = { ask: (request) => this.#ask(file, { m: "llm", request }) };
    if (services.includes("tools")) {
      context.tools = {
        list: () => this.#ask(file, { m: "tools.list" }),
        call: (name, input) => this.#ask(file, { m: "tools.call", name, input }),
      };
    }
    return context;
  }

  async #exec(file: number, request: Parameters<NonNullable<OpenContext["exec"]>>[0]): Promise<Child> {
    const { child, pid, reused } = await this.#ask(file, { m: "exec", request });
    let exit: Promise<ExitInfo> | undefined;
    return {
      pid,
      reused,
      write: (data) => this.#ask(file, { m: "child.write", child, data }),
      end: () => this.#ask(file, { m: "child.end", child }),
      read: () => this.#ask(file, { m: "child.read", child }),
      exited: () => {
        exit ??= this.#ask(file, { m: "child.exited", child });
        return exit;
      },
      kill: () => this.#ask(file, { m: "child.kill", child }),
    };
  }

  #schedule(file: number): Schedule {
    const change = (what: "remove" | "enable" | "disable", name: string) =>
      this.#ask(file, { m: "schedule.change", what, name });
    return {
      add: (job) => this.#ask(file, { m: "schedule.add", job }),
      list: (query) => this.#ask(file, { m: "schedule.list", query }),
      remove: (name) => change("remove", name),
      enable: (name) => change("enable", name),
      disable: (name) => change("disable", name),
      run: (name) => this.#ask(file, { m: "schedule.run", name }),
      history: (query) => this.#ask(file, { m: "schedule.history", query }),
      next: (query) => this.#ask(file, { m: "schedule.next", query }),
    };
  }

  #store(file: number): Store {
    return {
      read: (scope, doc) => this.#ask(file, { m: "store.read", scope, doc }),
      replace: (scope, doc, text, ifVersion) =>
        this.#ask(file, { m: "store.replace", scope, doc, text, ifVersion }),
      append: (scope, log, line) => this.#ask(file, { m: "store.append", scope, log, line }),
      path: (scope, doc) => this.#ask(file, { m: "store.path", scope, doc }),
      lines: (scope, log, after, max) => this.#ask(file, { m: "store.lines", scope, log, after, max }),
    };
  }

  async #ask<M extends ServiceCall["m"]>(
    file: number,
    call: Extract<ServiceCall, { m: M }>,
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
        new SyscallError("INVALID", `${call.m}: only data can be passed to a service.`, { cause }),
      );
    }
    return answer;
  }
}
