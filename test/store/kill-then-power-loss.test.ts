import { expect, test } from "bun:test";
import { RunStore } from "../../src/store/runs/run-store.ts";
import type { RunWriter } from "../../src/store/runs/run-writer.ts";
import type { ProcessMeta } from "../../src/store/runs/schema.ts";
import { MemoryDisk, ROOT } from "../support/memory-disk.ts";
import { openJournal } from "../support/open-journal.ts";
import { procInfo } from "../support/samples.ts";
import { answer, callStart, stepRecord } from "./samples.ts";

const uuid = "01975a2e-0000-7000-8000-000000000001";
const meta: ProcessMeta = { v: 1, system_prompt: "", tools: [] };
const never = (): number => 0;

/**
 * A run is written and its kernel killed before anything of it was synced; another resumes it, and the power goes
 * when `goOn` is through. What the second one was promised must be there, and what it stands on.
 */
async function powerLossAfter(begin: (run: RunWriter) => void, goOn: (run: RunWriter) => Promise<unknown>) {
  const disk = new MemoryDisk((path) => path);
  const first = new RunStore(`${ROOT}/.rnix/data`, disk).create(uuid);
  first.meta(meta);
  first.info(procInfo({ uuid }));
  begin(first);
  const killed = disk.after("nothing", never);
  await goOn(await new RunStore(`${ROOT}/.rnix/data`, killed).reopen(uuid));
  return new RunStore(`${ROOT}/.rnix/data`, killed.after("unsynced", never));
}

test("the steps of a killed kernel are durable before the next kernel's first effect", async () => {
  const runs = await powerLossAfter(
    (run) => {
      run.journal(answer(1));
      run.step(stepRecord(1));
    },
    async (run) => {
      run.journal(answer(2));
      run.journal(callStart(2));
      await run.sync();
    },
  );
  expect((await runs.steps(uuid)).records.map(({ step }) => step)).toEqual([1]);
  expect((await openJournal(runs, uuid)).entries.map(({ t }) => t)).toEqual(["answer", "call_start"]);
  expect(await runs.info(uuid)).toMatchObject({ uuid });
  expect(await runs.meta(uuid)).toMatchObject({ v: 1 });
});

test("the open step is durable too; the next kernel finishes it and does not write it again", async () => {
  const runs = await powerLossAfter(
    (run) => run.journal(answer(1)),
    async (run) => {
      run.journal(callStart(1));
      await run.sync();
    },
  );
  expect((await openJournal(runs, uuid)).entries.map(({ t }) => t)).toEqual(["answer", "call_start"]);
});

test("an acknowledged message is there, also the first one that came after the resume", async () => {
  const runs = await powerLossAfter(
    () => undefined,
    async (run) => {
      await run.sync();
      await run.inbox.add({ kind: "input", ts: "", text: "hello" });
    },
  );
  expect((await runs.inbox(uuid)).unread).toMatchObject([{ text: "hello" }]);
});

test("a killed kernel's process record replaces no durable one before it is durable itself", async () => {
  const disk = new MemoryDisk((path) => path);
  const data = `${ROOT}/.rnix/data`;
  const first = new RunStore(data, disk).create(uuid);
  first.meta(meta);
  first.info(procInfo({ uuid }));
  await first.sync();
  first.info(procInfo({ uuid, steps: 1 }));
  const killed = disk.after("nothing", never);
  const next = await new RunStore(data, killed).reopen(uuid);
  next.info(procInfo({ uuid, steps: 2 }));
  // Of the names' changes all survive, of the contents none that were not synced.
  const kept = killed.after("some", () => 0.999);
  expect(await new RunStore(data, kept).info(uuid)).toMatchObject({ uuid });
});

test("the kernel that resumes the run removes what a kill left of a document that was being replaced", async () => {
  const data = `${ROOT}/.rnix/data`;
  const disk = new MemoryDisk((path) => path);
  const first = new RunStore(data, disk).create(uuid);
  first.meta(meta);
  first.info(procInfo({ uuid }));
  const { operations } = disk;
  disk.diesAt = operations + 2;
  expect(() => first.meta({ ...meta, system_prompt: "another" })).toThrow();
  const killed = disk.after("nothing", never);
  expect(await killed.list(first.dir)).toContain("~process-meta.json.tmp");
  await new RunStore(data, killed).reopen(uuid);
  expect(await killed.list(first.dir)).not.toContain("~process-meta.json.tmp");
});
