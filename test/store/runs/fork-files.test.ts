import { expect, test } from "bun:test";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type FsPort, realFs } from "../../../src/store/files/fs-port.ts";
import { RunStore } from "../../../src/store/runs/run-store.ts";
import type { StepRecord } from "../../../src/store/runs/schema.ts";
import { procInfo } from "../../support/samples.ts";
import { callEnd, stepRecord } from "../samples.ts";
import { fsWith, systemError, temporaryFolder } from "../support.ts";

function failing(code: string): FsPort {
  return fsWith({
    link: () => {
      throw systemError(code);
    },
  });
}

/** A run whose only step has a result and a program's output beside it, and names both. */
async function origin(dir: string) {
  const runs = new RunStore(dir);
  const uuid = Bun.randomUUIDv7();
  const record = runs.create(uuid);
  record.info(procInfo({ uuid }));
  const { path, ...kept } = await record.storeBlob("Look.txt", "the whole of it");
  await Bun.write(join(record.spillDir, "output-1.log"), "printed");
  const call = {
    ...callEnd(1).call,
    kept,
    result: `see ${path}, ${record.spillDir}/output-1.log.`,
    inbox: [2],
  };
  const whole: StepRecord = { ...stepRecord(1), tool_calls: [call], inbox: [1], children: [] };
  record.step(whole);
  await record.close();
  return { uuid, steps: [whole], kept, dir: record.dir };
}

async function fork(dir: string, from: Awaited<ReturnType<typeof origin>>, fs: FsPort = realFs) {
  const runs = new RunStore(dir, fs);
  const uuid = Bun.randomUUIDv7();
  const record = await runs.fork(uuid, { uuid: from.uuid, steps: from.steps });
  record.info(procInfo({ uuid, origin_uuid: from.uuid }));
  await record.close();
  return { uuid, dir: record.dir, runs, record: (await runs.steps(uuid)).records[0] };
}

test("a fork has what its steps name: a result under a second name, the output of a program as a copy", async () => {
  const dir = temporaryFolder();
  const from = await origin(dir);
  const made = await fork(dir, from);
  const [call] = made.record?.tool_calls ?? [];
  expect(call?.result).toBe(`see ${made.dir}/${from.kept.file}, ${made.dir}/spill/output-1.log.`);
  expect(statSync(join(made.dir, from.kept.file)).ino).toBe(statSync(join(from.dir, from.kept.file)).ino);
  writeFileSync(join(from.dir, "spill/output-1.log"), "printed more");
  expect(readFileSync(join(made.dir, "spill/output-1.log"), "utf8")).toBe("printed");
  await made.runs.remove(from.uuid);
  expect(readFileSync(join(made.dir, from.kept.file), "utf8")).toBe("the whole of it");
});

test("the fork's steps name the run that made them; acknowledgements and attachments stay with that run", async () => {
  const dir = temporaryFolder();
  const from = await origin(dir);
  const first = await fork(dir, from);
  expect(first.record?.origin_uuid).toBe(from.uuid);
  expect([first.record?.inbox, first.record?.children, first.record?.tool_calls[0]?.inbox]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  expect((await first.runs.inbox(first.uuid)).last).toBe(0);
  const { records: steps } = await first.runs.steps(first.uuid);
  const second = await fork(dir, { ...from, ...first, steps });
  expect(second.record?.origin_uuid).toBe(from.uuid);
});

test.each(["EPERM", "EMLINK"])(
  "where a second name is refused with %s the result is copied",
  async (code) => {
    const dir = temporaryFolder();
    const from = await origin(dir);
    const made = await fork(dir, from, failing(code));
    expect(readFileSync(join(made.dir, from.kept.file), "utf8")).toBe("the whole of it");
    expect(statSync(join(made.dir, from.kept.file)).ino).not.toBe(
      statSync(join(from.dir, from.kept.file)).ino,
    );
  },
);

test("a full disk leaves nothing of the fork", async () => {
  const dir = temporaryFolder();
  const from = await origin(dir);
  await expect(fork(dir, from, failing("ENOSPC"))).rejects.toMatchObject({ code: "EXHAUSTED" });
  expect(readdirSync(join(dir, "steps"))).toEqual([from.uuid]);
});

test("a run removed during the fork is not forked; files missing from an existing run are left out", async () => {
  const dir = temporaryFolder();
  const from = await origin(dir);
  await new RunStore(dir).remove(from.uuid);
  await expect(fork(dir, from)).rejects.toMatchObject({ code: "NOT_FOUND" });
  expect(readdirSync(join(dir, "steps"))).toEqual([]);
  const other = await origin(dir);
  realFs.remove(join(other.dir, other.kept.file));
  expect((await fork(dir, other)).record?.step).toBe(1);
});
