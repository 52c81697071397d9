import { describe, expect, test } from "bun:test";
import { readdirSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { StepRecord } from "../../src/store/runs/schema.ts";
import { Machine } from "./support/machine.ts";
import { toolResults } from "./support/requests.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { verdict } from "./support/verdict.ts";

const MB = 1024 * 1024;

describe("a call that can't be made is an error for the model, and the run continues", () => {
  test("an unknown tool, invalid input, arguments that are not JSON", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "get it wrong": [
        {
          tool_calls: [
            { name: "Reed", input: { path: "a.txt" } },
            { name: "Read", input: { file: "a.txt" } },
            { name: "Read", input: { path: 7 } },
            { name: "Bash", rawArguments: '{"command": "touch acted' },
            { name: "Write", rawArguments: '["a.txt", "text"]' },
            { name: "Read", input: { path: "a.txt", limit: -1 } },
            { name: "Read", input: { path: "a.txt" } },
          ],
        },
        says("got it"),
      ],
    });
    machine.write("a.txt", "fine");
    const { receipt } = await verdict(machine, ["get it wrong"]);
    expect(receipt).toMatchObject({ exit_code: 0, exit_reason: "completed", files_changed: [] });
    expect(machine.has("acted")).toBe(false);
    const results = toolResults(model.last);
    expect(results[0]).toMatch(/^Error NOT_FOUND: .*"Reed".*Read/);
    expect(results[1]).toMatch(/^Error INVALID: .*path/s);
    expect(results[2]).toMatch(/^Error INVALID: .*path.*string/s);
    expect(results[3]).toMatch(/^Error INVALID: .*JSON/s);
    expect(results[4]).toMatch(/^Error INVALID: .*object/s);
    expect(results[5]).toMatch(/^Error INVALID: .*limit/s);
    expect(results[6]).toBe("1\tfine");
    const [step] = steps(machine, receipt.uuid);
    expect(step?.tool_calls.map(({ state }) => state)).toEqual([...Array(6).fill("failed"), "done"]);
  });

  test("until the model repeats itself: the same call, failed or not, ends the run", async () => {
    await using machine = new Machine();
    machine.config({ loop_threshold: 3 });
    await machine.play({
      "read what is not there": [({ index }) => calls(["Read", { path: `none-${index}.txt` }])],
      "do the same again": [{ text: "Again.", ...bash("echo same") }],
    });
    const failing = await verdict(machine, ["read what is not there"]);
    expect(failing.receipt).toMatchObject({ exit_code: 1, exit_reason: "circuit_breaker" });
    expect(failing.receipt.error?.message).toContain("Read");
    const looping = await verdict(machine, ["do the same again"]);
    expect(looping.receipt).toMatchObject({
      exit_code: 1,
      exit_reason: "loop_detected",
      result: "Again.",
      partial: true,
    });
    expect(looping.receipt.error?.message).toContain("Bash");
  });
});

describe("a tool result of 100 MB", () => {
  test("is bounded in the prompt, in memory and on disk, and the run continues", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "drown me": [
        bash(`echo first; yes 0123456789abcde | head -c ${100 * MB}; echo; echo last`),
        bash(`head -c ${100 * MB} /dev/zero`),
        calls(["Read", { path: "big.txt" }]),
        calls(["Read", { path: "line.txt" }]),
        calls(["Grep", { pattern: "needle", path: "big.txt", output_mode: "content" }]),
        says("dry again"),
      ],
    });
    machine.write("big.txt", "a line of some length, again and again\n".repeat(2_700_000));
    machine.write("line.txt", "one line ");
    truncateSync(join(machine.project, "line.txt"), 100 * MB);

    const { receipt, ms } = await verdict(machine, ["drown me"]);
    expect(receipt).toMatchObject({ exit_code: 0, exit_reason: "completed", tool_calls: 5 });
    expect(ms).toBeLessThan(20_000);

    const [text, zeros, read, line, grep] = toolResults(model.last);
    expect(text).toMatch(/^first\n0123456789abcde\n/);
    expect(text).toMatch(/\nlast\n\[The output was too large for the file: \d+ bytes are lost\.\]$/);
    const kept = /What was saved of it is in (\S+)/.exec(text ?? "")?.[1] ?? "";
    expect(statSync(kept).size).toBeLessThanOrEqual(16 * MB + 1024);
    for (const result of [text, zeros, read, line, grep]) expect(result?.length).toBeLessThan(110_000);
    expect(read).toMatch(/^1\ta line of some length/);
    expect(read).toContain("offset");
    expect(line).toMatch(/^Error INVALID|binary/);
    expect(grep).toMatch(/50 MB|too large|left out|^Error/);

    expect(sizeOf(join(machine.project, ".rnix/data"))).toBeLessThan(2 * (16 * MB) + 2 * MB);
    const status = Status.parse(await machine.json(["daemon", "status", "--json"]));
    expect(status.rss_bytes).toBeLessThan(300 * MB);
    expect(model.last.text.length).toBeLessThan(MB);
  });
});

