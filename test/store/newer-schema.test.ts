import { describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SyscallError } from "../../src/plugin/index.ts";
import { PidAllocator } from "../../src/store/pid-allocator.ts";
import type { RunStore } from "../../src/store/runs/run-store.ts";
import { calls, KernelHarness, script, silent, toolDevice } from "../support/kernel.ts";
import { openJournal } from "../support/open-journal.ts";
import { until } from "../support/until.ts";

/** A run that was suspended in its second step, with something unread in its inbox. */
async function suspended(h: KernelHarness): Promise<string> {
  const pid = await h.spawn("go");
  await until(() => h.requests.length === 2, "its second step");
  const { uuid } = h.kernel.processes.info(pid);
  await h.kernel.ipc.send(0, pid, "hear me");
  await h.kernel.lifecycle.suspend(pid);
  await until(() => h.kernel.processes.count === 0, "its end");
  return uuid;
}

function harness(): KernelHarness {
  const first = script(calls(["Act", {}]));
  const model: ConstructorParameters<typeof KernelHarness>[0]["model"] = (request, signal) =>
    request.messages.length === 1 ? first(request, signal) : silent(request, signal);
  return new KernelHarness({ model, devices: { "/dev/act": toolDevice("Act", () => "done") } });
}

/** As a newer rnix would have written it. */
function makeNewer(path: string): string {
  const text = readFileSync(path, "utf8").replaceAll(/"v":\s*1\b/g, '"v":2');
  writeFileSync(path, text);
  return text;
}

async function refusalOf(work: () => unknown): Promise<SyscallError> {
  try {
    await work();
  } catch (thrown) {
    if (thrown instanceof SyscallError) return thrown;
    throw thrown;
  }
  throw new Error("it was not refused");
}

/** How each file of a run is read, and whether the run can resume without it. */
const FILES: Record<string, (runs: RunStore, uuid: string) => Promise<unknown>> = {
  "proc-info.json": (runs, uuid) => runs.info(uuid),
  "process-meta.json": (runs, uuid) => runs.meta(uuid),
  "steps.jsonl": (runs, uuid) => runs.steps(uuid),
  "step.journal": (runs, uuid) => openJournal(runs, uuid),
  "events.jsonl": (runs, uuid) => runs.events(uuid),
  "inbox.jsonl": (runs, uuid) => runs.inbox(uuid),
};

describe.each(Object.entries(FILES))("%s of a newer schema", (file, read) => {
  test("reads and resumes are refused with the record's name and what to do; the record is unchanged", async () => {
    await using h = harness();
    const uuid = await suspended(h);
    const path = join(h.runs.dir(uuid), file);
    if (file === "step.journal") {
      const answer = { role: "assistant", content: "" };
      const usage = { input_tokens: 0, output_tokens: 0, cached_tokens: 0 };
      const ts = new Date(0).toISOString();
      writeFileSync(path, `${JSON.stringify({ v: 1, t: "answer", step: 2, ts, message: answer, usage })}\n`);
    }
    await read(h.runs, uuid);
    const newer = makeNewer(path);
    for (const work of [() => read(h.runs, uuid), () => h.kernel.lifecycle.resume(uuid, null, h.opts())]) {
      const { code, message } = await refusalOf(work);
      expect({ code, message }).toEqual({
        code: "INVALID",
        message: expect.stringMatching(/newer rnix: update this one. Nothing was changed/),
      });
      expect(message).toContain(file);
      expect(message).toContain(uuid);
    }
    expect(readFileSync(path, "utf8")).toBe(newer);
    expect(h.kernel.processes.count).toBe(0);
  });
});

test("a record of a newer schema is named among those that can't be read, and hides no other", async () => {
  await using h = harness();
  const uuid = await suspended(h);
  makeNewer(join(h.runs.dir(uuid), "proc-info.json"));
  const { runs, damaged } = await h.runs.survey();
  expect(runs).toEqual([]);
  expect(damaged.map((one) => [one.uuid, one.error.code])).toEqual([[uuid, "INVALID"]]);
  expect(damaged[0]?.error.message).toContain("newer rnix");
});

test("the numbers given to processes, and the list of what was collected, are refused", async () => {
  await using h = harness();
  const uuid = await suspended(h);
  const pids = join(h.dir, "pids");
  new PidAllocator(pids).next();
  const newer = makeNewer(pids);
  expect((await refusalOf(() => new PidAllocator(pids).next())).message).toContain("newer rnix");
  expect(readFileSync(pids, "utf8")).toBe(newer);
  const collected = await h.runs.collected();
  await collected.collect(uuid, { why: "age", ts: new Date(0).toISOString(), mayGo: () => true });
  makeNewer(join(h.dataDir, "gc", "collected.jsonl"));
  const look = async () => (await h.runs.collected()).find((run) => run.uuid === uuid);
  expect((await refusalOf(look)).message).toContain("newer rnix");
});
