import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { ProviderChoice } from "../../../src/kernel/types.ts";
import {
  type Code,
  type Device,
  type LLMEvent,
  type LLMRequest,
  SyscallError,
  type SyscallErrorDetail,
} from "../../../src/plugin/index.ts";
import { calls, KernelHarness, says, toolDevice, usage } from "../../support/kernel.ts";
import { seeded } from "../../support/seeded.ts";

type Answers = (request: LLMRequest, key: string) => LLMEvent[];

const asked: string[] = [];

/** A model device that asks for its key with each request, as ours do. */
function modelDevice(name: string, answers: Answers): Device {
  return {
    factory: (_subpath, _flags, context) => {
      let events: LLMEvent[] = [];
      return {
        async write(data) {
          const request: LLMRequest = JSON.parse(String(data));
          const key = (await context.secret?.()) ?? "";
          asked.push(`${name}/${request.model} ${JSON.stringify(context.config)}`);
          events = answers(request, key);
        },
        async read() {
          const event = events.shift();
          return event ? JSON.stringify(event) : "";
        },
        async close() {},
        async stat() {
          return { name, size: 0, isDevice: true, devicePath: `/dev/llm/${name}` };
        },
      };
    },
  };
}

function provider(name: string, model: string, more: Partial<ProviderChoice> = {}): ProviderChoice {
  return {
    name,
    device: `/dev/llm/${name}`,
    model,
    config: { base_url: `http://${name}` },
    gateKey: name,
    because: "test",
    secret: async () => `key-of-${name}`,
    ...more,
  };
}

function fails(code: Code, detail: SyscallErrorDetail = {}): Answers {
  return () => {
    throw new SyscallError(code, `${code} it is`, { retryable: false, ...detail });
  };
}

function harness(one: Answers, two: Answers = () => says("from two"), more: Record<string, Device> = {}) {
  asked.length = 0;
  return new KernelHarness({
    model: () => says("never asked"),
    devices: { "/dev/llm/one": modelDevice("one", one), "/dev/llm/two": modelDevice("two", two), ...more },
    needs: { "/dev/llm/one": ["secret"], "/dev/llm/two": ["secret"] },
  });
}

const TWO = provider("two", "b");
const ONE = provider("one", "a", { fallbacks: [TWO] });

describe("a model that fails for good is replaced by the next one", () => {
  test.each<[string, Code, SyscallErrorDetail]>([
    ["is unknown", "NOT_FOUND", {}],
    ["is down after all retries", "UNAVAILABLE", { retryable: true }],
    ["cannot be trusted with its certificate", "UNAVAILABLE", {}],
    ["is overloaded after all retries", "EXHAUSTED", { retryable: true }],
    ["has used up its quota", "EXHAUSTED", { retryable: true, retryAfterMs: 3_600_000 }],
    ["has no credit", "EXHAUSTED", {}],
    ["answers nothing that can be used", "DRIVER", { retryable: true }],
    ["is silent", "TIMEOUT", {}],
  ])("after it %s (%s)", async (_, code, detail) => {
    await using h = harness(fails(code, detail));
    const { info, events } = await h.run("go", { provider: ONE });
    expect(info).toMatchObject({ result: "from two", exit_code: 0, provider: "two", model: "b", steps: 1 });
    expect(info.switches).toMatchObject([
      {
        step: 1,
        from: { provider: "one", model: "a" },
        to: { provider: "two", model: "b" },
        error: { code },
      },
    ]);
    expect(info.fallback).toEqual([]);
    expect(info.steps_used).toBe(1);
    const logged = events.flatMap((event) => (event.event === "log" ? [event.entry] : []));
    expect(logged[0]).toMatchObject({ kind: "model", step: 1 });
    expect(logged[0]?.text).toStartWith(`one/a failed (${code}: ${code} it is`);
    expect(logged[0]?.text).toEndWith("; the run continues with two/b");
    const { records } = await h.runs.steps(info.uuid);
    expect(records).toMatchObject([{ step: 1, switches: [{ to: { model: "b" } }] }]);
    expect(asked).toEqual(['one/a {"base_url":"http://one"}', 'two/b {"base_url":"http://two"}']);
  });

  test.each<[string, Code, SyscallErrorDetail]>([
    ["refuses the key", "PERMISSION", {}],
    ["refuses the request", "INVALID", {}],
    ["refuses to answer", "DRIVER", {}],
  ])("but not after it %s (%s)", async (_, code, detail) => {
    await using h = harness(fails(code, detail));
    const { info } = await h.run("go", { provider: ONE });
    expect(info).toMatchObject({ exit_code: 1, exit_reason: "llm_error", provider: "one", switches: [] });
    expect(asked).toHaveLength(1);
  });

  test("another model of the same provider is called over the same file", async () => {
    await using h = harness((request) => {
      if (request.model === "a") throw new SyscallError("NOT_FOUND", "no such model", { retryable: false });
      return says(`from ${request.model}`);
    });
    const { info } = await h.run("go", {
      provider: provider("one", "a", { fallbacks: [provider("one", "c")] }),
    });
    expect(info).toMatchObject({ result: "from c", provider: "one", model: "c" });
    const events = await h.runs.events(info.uuid, { after: 0, limit: 100 });
    const opened = events.records.filter(({ syscall, args }) => syscall === "Open" && "path" in args);
    expect(opened).toHaveLength(1);
  });
});

