import { expect, test } from "bun:test";
import { appendFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RunStore } from "../../src/store/runs/run-store.ts";
import type { StepRecord } from "../../src/store/runs/schema.ts";
import { stepRecord } from "../store/samples.ts";
import { procInfo } from "../support/samples.ts";
import { serve } from "./support/fixture.ts";

const uuid = "019a0000-0000-7000-8000-000000000001";
const TS = "2026-01-01T00:00:00.000Z";

function callOf(kept: StepRecord["tool_calls"][number]["kept"]): StepRecord["tool_calls"][number] {
  const call = { id: "c1", name: "Bash", path: "/dev/shell", input: {}, result: "a part", kept };
  return { ...call, error: null, error_code: null, started_at: TS, duration_ms: 1, state: "done" };
}

test("a step names the file of its whole result, and the reason when it is missing", async () => {
  await using server = await serve("memory");
  const writer = new RunStore(server.dir).create(uuid);
  const { path, ...ref } = await writer.storeBlob("a.txt", "the whole");
  writer.step({ ...stepRecord(1), tool_calls: [callOf(ref)] });
  writer.info(procInfo({ uuid, state: "dead", ended_at_ms: 1, exit_code: 0 }));
  await writer.close();
  const client = await server.client();
  const found = async () => (await client.request("get_step_detail", { uuid, step: 1 })).kept_results;
  expect(await found()).toEqual([{ id: "c1", path, bytes: 9, problem: null }]);
  writeFileSync(path, "the wHole");
  expect(await found()).toMatchObject([{ problem: expect.stringContaining(`${path} is damaged`) }]);
  rmSync(path);
  expect(await found()).toMatchObject([{ problem: expect.stringContaining(`${path} is missing`) }]);
});

test("steps are paged by number; damaged lines are counted once and named, a line being written is not", async () => {
  await using server = await serve("memory");
  const writer = new RunStore(server.dir).create(uuid);
  const file = join(writer.dir, "steps.jsonl");
  for (let step = 1; step <= 1_200; step++) writer.step(stepRecord(step));
  appendFileSync(file, "damaged\n");
  writer.step(stepRecord(1_201));
  appendFileSync(file, '{"v":1,"torn');
  const ended = { uuid, state: "dead", ended_at_ms: 1, exit_code: 0, steps: 1_201 } as const;
  writer.info(procInfo(ended));
  const client = await server.client();
  const page = await client.request("list_steps", { uuid, after: 1_198, limit: 2 });
  expect(page).toMatchObject({ steps: [{ step: 1_199 }, { step: 1_200 }], total: 1_201, parse_errors: 2 });
  expect(page.damaged).toEqual([{ file, count: 2, lines: [1_201, 1_203], foreign: 0 }]);
  writer.info(procInfo({ ...ended, state: "running", ended_at_ms: null, exit_code: null }));
  const live = await client.request("list_steps", { uuid, after: 1_200 });
  expect(live).toMatchObject({ steps: [{ step: 1_201 }], parse_errors: 1, damaged: [{ lines: [1_201] }] });
  // A step that a live run adds is listed, and a file that was changed otherwise is read again.
  appendFileSync(file, "\n");
  writer.step(stepRecord(1_202));
  const added = await client.request("list_steps", { uuid, after: 1_200 });
  expect(added).toMatchObject({ steps: [{ step: 1_201 }, { step: 1_202 }], parse_errors: 2 });
  writer.info(procInfo(ended));
  const text = readFileSync(file, "utf8");
  writeFileSync(file, text.slice(text.indexOf("\n") + 1));
  const changed = await client.request("list_steps", { uuid, limit: 1 });
  expect(changed).toMatchObject({ steps: [{ step: 2 }], damaged: [{ missing: 1 }] });
});
