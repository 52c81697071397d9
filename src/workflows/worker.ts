/** The program of a Worker that runs one workflow script, in a realm of QuickJS that has nothing but the globals of workflows. */

import variant from "@jitl/quickjs-singlefile-mjs-release-sync";
import {
  newQuickJSWASMModuleFromVariant,
  type QuickJSContext,
  type QuickJSHandle,
} from "quickjs-emscripten-core";
import type { ToScript } from "./messages.ts";

declare const self: Worker;

const MAX_MEMORY = 128 * 1024 ** 2;
const MAX_STACK = 512 * 1024;
/** How long the script may compute between two waits for agents. */
const MAX_BUSY_MS = 5_000;
/** What a script may send in all: each of these messages is work and memory of the daemon, also of a refused agent. */
const MAX_CALLS = 10_000;
const MAX_SENT = 64 * 1024 ** 2;
/** Jobs between two looks at the clock. */
const JOBS = 1_000;

class Realm {
  readonly #context: QuickJSContext;
  readonly #settle: QuickJSHandle;
  /** Agents that the script waits for. */
  #open = 0;
  #calls = 0;
  #sent = 0;
  #ended = false;
  #busyUntil = 0;

  constructor(context: QuickJSContext, { name, body, args, budget }: Extract<ToScript, { t: "run" }>) {
    this.#context = context;
    const { runtime, global } = context;
    runtime.setMemoryLimit(MAX_MEMORY);
    runtime.setMaxStackSize(MAX_STACK);
    runtime.setInterruptHandler(() => performance.now() > this.#busyUntil);
    this.#busyUntil = performance.now() + MAX_BUSY_MS;
    const send = context.newFunction("send", (json) => this.#post(context.getString(json)));
    context.setProp(global, "__send", send);
    context.unwrapResult(context.evalCode(PRELUDE, "rnix")).dispose();
    const begin = this.#take("__begin");
    this.#settle = this.#take("__settle");
    this.#guarded(() => {
      const main = context.unwrapResult(context.evalCode(`(async () => {${body}\n})`, name));
      const given = context.newString(JSON.stringify({ args: args ?? null, budget }));
      context.unwrapResult(context.callFunction(begin, context.undefined, given, main)).dispose();
    });
  }

  settle(message: ToScript): void {
    if (this.#ended) return;
    this.#open--;
    this.#guarded(() => {
      const json = this.#context.newString(JSON.stringify(message));
      this.#context
        .unwrapResult(this.#context.callFunction(this.#settle, this.#context.undefined, json))
        .dispose();
    });
  }