describe("a model whose plugin has ended", () => {
  /** Its file answers `ends` requests with CLOSED; each open counts. */
  function mortal(ends: number) {
    const counts = { opened: 0 };
    const live = modelDevice("one", () => {
      if (ends-- > 0) throw new SyscallError("CLOSED", "Plugin one was ended.");
      return says("up again");
    });
    const device: Device = {
      ...live,
      factory: (...args) => {
        counts.opened++;
        return live.factory(...args);
      },
    };
    return { device, counts };
  }

  test("is opened again, and the run continues", async () => {
    const { device, counts } = mortal(1);
    await using h = harness(fails("INTERNAL"), undefined, { "/dev/llm/one": device });
    const { info } = await h.run("go", { provider: provider("one", "a") });
    expect(info).toMatchObject({ result: "up again", exit_code: 0, steps: 1, switches: [] });
    expect(counts.opened).toBe(2);
  });

  test("that ends again at once is replaced by the next one, or the run ends", async () => {
    const first = mortal(9);
    await using h = harness(fails("INTERNAL"), undefined, { "/dev/llm/one": first.device });
    expect((await h.run("go", { provider: ONE })).info).toMatchObject({ result: "from two" });
    expect(first.counts.opened).toBe(2);
    const { info } = await h.run("go", { provider: provider("one", "a") });
    expect(info).toMatchObject({ exit_reason: "llm_error", error: { code: "CLOSED" } });
  });
});

test("the run stays with its new model", async () => {
  let turns = 0;
  await using h = harness(fails("NOT_FOUND"), () => (turns++ === 0 ? calls(["Echo", {}]) : says("done")), {
    "/dev/echo": toolDevice("Echo", () => "echo"),
  });
  const { info } = await h.run("go", { provider: ONE });
  expect(info).toMatchObject({ result: "done", steps: 2 });
  expect(info.switches).toHaveLength(1);
  expect(asked.map((line) => line.split(" ")[0])).toEqual(["one/a", "two/b", "two/b"]);
});

test("fallbacks are tried in order; one that cannot be opened is skipped, and the last failure is the run's", async () => {
  await using h = harness(fails("NOT_FOUND"), fails("UNAVAILABLE"));
  const gone = provider("gone", "c");
  const { info } = await h.run("go", { provider: { ...ONE, fallbacks: [gone, TWO] } });
  expect(info).toMatchObject({ exit_reason: "llm_error", provider: "two", error: { code: "UNAVAILABLE" } });
  expect(info.switches.map(({ to }) => to.provider)).toEqual(["gone", "two"]);
});

test("the end of a quota is waited for when no fallback remains", async () => {
  await using h = harness(
    fails("NOT_FOUND"),
    fails("EXHAUSTED", { retryable: true, retryAfterMs: 3_600_000 }),
  );
  const { info } = await h.run("go", { provider: ONE });
  expect(info).toMatchObject({ exit_reason: "suspended", provider: "two", model: "b" });
  expect(info.suspended?.wake.on).toBe("at");
});

test("an effort that the next one has no setting for is left out, and that is logged", async () => {
  const efforts: unknown[] = [];
  await using h = harness(fails("NOT_FOUND"), (request) => {
    efforts.push(request.effort);
    return says("from two");
  });
  const { info, events } = await h.run("go", { provider: ONE, effort: "high" });
  expect(info).toMatchObject({ result: "from two", switches: [{ to: { provider: "two" } }] });
  expect(efforts).toEqual([undefined]);
  const notices = events.flatMap((event) => (event.event === "notice" ? [event.text] : []));
  expect(notices.join()).toContain("/dev/llm/two has no such setting");
});

