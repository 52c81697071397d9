import { describe, expect, test } from "bun:test";
import { isAlive } from "../../support/is-alive.ts";
import type { Turn } from "../../support/model-server/script.ts";
import type { ModelServer, RecordedRequest } from "../../support/model-server/server.ts";
import { until } from "../../support/until.ts";
import { Machine } from "../support/machine.ts";
import { type Book, calls, says } from "../support/scenes.ts";
import { recordOf, uuidOf, verdict } from "../support/verdict.ts";

const CHECK = "grep -q right answer.txt || { echo the answer is wrong; exit 4; }";
const writes = (content: string): Turn => calls(["Write", { path: "answer.txt", content }]);
const seen = (request: RecordedRequest | undefined): string => JSON.stringify(request?.body);

/** Its first answer is wrong, and its second too unless it was shown why. */
function learner(): Book {
  const second = (request: RecordedRequest): Turn =>
    writes(seen(request).includes("the answer is wrong") ? "right" : "still wrong");
  return { "answer it": [writes("wrong"), says("I think so"), second, says("now it is right")] };
}

async function killDaemon(machine: Machine): Promise<void> {
  const pid = machine.killDaemon();
  await until(() => !isAlive(pid), "the daemon's end");
}

describe("a check that fails", () => {
  for (const way of [[], ["--no-daemon"]]) {
    test(`is shown to the model, which fixes it ${way.join("") || "in the daemon"}`, async () => {
      await using machine = new Machine();
      const model = await machine.play(learner());
      const { receipt, stderr } = await verdict(machine, ["answer it", "--check", CHECK, ...way]);
      expect(receipt).toMatchObject({ exit_code: 0, result: "now it is right", steps: 4, partial: false });
      expect(receipt.checks).toMatchObject([
        { command: CHECK, exit_code: 4, output: "the answer is wrong\n" },
        { command: CHECK, exit_code: 0, attempt: 2 },
      ]);
      // Named in the first message, and shown when it failed.
      expect(seen(model.requests[0])).toContain("grep -q right answer.txt");
      expect(seen(model.requests[0])).not.toContain("the answer is wrong.");
      expect(seen(model.requests[2])).toContain("ended with 4");
      expect(stderr).toContain("the model is shown its output, and 2 attempts are left");
      expect(stderr).toMatch(/check grep .*: passed in attempt 2/);
      expect((await machine.run(["log", receipt.uuid])).stdout).toContain("the answer is wrong");
      expect((await machine.run(["show", receipt.uuid])).stdout).toContain("exit 0, attempt 2");
    });
  }

  test("in every attempt ends the run after three, or after --check-attempts", async () => {
    await using machine = await Machine.playing({ "claim it": [says("done")] });
    const three = await verdict(machine, ["claim it", "--check", "exit 5"]);
    expect(three.receipt).toMatchObject({ exit_code: 1, exit_reason: "check_failed", steps: 3 });
    expect(three.receipt.checks.map(({ attempt = 1 }) => attempt)).toEqual([1, 2, 3]);
    expect(three.receipt.error?.message).toContain("the check `exit 5` ended with 5 in attempt 3");
    const one = await verdict(machine, ["claim it", "--check", "exit 5", "--check-attempts", "1"]);
    expect(one.receipt.checks).toMatchObject([{ command: "exit 5", exit_code: 5, output: "" }]);
    machine.config({ check_attempts: 2 });
    expect((await verdict(machine, ["claim it", "--check", "exit 5"])).receipt.checks).toHaveLength(2);
    const wrong = await machine.run(["spawn", "claim it", "--check", "exit 5", "--check-attempts", "0"]);
    expect(wrong.code).toBe(64);
    expect(wrong.stderr).toContain("--check-attempts");
  });

  test("of an agent's own is named and shown too, up to the attempts of its agent.yaml", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "claim it": [says("done")] });
    const keys = "checks: ['echo no; exit 6']\ncheck_attempts: 2\n";
    machine.agent("maker", `name: maker\ndescription: Makes\n${keys}`, "Make it.\n");
    await machine.ok(["trust", "--yes"]);
    const { receipt } = await verdict(machine, ["claim it", "--agent", "maker"]);
    expect(receipt.checks).toHaveLength(2);
    expect(seen(model.requests[0])).toContain("echo no; exit 6");
  });

  test.each([
    [["--max-steps", "2"], 1, "max_steps"],
    [["--budget", "8000"], 2, "budget_exceeded"],
  ])("does not outlive %p", async (flags, code, reason) => {
    await using machine = new Machine();
    // Long enough that a few answers use up the budget.
    await machine.play({ "claim it": [says("done ".repeat(800))] });
    const args = ["claim it", "--check", "exit 5", "--check-attempts", "100", ...flags];
    const { receipt } = await verdict(machine, args);
    expect(receipt).toMatchObject({ exit_code: code, exit_reason: reason, partial: true });
    expect(receipt.error?.message).toContain("the check `exit 5` ended with 5");
    expect(receipt.checks).toHaveLength(receipt.steps);
  });
});

describe("kill -9", () => {
  /** The model and the run whose checks are interrupted. */
  async function begin(machine: Machine, check: string): Promise<{ model: ModelServer; uuid: string }> {
    const model = await machine.play({ "claim it": [says("one"), says("two"), says("three")] });
    const run = machine.start(["spawn", "claim it", "--check", check]);
    const uuid = await uuidOf(run);
    await machine.held();
    await killDaemon(machine);
    await run.done;
    return { model, uuid };
  }

  /** Fails with its number, and is at work in run `n` until it is ended. */
  const holding = (n: number): string =>
    `echo x >> runs; n=$(wc -l < runs); if [ "$n" = ${n} ]; then touch held; exec sleep 600; fi; echo "run $n"; false`;

  test.each([1, 2, 3])(
    "in attempt %i: the attempt is retried, and earlier attempts still count",
    async (attempt) => {
      await using machine = new Machine();
      const { model, uuid } = await begin(machine, holding(attempt));
      expect((await machine.run(["resume", uuid])).code).toBe(1);
      const { checks, exit_reason, steps } = recordOf(machine, uuid);
      expect({ exit_reason, steps }).toEqual({ exit_reason: "check_failed", steps: 3 });
      expect(checks.map((check) => check.attempt ?? 1)).toEqual([1, 2, 3]);
      // One more than the attempts: the interrupted one ran twice.
      expect(machine.read("runs")).toBe("x\n".repeat(4));
      // The answers before are not asked for again.
      expect(model.requests).toHaveLength(3);
      expect(machine.strays()).toEqual([]);
    },
  );

  test("between a failed attempt and the next answer: the model is shown the failure once", async () => {
    await using machine = new Machine();
    const gate = Promise.withResolvers<void>();
    const second = async (): Promise<Turn> => {
      machine.write("held", "");
      await gate.promise;
      return says("two");
    };
    const model = await machine.play({ "claim it": [says("one"), second, says("two")] });
    const check = "echo x >> runs; echo failed here; test $(wc -l < runs) = 2";
    const run = machine.start(["spawn", "claim it", "--check", check]);
    const uuid = await uuidOf(run);
    await machine.held();
    await killDaemon(machine);
    gate.resolve();
    await run.done;
    expect(await machine.run(["resume", uuid])).toMatchObject({ code: 0, stdout: "two\n" });
    expect(machine.read("runs")).toBe("x\n".repeat(2));
    expect(recordOf(machine, uuid).checks.map(({ exit_code }) => exit_code)).toEqual([1, 0]);
    expect(seen(model.requests.at(-1)).split("You finished, but").length - 1).toBe(1);
  });
});