  /** Runs code of the realm, then all that follows from it. */
  #guarded(run: () => void): void {
    this.#busyUntil = performance.now() + MAX_BUSY_MS;
    try {
      run();
      for (;;) {
        const done = this.#context.runtime.executePendingJobs(JOBS);
        if (this.#context.unwrapResult(done) === 0) break;
        if (performance.now() > this.#busyUntil) throw new Error("interrupted");
      }
    } catch (thrown) {
      const text = thrown instanceof Error ? thrown.message : String(thrown);
      this.#fail(
        text,
        thrown instanceof Error && thrown.cause instanceof Object
          ? Reflect.get(thrown.cause, "stack")
          : undefined,
      );
    }
    if (this.#open === 0) this.#fail("the script waits for something that never comes");
  }

  #fail(message: string, stack?: unknown): void {
    if (this.#ended) return;
    this.#post(JSON.stringify({ t: "failed", message, ...(typeof stack === "string" && { stack }) }));
  }

  #post(json: string): void {
    if (this.#ended) return;
    this.#sent += json.length;
    const message: { t: string } = JSON.parse(json);
    if (message.t === "agent") this.#calls++;
    const excess =
      this.#sent > MAX_SENT
        ? `it sent more than ${MAX_SENT} characters`
        : this.#calls > MAX_CALLS
          ? `it called agent more than ${MAX_CALLS} times`
          : undefined;
    if (excess !== undefined) {
      this.#sent = this.#calls = 0;
      this.#fail(excess);
      return;
    }
    if (message.t === "agent") this.#open++;
    if (message.t === "done" && this.#open > 0)
      self.postMessage({
        t: "log",
        text: `${this.#open} agents that the script did not await have been ended`,
      });
    this.#ended = message.t === "done" || message.t === "failed";
    self.postMessage(message);
  }

  /** A function that the prelude leaves for the Worker; the script can't reach it. */
  #take(name: string): QuickJSHandle {
    const { global } = this.#context;
    const taken = this.#context.getProp(global, name);
    this.#context.unwrapResult(this.#context.evalCode(`delete globalThis.${name}`, "rnix")).dispose();
    return taken;
  }
}

const loaded = newQuickJSWASMModuleFromVariant(variant);
let realm: Realm | undefined;

self.onmessage = async ({ data }: MessageEvent<ToScript>) => {
  if (data.t === "run") realm = new Realm((await loaded).newContext(), data);
  else realm?.settle(data);
};

/**
 * Takes the one function that leads out of the realm, `__send`, and leaves one that leads in, `__settle`, to the Worker.
 * Everything crosses as JSON. What differs from run to run is not there: the same script asks for the same agents.
 */
const PRELUDE = `(() => {
  const send = globalThis.__send;
  delete globalThis.__send;
  const { stringify, parse } = JSON;
  const post = (message) => send(stringify(message));
  const open = new Map();
  const counts = new Map();
  let last = 0;
  let phaseName;
  let tokens = { total: null, spent: 0 };
  const sorted = (value) =>
    value === null || typeof value !== "object" ? value
    : Array.isArray(value) ? value.map(sorted)
    : Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
  const define = (name, value) => Object.defineProperty(globalThis, name, { value, enumerable: true });
  const text = (value, what) => {
    if (typeof value === "string" && value.trim() !== "") return value;
    throw new TypeError(what + ": expected a text, got " + (value === "" ? "an empty one" : typeof value));
  };
  const list = (value, what) => {
    if (Array.isArray(value)) return value;
    throw new TypeError(what + ": expected a list, got " + typeof value);
  };
  const absent = (name, instead) =>
    Object.defineProperty(globalThis, name, {
      get() { throw new Error("A workflow has no " + name + ": " + instead + "."); },
    });
  const messageOf = (error) => (error instanceof Error ? error.message : String(error));

  define("agent", async (prompt, options = {}) => {
    text(prompt, "agent");
    const { label, phase = phaseName, ...counted } = options;
    const content = stringify([prompt, sorted(counted)]);
    const occurrence = counts.get(content) ?? 0;
    counts.set(content, occurrence + 1);
    const id = ++last;
    const answer = new Promise((resolve, reject) => open.set(id, { resolve, reject }));
    post({ t: "agent", id, prompt, options: { ...counted, label }, phase, occurrence });
    return answer;
  });
  define("parallel", (all) => Promise.all(list(all, "parallel").map(async (one) => {
    try {
      return await (typeof one === "function" ? one() : one);
    } catch (error) {
      post({ t: "log", text: "parallel: " + messageOf(error) });
      return null;
    }
  })));
  define("pipeline", (items, ...stages) => Promise.all(list(items, "pipeline").map(async (item, index) => {
    let value = item;
    try {
      for (const stage of stages) value = await stage(value, item, index);
      return value;
    } catch (error) {
      post({ t: "log", text: "pipeline: item " + index + ": " + messageOf(error) });
      return null;
    }
  })));
  define("phase", (name) => {
    phaseName = text(name, "phase");
    post({ t: "phase", name: phaseName });
  });
  define("log", (value) => post({ t: "log", text: (typeof value === "string" ? value : stringify(value) ?? String(value)).slice(0, 2000) }));
  define("console", Object.freeze({ log: globalThis.log }));
  define("budget", Object.freeze({
    get total() { return tokens.total; },
    spent: () => tokens.spent,
    remaining: () => tokens.total === null ? Infinity : Math.max(0, tokens.total - tokens.spent),
  }));
  Math.random = () => { throw new Error("A workflow has no random numbers: a resume must find the same agents. Use an index, or give numbers by args."); };
  absent("Date", "a resume must find the same agents; give times by args");
  for (const name of ["setTimeout", "setInterval", "performance"]) absent(name, "it waits for agents only");
  for (const name of ["fetch", "require", "process", "Bun", "crypto"]) absent(name, "its agents do what needs files, programs or the network");

  globalThis.__settle = (json) => {
    const message = parse(json);
    tokens = message.budget;
    const { resolve, reject } = open.get(message.id);
    open.delete(message.id);
    if (message.t === "answer") return resolve(message.value);
    reject(Object.assign(new Error(message.message), { name: "AgentError", receipt: message.receipt }));
  };
  globalThis.__begin = (json, main) => {
    const { args, budget } = parse(json);
    tokens = budget;
    let isRead = false;
    Object.defineProperty(globalThis, "args", { get() { isRead = true; return args; }, enumerable: true });
    main().then(
      (value) => post({ t: "done", value: value ?? null }),
    ).catch((error) => {
      const lacks = isRead && args === null && error instanceof TypeError;
      const hint = lacks ? "; args is null, so --args JSON is probably missing" : "";
      post({ t: "failed", message: messageOf(error) + hint, stack: error?.stack });
    });
  };
})()`;
