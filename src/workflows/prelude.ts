/** The globals of a workflow script, as a program that runs in its realm before it. */

/**
 * Takes the one function that leads out of the realm, `__send`, and leaves one that leads in, `__settle`, to the Worker.
 * Everything crosses as JSON. What differs from run to run is not there: the same script asks for the same agents.
 */
export const PRELUDE = `(() => {
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
    define("args", args);
    main().then(
      (value) => post({ t: "done", value: value ?? null }),
    ).catch((error) => post({ t: "failed", message: messageOf(error), stack: error?.stack }));
  };
})()`;