describe("the cost after a switch", () => {
  const price = (output: number) => ({ input: 0, output, cached: 0 });

  test("uses the price of the current model, and so does the budget", async () => {
    const rooms: (number | undefined)[] = [];
    await using h = harness(fails("NOT_FOUND"), ({ max_output }) => {
      rooms.push(max_output);
      return says("done");
    });
    const two = provider("two", "b", { price: price(1_000_000), maxOutput: 8 });
    const one = provider("one", "a", { price: price(1), fallbacks: [two] });
    const { info } = await h.run("go", { provider: one, max_cost: 1000 });
    expect(rooms).toEqual([8]);
    expect(info.cost_usd).toBe(usage.output_tokens);
  });

  test("is unknown when the current model's price is unknown", async () => {
    await using h = harness(fails("NOT_FOUND"));
    for (const one of [provider("one", "a", { price: price(1), fallbacks: [TWO] }), ONE]) {
      const { info } = await h.run("go", { provider: one });
      expect(info).toMatchObject({ result: "from two", cost_usd: null });
    }
  });

  test("skips a model without a price where there is a cost limit, and logs that", async () => {
    await using h = harness(fails("NOT_FOUND"));
    const one = provider("one", "a", { price: price(1), fallbacks: [TWO] });
    const { info, events } = await h.run("go", { provider: one, max_cost: 1000 });
    expect(info).toMatchObject({ exit_reason: "llm_error", provider: "one" });
    const notices = events.flatMap((event) => (event.event === "notice" ? [event.text] : []));
    expect(notices.join()).toContain("two/b is left out: the run has a cost limit");
  });

  test("does not include a second step", async () => {
    await using h = harness(fails("NOT_FOUND"));
    const { info } = await h.run("go", { provider: ONE, max_steps: 1 });
    expect(info).toMatchObject({ exit_code: 0, steps: 1, steps_used: 1 });
  });
});

describe("a key that is refused", () => {
  const refuses =
    (good: string): Answers =>
    (_request, key) => {
      if (key !== good)
        throw new SyscallError("PERMISSION", `the key ${key} is refused`, { retryable: false });
      return says("let in");
    };
  const rotating = (keys: string[]): ProviderChoice => {
    let at = 0;
    return provider("one", "a", {
      secret: async () => keys[at] ?? "",
      renewSecret: async (refused) => {
        if (refused === keys[at]) at = Math.min(at + 1, keys.length - 1);
        return keys[at] !== refused;
      },
    });
  };

  test("is fetched again once, and the same step continues", async () => {
    await using h = harness(refuses("second-long-key"));
    const { info } = await h.run("go", { provider: rotating(["first-long-key", "second-long-key"]) });
    expect(info).toMatchObject({ result: "let in", steps: 1, steps_used: 1, switches: [] });
  });

  test("that is refused twice in a row ends the run", async () => {
    await using h = harness(refuses("third-long-key"));
    const keys = ["first-long-key", "second-long-key", "third-long-key"];
    const { info } = await h.run("go", { provider: rotating(keys) });
    expect(info).toMatchObject({ exit_reason: "llm_error", error: { code: "PERMISSION" } });
    expect(asked).toHaveLength(2);
  });

  test("that is fetched again unchanged ends the run at once", async () => {
    await using h = harness(refuses("other-long-key"));
    const { info } = await h.run("go", { provider: rotating(["first-long-key"]) });
    expect(info).toMatchObject({ exit_reason: "llm_error" });
    expect(asked).toHaveLength(1);
  });

  test("whose command fails ends the run with the refusal, and names the command's failure", async () => {
    await using h = harness(refuses("other-long-key"));
    const renewSecret = () => Promise.reject(new SyscallError("UNAVAILABLE", "the vault is locked"));
    const { info, events } = await h.run("go", {
      provider: { ...rotating(["first-long-key"]), renewSecret },
    });
    expect(info).toMatchObject({ exit_reason: "llm_error", error: { code: "PERMISSION" }, steps_used: 1 });
    expect(events).toContainEqual({ event: "notice", text: "the vault is locked" });
  });

  test("does not delay the kill of a run", async () => {
    await using h = harness(refuses("other-long-key"));
    const asked = Promise.withResolvers<void>();
    const renewSecret = () => {
      asked.resolve();
      return new Promise<boolean>(() => undefined);
    };
    const pid = await h.spawn("go", { provider: { ...rotating(["first-long-key"]), renewSecret } });
    await asked.promise;
    const ended = h.follow(pid);
    await h.kernel.processes.kill(pid, 2);
    expect((await ended).info).toMatchObject({ exit_code: 137, steps_used: 1 });
  });

  test("is in no error, event or record, also where a driver writes it there", async () => {
    await using h = harness(refuses("other-long-key"), (_request, key) => [
      { type: "text_delta", text: `I have seen ${key}` },
      { type: "error", code: "INVALID", message: `bad key ${key}`, retryable: false },
    ]);
    for (const choice of [
      rotating(["first-long-key"]),
      provider("two", "b", { secret: async () => "first-long-key" }),
    ]) {
      const { info, events } = await h.run("go", { provider: choice });
      expect(info.exit_reason).toBe("llm_error");
      expect(info.error?.message).toContain("[key]");
      expect(JSON.stringify([info, events])).not.toContain("first-long-key");
      for (const file of ["proc-info.json", "events.jsonl"]) {
        const text = readFileSync(join(h.dataDir, "steps", info.uuid, file), "utf8");
        expect(text).not.toContain("first-long-key");
      }
    }
  });
});

