import { describe, expect, test } from "bun:test";
import type { Turn } from "../support/model-server/script.ts";
import { until } from "../support/until.ts";
import { writeKeys } from "./support/keys-file.ts";
import { Machine } from "./support/machine.ts";
import { bash, says } from "./support/scenes.ts";
import { Receipt, recordOf, verdict } from "./support/verdict.ts";

/** The last request that its window has: the next one is for the time after it. */
function lastOne(turn: Turn, seconds: number): Turn {
  return {
    ...turn,
    headers: {
      "x-ratelimit-limit-requests": "50",
      "x-ratelimit-remaining-requests": "0",
      "x-ratelimit-reset-requests": `${seconds}s`,
    },
  };
}

describe.concurrent("a provider whose headers say that no quota is left", () => {
  const look = bash("echo looked");

  test("is not called before its window renews: all runs with this key wait", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      first: [lastOne(look, 6), says("first is done")],
      second: [says("second is done")],
    });
    const first = machine.run(["spawn", "first"]);
    await model.arrived(1);
    // The headers count once the daemon has read them.
    await machine.until(["providers"], /on hold for/);
    const second = await machine.run(["spawn", "second"]);
    expect(second).toMatchObject({ code: 0, stdout: "second is done\n" });
    expect(await first).toMatchObject({ code: 0, stdout: "first is done\n" });
    const [one, ...later] = model.requests;
    expect(later).toHaveLength(2);
    for (const request of later) expect(request.at - (one?.at ?? 0)).toBeGreaterThan(5_900);
  });

  test("is shown as on hold by rnix providers, with the waiting runs", async () => {
    await using machine = new Machine();
    // However slow the command is: the test does not wait for the run's end.
    machine.config({ model_wait: "1h", model_timeout: "1h" });
    await machine.play({ first: [lastOne(look, 900)] });
    const first = machine.start(["spawn", "first"]);
    await machine.until(["providers"], /\nopenai: 0\/16 running, 1 waiting\n {2}m on hold for [89]\d\d s\n/);
    const json = await machine.json(["providers", "--json"]);
    const openai = json.find(({ name }: { name: string }) => name === "openai");
    expect(openai.queues).toMatchObject([{ holds: [{ model: "m" }], waiting: 1 }]);
    await machine.ok(["kill", "1"]);
    expect((await first.done).code).toBe(143);
  });

  test("for longer than a run may wait: it is suspended without another request, and resumes by itself, also in the next daemon", async () => {
    await using machine = new Machine();
    machine.config({ model_wait: "1s" });
    const model = await machine.play({ "do it": [lastOne(look, 6), says("went on")] });
    writeKeys(machine);
    const { stdout, code } = await machine.run(["spawn", "do it", "--output", "json"]);
    expect(code).toBe(75);
    const { uuid, suspended } = Receipt.parse(JSON.parse(stdout));
    expect(suspended).toMatchObject({ by_itself: true, wake: { on: "at" } });
    expect(suspended?.reason).toContain("all 50 requests of its rate limit are used up");
    expect(model.requests).toHaveLength(1);
    machine.killDaemon();
    await machine.ok(["daemon", "start"]);
    await until(() => recordOf(machine, uuid).exit_code === 0);
    expect(recordOf(machine, uuid)).toMatchObject({ result: "went on", tool_calls: 1 });
    expect(model.requests).toHaveLength(2);
    const [one, two] = model.requests;
    expect((two?.at ?? 0) - (one?.at ?? 0)).toBeGreaterThan(5_900);
  });
});

/** A time zone where midnight, when counting starts again, is far away. */
function noon(): string {
  const east = 12 - new Date().getUTCHours();
  return `Etc/GMT${east > 0 ? "-" : "+"}${Math.abs(east)}`;
}

describe("tokens_per_day", () => {
  const usage = { input_tokens: 40_000, output_tokens: 1_000 };
  const used = { text: "done", usage };

  test("counts runs of the daemon, of a killed daemon and of --no-daemon; then a run ends with exit 2", async () => {
    await using machine = new Machine();
    machine.env.TZ = noon();
    machine.write(".rnix/config.yaml", "tokens_per_day: 150000\n");
    const model = await machine.play({ "do it": [used] });
    await machine.ok(["spawn", "do it"]);
    machine.killDaemon();
    await machine.ok(["spawn", "do it", "--no-daemon"]);
    await machine.ok(["spawn", "do it"]);
    // What is left has room for an input and a short answer: it is asked with this room, and uses more.
    const { receipt: fourth } = await verdict(machine, ["do it"]);
    expect(fourth.exit_code).toBe(0);
    for (const more of [[], ["--no-daemon"]]) {
      const { receipt, stderr } = await verdict(machine, ["do it", ...more]);
      expect(receipt).toMatchObject({ exit_code: 2, exit_reason: "budget_exceeded", tokens_used: 0 });
      expect(stderr).toMatch(/164000 of 150000 tokens are used.*midnight.*tokens_per_day/s);
    }
    expect(model.requests).toHaveLength(4);
    // A higher limit in the file counts at once.
    machine.write(".rnix/config.yaml", "tokens_per_day: unlimited\n");
    await machine.ok(["spawn", "do it"]);
  });

  test("cost_per_day needs a known price before the first call", async () => {
    await using machine = new Machine();
    machine.write(".rnix/config.yaml", "cost_per_day: 1.50\n");
    const model = await machine.play({ "do it": [used] });
    const { code, stderr } = await machine.run(["spawn", "do it"]);
    expect(code).toBe(64);
    expect(stderr).toContain("cost_per_day");
    expect(stderr).toContain("providers.yaml");
    expect(model.requests).toEqual([]);
  });
});
