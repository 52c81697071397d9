import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { ModelServer } from "../support/model-server/server.ts";
import { ANTHROPIC_KEY, GOOGLE_KEY, Machine, OPENAI_KEY } from "./support/machine.ts";
import { bash, type Scene, says } from "./support/scenes.ts";
import { verdict } from "./support/verdict.ts";

/** Far above what a whole answer takes here, and the most that a fault may. */
const DEADLINES = { model_timeout: "20s", model_idle_timeout: "4s", model_retries: 1 };
const IDLE_MS = 4_000;

interface Fault {
  scenes: Scene[];
  /** The run's end; by default `llm_error`. */
  reason?: string;
  error?: string;
  /** What the command prints: the cause, and what to do about it. */
  says?: (string | RegExp)[];
  result?: string;
  /** A part of the answer had come: it is recorded and marked as partial. */
  partial?: true;
  /** How often the model was asked: 1 for what no retry can mend. */
  requests: number;
  minMs?: number;
}

const OK = says("all is well");
const COMPLETED = { reason: "completed", result: "all is well", requests: 2 };
const status = (code: number, headers?: Record<string, string>, message?: string): Scene => ({
  fault: { kind: "status", status: code, headers, message },
});

const FAULTS: Record<string, Fault> = {
  "a wrong key": {
    scenes: [status(401, {}, "Incorrect API key provided")],
    error: "PERMISSION",
    says: ["401", /(OPENAI|ANTHROPIC|GEMINI)_API_KEY/],
    requests: 1,
  },
  "a model that is not there": {
    scenes: [status(404, {}, "The model m does not exist")],
    error: "NOT_FOUND",
    says: ['"m"'],
    requests: 1,
  },
  "a server that answers nothing": {
    scenes: [{ fault: { kind: "hang" } }],
    error: "TIMEOUT",
    says: ["4 s", "idle"],
    requests: 1,
    minMs: IDLE_MS,
  },
  "a server that falls silent in the middle of its answer": {
    scenes: [{ text: "It begins, and then", chunks: 6, fault: { kind: "hang_midway" } }],
    error: "TIMEOUT",
    says: ["4 s", "idle"],
    partial: true,
    requests: 1,
    minMs: IDLE_MS,
  },
  "an answer that is cut off": {
    scenes: [{ text: "It begins, and then", chunks: 6, fault: { kind: "cut" } }],
    error: "UNAVAILABLE",
    says: ["broke off", "try again later"],
    requests: 2,
  },
  "an answer that is cut off once": {
    scenes: [{ text: "It begins, and then", chunks: 6, fault: { kind: "cut" } }, OK],
    ...COMPLETED,
  },
  "an answer with tool calls that is cut off: nothing of it is acted on": {
    scenes: [{ ...bash("touch acted"), fault: { kind: "cut" } }, OK],
    ...COMPLETED,
  },
  "an answer that ends too early": {
    scenes: [{ text: "It begins, and then", chunks: 6, fault: { kind: "end_early" } }],
    error: "UNAVAILABLE",
    says: ["broke off", "try again later"],
    requests: 2,
  },
  "an answer that is garbage": {
    scenes: [{ fault: { kind: "garbage" } }],
    says: [/(OPENAI|ANTHROPIC|GEMINI)_BASE_URL|broke off/],
    requests: 2,
  },
  "a web page in place of an answer": {
    scenes: [{ fault: { kind: "web_page" } }],
    error: "DRIVER",
    says: ["web page", /(OPENAI|ANTHROPIC|GEMINI)_BASE_URL/],
    requests: 1,
  },
  "an error in place of an answer, with status 200": {
    scenes: [{ fault: { kind: "error_body", code: "overloaded_error", message: "too much to do" } }, OK],
    ...COMPLETED,
  },
  "an error in the middle of an answer": {
    scenes: [{ text: "It begins", fault: { kind: "error_event", code: "api_error", message: "lost it" } }],
    says: ["lost it"],
    requests: 2,
  },
  "429 with Retry-After: waited for, then asked again": {
    scenes: [status(429, { "retry-after": "1" }), OK],
    ...COMPLETED,
    minMs: 1_000,
  },
  "429 again and again": {
    scenes: [status(429, { "retry-after": "0" }, "slow down")],
    error: "EXHAUSTED",
    says: ["429", "slow down", "try again later"],
    requests: 2,
  },
  "500 once": { scenes: [status(500), OK], ...COMPLETED },
  "503 again and again": {
    scenes: [status(503, {}, "in repair")],
    error: "UNAVAILABLE",
    says: ["503", "in repair", "try again later"],
    requests: 2,
  },
  "529 once": { scenes: [status(529), OK], ...COMPLETED },
  "an empty answer": { scenes: [says("")], says: ["empty", "try again later"], requests: 2 },
  "an empty answer once": { scenes: [says(""), OK], ...COMPLETED },
  "an answer that is cut off at the model's own limit": {
    scenes: [{ text: "It begins, and", stop: "max_tokens" }],
    says: ["output limit", "max_output"],
    result: "It begins, and",
    partial: true,
    requests: 1,
  },
  "an answer that the model refuses to give": {
    scenes: [{ text: "I will not.", stop: "refusal" }],
    reason: "failed",
    says: ["declined"],
    result: "I will not.",
    partial: true,
    requests: 1,
  },
  "a conversation that is too long for the model": {
    scenes: [status(400, {}, "prompt is too long")],
    says: ["prompt is too long"],
    requests: 1,
  },
};

const PROVIDERS = ["openai", "anthropic", "google"];