test("a child gets the model that its parent uses now, and the parent's remaining fallbacks", async () => {
  await using h = harness(fails("NOT_FOUND"), () => says("done"));
  const third = provider("one", "z");
  const pid = await h.spawn("go", { provider: { ...ONE, fallbacks: [TWO, third] } });
  const handed: (string | undefined)[] = [];
  for await (const event of h.kernel.attach(pid)) {
    if (event.event !== "log" || event.entry.kind !== "model") continue;
    const { provider: choice } = h.kernel.processes.inherited(pid);
    handed.push(choice?.name, ...(choice?.fallbacks ?? []).map(({ model }) => model));
  }
  expect(handed).toEqual(["two", "z"]);
});

/**
 * Runs with three models of two providers each, of which every call may fail, be refused its key, or be cut off by a
 * kill or a suspension, which is resumed. Whatever comes first: the chain of switches leads from the first model
 * to the one it ended with, nothing of it is lost or asked twice, and no file or budget is left behind.
 */
describe("whatever call fails or is cut off", () => {
  test.each(Array.from({ length: 20 }, (_, seed) => seed))("seed %i", async (seed) => {
    const random = seeded(seed);
    const codes = ["NOT_FOUND", "UNAVAILABLE", "EXHAUSTED", "TIMEOUT", "PERMISSION", "INVALID"] as const;
    const answers: Answers = (request) => {
      const chance = random();
      const code = codes[Math.floor(random() * codes.length)] ?? "NOT_FOUND";
      if (chance < 0.45) throw new SyscallError(code, code, { retryable: false });
      if (chance < 0.75 && request.messages.length < 12) return calls(["Echo", {}]);
      return says("done");
    };
    await using h = harness(answers, answers, { "/dev/echo": toolDevice("Echo", () => "echo") });
    const chain = ["one/a", "two/b", "one/c", "two/d"];
    const choices = (rest: string[]): ProviderChoice => {
      const [first = "", ...fallbacks] = rest;
      const [name = "", model = ""] = first.split("/");
      return provider(name, model, {
        fallbacks: fallbacks.map((one) => choices([one])),
        renewSecret: async () => random() < 0.5,
      });
    };
    const one = async (): Promise<void> => {
      let pid = await h.spawn("go", { provider: choices(chain), context_budget: 1_000_000 });
      for (;;) {
        const ended = h.follow(pid);
        for (let turns = Math.floor(random() * 40); turns > 0; turns--) await new Promise(setImmediate);
        const cut = random();
        if (cut < 0.3) await h.kernel.lifecycle.suspend(pid).catch(hasEnded);
        else if (cut < 0.4) await (async () => h.kernel.processes.kill(pid, 2))().catch(hasEnded);
        const { info } = await ended;
        const passed = ["one/a", ...info.switches.map(({ to }) => `${to.provider}/${to.model}`)];
        expect(passed).toEqual(chain.slice(0, passed.length));
        expect(`${info.provider}/${info.model}`).toBe(passed.at(-1) ?? "");
        const left = info.fallback.map((to) => `${to.provider}/${to.model}`);
        expect([...passed, ...left]).toEqual(chain);
        // One that was cut off while it was asked has cost a step, and is asked again.
        expect(info.steps_used).toBeGreaterThanOrEqual(info.steps);
        if (info.state !== "suspended") return;
        const opts = h.opts({ provider: choices([passed.at(-1) ?? "", ...left]) });
        ({ pid } = await h.kernel.lifecycle.resume(info.uuid, null, opts));
      }
    };
    await Promise.all(Array.from({ length: 6 }, one));
  });

  function hasEnded(thrown: unknown): void {
    if (!(thrown instanceof SyscallError) || !["NOT_FOUND", "INVALID"].includes(thrown.code)) throw thrown;
  }
});
