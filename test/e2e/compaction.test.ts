import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { StepRecord } from "../../src/store/runs/schema.ts";
import type { Turn } from "../support/model-server/script.ts";
import type { RecordedRequest } from "../support/model-server/server.ts";
import { until } from "../support/until.ts";
import { Machine } from "./support/machine.ts";
import { bash, says } from "./support/scenes.ts";
import { receiptOf } from "./support/verdict.ts";

const isSummary = ({ text }: RecordedRequest): boolean => text.includes("[From rnix, not from the user]");
const TOO_LONG: Turn = { fault: { kind: "status", status: 400, code: "context_length_exceeded" } };

/** A command that prints some 5,000 characters. */
function print(n: number): Turn {
  const command = `for i in $(seq 1 150); do echo "line $i of what command ${n} prints"; done`;
  return bash(command);
}

/** Adds the size of the request to the answer, as a provider does. */
function withUsage(turn: Turn, { text }: RecordedRequest): Turn {
  return { ...turn, usage: { input_tokens: Math.ceil(text.length / 4), output_tokens: 10 } };
}

function compactionsOf(machine: Machine, uuid: string) {
  const lines = machine
    .read(join(".rnix/data/steps", uuid, "steps.jsonl"))
    .trimEnd()
    .split("\n");
  const steps = lines.map((line) => StepRecord.parse(JSON.parse(line)));
  return steps.flatMap(({ step, compactions = [] }) => compactions.map((one) => ({ step, ...one })));
}

describe("rnix compact", () => {
  test("waits for the end of the step, and prints the tokens before and after; rnix log and rnix steps show it", async () => {
    await using machine = new Machine();
    let answers = 0;
    let longest = 0;
    const server = await machine.model((request) => {
      if (isSummary(request)) return says("Six commands were run.");
      const shorter = request.text.length < longest;
      longest = Math.max(longest, request.text.length);
      if (++answers <= 6) return withUsage(print(answers), request);
      return withUsage(shorter ? says("done") : bash(`touch held; sleep 0.0${answers}`), request);
    });
    const spawned = machine.start([
      // It runs until it is compacted, however late that is requested.
      ...["spawn", "print it", "--output", "json", "--max-steps", "unlimited"],
    ]);
    await machine.held();
    expect(await machine.run(["compact", "1"])).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(
        /^process 1: about \d+ tokens before, \d+ after(, summarised by its model)?\n$/,
      ),
    });
    const { uuid, steps } = receiptOf(await spawned.done);
    const [made, ...more] = compactionsOf(machine, uuid);
    expect(more).toEqual([]);
    expect(made).toMatchObject({ step: steps, why: "asked" });
    expect(server.last.text.length).toBeLessThan(longest * 0.7);
    const line = `conversation compacted from about ${made?.tokens_before} to ${made?.tokens_after} tokens, as asked for`;
    expect((await machine.run(["log", "1"])).stdout).toContain(line);
    expect((await machine.run(["steps", "1", String(steps)])).stdout).toMatch(
      /compacted from about [\s\S]*(is|are) now:/,
    );
    const ended = await machine.run(["compact", "1"]);
    expect(ended).toMatchObject({ code: 64, stderr: expect.stringContaining("has ended (completed)") });
  });
});

test("a kill -9 during a compaction loses nothing: the run resumes as it was, and is compacted then", async () => {
  await using machine = new Machine();
  machine.config({ context_window: 10_000 });
  let answers = 0;
  let summaries = 0;
  const server = await machine.model((request) => {
    if (isSummary(request))
      return ++summaries === 1 ? { fault: { kind: "hang" } } : says("Commands were run.");
    const command = `echo ${++answers} >> done; ${"true ".repeat(600)}`;
    return withUsage(answers < 10 ? bash(command) : says("done"), request);
  });
  const spawned = machine.start(["spawn", "print it", "--output", "json"]);
  await until(() => summaries === 1);
  const [cut] = server.requests.filter(isSummary);
  machine.killDaemon();
  await spawned.done;
  const [, uuid = ""] =
    /([0-9a-f]{8}-[0-9a-f-]{27})/.exec((await machine.run(["ps", "-a", "--json"])).stdout) ?? [];
  expect(compactionsOf(machine, uuid)).toEqual([]);
  const resumed = await machine.run(["resume", uuid, "--output", "json"]);
  expect(receiptOf(resumed)).toMatchObject({ exit_code: 0, result: "done" });
  const again = server.requests.filter(isSummary)[1];
  expect(again?.text).toBe(cut?.text ?? "");
  expect(compactionsOf(machine, uuid)[0]?.summary?.by).toBe("model");
  expect(machine.read("done")).toBe([1, 2, 3, 4, 5, 6, 7, 8, 9, ""].join("\n"));
});

describe("a provider that refuses the conversation as too long", () => {
  test("gets a shorter one once", async () => {
    await using machine = new Machine();
    let answers = 0;
    await machine.model((request) => {
      if (isSummary(request)) return request.text.length > 30_000 ? TOO_LONG : says("Commands were run.");
      if (request.text.length > 30_000) return TOO_LONG;
      return ++answers < 12 ? print(answers) : says("done");
    });
    const { uuid, ...receipt } = receiptOf(await machine.run(["spawn", "print it", "--output", "json"]));
    expect(receipt).toMatchObject({ exit_code: 0, result: "done", steps: 12 });
    const made = compactionsOf(machine, uuid);
    expect(made.filter(({ why }) => why === "too_long")).toHaveLength(1);
  });

  test("ends the run with its error when it refuses the shorter one too", async () => {
    await using machine = new Machine();
    let answers = 0;
    await machine.model(() => (++answers < 6 ? print(answers) : TOO_LONG));
    expect(receiptOf(await machine.run(["spawn", "print it", "--output", "json"]))).toMatchObject({
      exit_code: 1,
      exit_reason: "llm_error",
      error: { code: "INVALID", message: expect.stringContaining("longer than the model takes") },
    });
  });
});