describe("a fault of a model, in every protocol", () => {
  const machines = new Map<string, { machine: Machine; model: ModelServer }>();
  beforeAll(async () => {
    const book = Object.entries(FAULTS).map(([what, fault]) => [`try ${what}.`, fault.scenes]);
    for (const provider of PROVIDERS) {
      const machine = new Machine();
      machine.config(DEADLINES);
      machines.set(provider, { machine, model: await machine.play(Object.fromEntries(book)) });
    }
  });
  afterAll(async () => {
    for (const { machine } of machines.values()) await machine[Symbol.asyncDispose]();
  });

  for (const [what, fault] of Object.entries(FAULTS)) {
    // Side by side, each on its own machine: most of this is waiting.
    test(what, () =>
      Promise.all(PROVIDERS.map((provider) => holds(provider, what, fault))).then(() => undefined),
    );
  }

  async function holds(provider: string, what: string, fault: Fault): Promise<void> {
    const { machine, model } = machines.get(provider) ?? unknownProvider(provider);
    const before = model.requests.length;
    const args = [`try ${what}.`, "--provider", provider, "--model", "m"];
    const { receipt, stderr, ms } = await verdict(machine, args);
    const reason = fault.reason ?? "llm_error";
    const code = reason === "completed" ? 0 : 1;
    expect(receipt).toMatchObject({ provider, exit_reason: reason, exit_code: code });
    if (fault.error !== undefined) expect(receipt.error?.code).toBe(fault.error);
    for (const part of fault.says ?? []) {
      expect(receipt.error?.message).toMatch(part);
      expect(stderr).toMatch(part);
    }
    if (fault.result !== undefined) expect(receipt.result).toBe(fault.result);
    if (fault.partial) expect(receipt.partial).toBe(true);
    // What had come of an answer when it broke off depends on the network; that it is marked does not.
    expect(receipt.partial).toBe(code !== 0 && receipt.result !== null);
    expect(model.requests.length - before).toBe(fault.requests);
    if (fault.requests > 1) expect(stderr).toContain("retry in");
    expect(ms).toBeGreaterThanOrEqual(fault.minMs ?? 0);
    expect(ms).toBeLessThan(18_000);
    expect(machine.has("acted")).toBe(false);
    for (const key of [OPENAI_KEY, ANTHROPIC_KEY, GOOGLE_KEY]) expect(stderr).not.toContain(key);
    // A server whose request was cut off has seen the connection close.
    await Promise.all(model.requests.map(({ closed }) => closed));
  }
});

describe.concurrent("the model's server", () => {
  test("is down: the call is retried as documented, then fails with the address and what to check", async () => {
    await using machine = new Machine();
    const model = await machine.play({});
    await model.stop();
    for (const where of [[], ["--no-daemon"]]) {
      const { receipt, stderr } = await verdict(machine, ["do it", ...where]);
      expect(receipt).toMatchObject({
        exit_code: 1,
        exit_reason: "llm_error",
        error: { code: "UNAVAILABLE" },
      });
      expect(receipt.error?.message).toContain(model.openaiUrl);
      expect(receipt.error?.message).toContain("OPENAI_BASE_URL");
      expect(stderr.match(/retry in/g)).toHaveLength(2);
    }
  });

  test("asks for a longer wait than allowed: this run and later ones are suspended at once, until the same time", async () => {
    await using machine = new Machine();
    machine.config(DEADLINES);
    const model = await machine.play({ "do it": [status(429, { "retry-after": "3600" }, "slow down")] });
    const until: unknown[] = [];
    for (const _ of ["the first", "one that need not ask again"]) {
      const { receipt, stderr, ms } = await verdict(machine, ["do it"]);
      expect(receipt).toMatchObject({ exit_code: 75, exit_reason: "suspended", error: null });
      for (const part of ["429", "slow down", /3(600|5\d\d) s/, "another provider"]) {
        expect(receipt.suspended?.reason).toMatch(part);
        expect(stderr).toMatch(part);
      }
      until.push(receipt.suspended?.wake);
      expect(ms).toBeLessThan(15_000);
      expect(model.requests).toHaveLength(1);
    }
    expect(until[1]).toEqual(until[0]);
  });

  test("answers without end: the total deadline ends the call, with the text so far", async () => {
    await using machine = new Machine();
    machine.config({ model_timeout: "3s", model_idle_timeout: "3s" });
    const server = endless();
    const env = {
      OPENAI_BASE_URL: `http://127.0.0.1:${server.port}/v1`,
      OPENAI_API_KEY,
      RNIX_PROVIDER: "openai",
    };
    try {
      const { receipt, ms } = await verdict(machine, ["do it", "--model", "m"], { env });
      expect(receipt).toMatchObject({ exit_reason: "llm_error", partial: true, error: { code: "TIMEOUT" } });
      expect(receipt.error?.message).toContain("total");
      expect(receipt.result).toStartWith("on and on ");
      expect(ms).toBeLessThan(15_000);
    } finally {
      await server.stop(true);
    }
  });
});

const OPENAI_API_KEY = OPENAI_KEY;

/** A model that repeats the same words without end. */
function endless(): Bun.Server<undefined> {
  const chunk = { choices: [{ index: 0, delta: { content: "on and on " }, finish_reason: null }] };
  return Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    fetch: () =>
      new Response(
        new ReadableStream({
          async pull(controller) {
            // The pace of a model, not a wait of the test: without it the answer would be too large at its deadline.
            await Bun.sleep(20);
            controller.enqueue(`data: ${JSON.stringify(chunk)}\n\n`);
          },
        }),
        { headers: { "content-type": "text/event-stream" } },
      ),
  });
}

function unknownProvider(name: string): never {
  throw new Error(`no machine was made for ${name}`);
}