describe.concurrent("time", () => {
  test("of one call runs out: its processes are ended, and the model gets an error", async () => {
    await using machine = new Machine();
    machine.config({ tool_timeout: "3s" });
    const model = await machine.play({
      "wait for it": [
        bash("echo begun; trap '' TERM; setsid sleep 600 & sleep 600 & wait; sleep 600"),
        says("waited"),
      ],
    });
    const { receipt } = await verdict(machine, ["wait for it"]);
    expect(receipt).toMatchObject({ exit_code: 0, result: "waited" });
    const [result] = toolResults(model.last);
    expect(result).toMatch(/^begun\n[\s\S]*timed out/);
  });

  test("of the whole run runs out: exit 1, timeout, the text so far, and nothing still runs", async () => {
    await using machine = await Machine.playing({
      "take long": [{ text: "I wait.", ...bash("setsid sleep 600 & wait") }],
    });
    const { receipt, ms } = await verdict(machine, ["take long", "--timeout", "4s"]);
    expect(receipt).toMatchObject({ exit_code: 1, exit_reason: "timeout", result: "I wait.", partial: true });
    expect(receipt.error?.message).toContain("--timeout");
    expect(ms).toBeLessThan(15_000);
  });

  test("runs out while the model is silent: exit 1, timeout", async () => {
    await using machine = await Machine.playing({ "take long": [{ fault: { kind: "hang" } }] });
    const { receipt, ms } = await verdict(machine, ["take long", "--timeout", "1s"]);
    expect(receipt).toMatchObject({ exit_code: 1, exit_reason: "timeout", result: null, partial: false });
    expect(ms).toBeLessThan(15_000);
  });
});

describe("a run's budget", () => {
  test("steps: the last one is made, the next is not", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "go on": [({ index }) => bash(`echo ${index}`)],
    });
    const { receipt } = await verdict(machine, ["go on", "--max-steps", "3"]);
    expect(receipt).toMatchObject({ exit_code: 1, exit_reason: "max_steps", steps: 3, tool_calls: 3 });
    expect(receipt.error?.message).toContain("--max-steps");
    expect(model.requests).toHaveLength(3);
  });

  test("tokens: exit 2 before the call that would exceed them, and a finished answer stays completed", async () => {
    await using machine = new Machine();
    const usage = { input_tokens: 19_000, output_tokens: 500 };
    const model = await machine.play({
      "use a lot": [{ text: "So far.", ...bash("echo x"), usage }],
      "answer at once": [{ ...says("done"), usage }],
    });
    const over = await verdict(machine, ["use a lot", "--budget", "20000"]);
    expect(over.receipt).toMatchObject({
      exit_code: 2,
      exit_reason: "budget_exceeded",
      tokens_used: 19_500,
      result: "So far.",
      partial: true,
    });
    expect(over.receipt.error?.message).toContain("--budget");
    expect(model.requests).toHaveLength(1);
    const done = await verdict(machine, ["answer at once", "--budget", "20000"]);
    expect(done.receipt).toMatchObject({ exit_code: 0, exit_reason: "completed" });
  });
});

const Status = z.looseObject({ rss_bytes: z.number() });

function steps(machine: Machine, uuid: string): StepRecord[] {
  const lines = machine.read(`.rnix/data/steps/${uuid}/steps.jsonl`).trimEnd().split("\n");
  return lines.map((line) => StepRecord.parse(JSON.parse(line)));
}

function sizeOf(folder: string): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  return files.reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}
