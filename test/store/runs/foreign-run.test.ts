import { describe, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { realFs } from "../../../src/store/files/fs-port.ts";
import { RecordKey } from "../../../src/store/runs/record-key.ts";
import { RunStore } from "../../../src/store/runs/run-store.ts";
import { spendingSince } from "../../../src/store/spending-since.ts";
import { openJournal } from "../../support/open-journal.ts";
import { procInfo } from "../../support/samples.ts";
import { answer, callStart, stepRecord } from "../samples.ts";
import { codeOf, temporaryFolder } from "../support.ts";

const UUID = "01975a2e-0000-7000-8000-000000000001";
const FORK = "01975a2e-0000-7000-8000-000000000002";
const SUSPENDED = {
  uuid: UUID,
  state: "suspended",
  ended_at_ms: 1,
  kernel: "dead",
  cost_usd: -1_000,
  suspended: { reason: "later", cause: "restart", wake: { on: "at", at_ms: 1 }, by_itself: true },
} as const;

/** A run in a data folder, as one user sees it and as another. */
async function twoUsers(info = procInfo(SUSPENDED)) {
  const dataDir = join(temporaryFolder(), "data");
  const [writer, reader] = [1, 2].map(() => new RunStore(dataDir, realFs, RecordKey.temporary()));
  if (!writer || !reader) throw new Error("two stores");
  const run = writer.create(UUID);
  run.info(info);
  run.meta({ v: 1, system_prompt: "p", tools: [] });
  run.step(stepRecord(1));
  run.journal(answer(2));
  run.journal(callStart(2));
  await run.inbox.add({ kind: "input", text: "more", ts: "2026-01-01T00:00:00.000Z" });
  await run.close();
  return { dataDir, writer, reader, dir: writer.dir(UUID) };
}

function contentOf(dir: string): string[] {
  return readdirSync(dir).map((name) => `${name}: ${readFileSync(join(dir, name), "utf8")}`);
}

describe("a record of another user", () => {
  test("is read as any other, and each part of it is foreign", async () => {
    const { writer, reader } = await twoUsers();
    for (const [store, foreign] of [
      [writer, undefined],
      [reader, true],
    ] as const) {
      expect((await store.info(UUID))?.foreign).toBe(foreign);
      expect((await store.meta(UUID))?.foreign).toBe(foreign);
      const lines = Number(foreign === true);
      expect(await store.steps(UUID)).toMatchObject({ foreign: lines, records: [{ step: 1 }] });
      expect(await openJournal(store, UUID)).toMatchObject({ foreign: 2 * lines, entries: [{}, {}] });
      expect(await store.inbox(UUID)).toMatchObject({ foreign: lines, unread: [{ kind: "input" }] });
      const { rows } = await (await store.index()).list();
      expect(rows[0]?.foreign).toBe(foreign);
    }
  });

  test("is not written to, belongs to no kernel, and counts in no budget", async () => {
    const { reader, dir, dataDir } = await twoUsers();
    const before = contentOf(dir);
    expect(await codeOf(() => reader.reopen(UUID))).toBe("PERMISSION");
    expect(await reader.amend(UUID, (info) => ({ ...info, state: "dead" }))).toMatchObject({ foreign: true });
    expect((await reader.leftBy(new Set(["dead"]))).runs).toEqual([]);
    expect(await spendingSince(reader, 0)).toEqual({ tokens: 0, cost: 0 });
    const collected = await reader.collected();
    const all = { why: "age", ts: "now", mayGo: () => true } as const;
    expect(await codeOf(() => collected.collect(UUID, all))).toBe("PERMISSION");
    expect(contentOf(dir)).toEqual(before);
    expect(existsSync(join(dataDir, "gc"))).toBeFalse();
  });

  test("lends a fork its results alone, whole ones and from its own folder", async () => {
    const { dataDir, reader, dir } = await twoUsers();
    const secret = join(dataDir, "secret");
    writeFileSync(secret, "secret");
    const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex");
    const results = join(dir, "results");
    mkdirSync(results);
    writeFileSync(join(results, `${hashOf("whole")}.txt`), "whole");
    writeFileSync(join(results, `${hashOf("other")}.txt`), "changed");
    symlinkSync(secret, join(results, `${hashOf("secret")}.txt`));
    mkdirSync(join(dir, "plugins"));
    writeFileSync(join(dir, "plugins", "session"), "theirs");
    const kept = [
      ...["whole", "other", "secret", "missing"].map((text) => `results/${hashOf(text)}.txt`),
      "../../secret",
      "../../../secret",
      "results/../../../secret",
      "proc-info.json",
    ];
    const { records: steps } = await reader.steps(UUID);
    await (await reader.fork(FORK, { uuid: UUID, steps, files: kept, foreign: true })).close();
    const fork = reader.dir(FORK);
    expect(readdirSync(fork).sort()).toEqual(["results", "steps.jsonl"]);
    expect(readdirSync(join(fork, "results"))).toEqual([`${hashOf("whole")}.txt`]);
    expect(await reader.steps(FORK)).toMatchObject({ foreign: 0, records: [{ step: 1, origin_uuid: UUID }] });
    expect(readdirSync(dataDir).sort()).toEqual(
      ["secret", "steps"].filter((name) => existsSync(join(dataDir, name))),
    );
  });

  test("names no file outside of the run's folder", async () => {
    const { writer, dir } = await twoUsers();
    const call = stepRecord(2).tool_calls[0];
    const line = {
      ...stepRecord(2),
      tool_calls: [{ ...call, kept: { file: "../../../x", sha256: "", bytes: 1 } }],
    };
    appendFileSync(join(dir, "steps.jsonl"), `${JSON.stringify(line)}\n`);
    expect(await writer.steps(UUID)).toMatchObject({ damaged: 1, records: [{ step: 1 }] });
  });
});

describe("a line of another writer in a run of one's own", () => {
  test.each([
    ["step.journal", { ...answer(2), ts: "2026-01-01T00:00:00.000Z" }],
    ["inbox.jsonl", { v: 1, seq: 9, ts: "2026-01-01T00:00:00.000Z", kind: "input", text: "other" }],
  ])("in %s is not rewritten as the user's own", async (file, line) => {
    const { writer, dir } = await twoUsers();
    appendFileSync(join(dir, file), `${JSON.stringify(line)}\n`);
    const before = contentOf(dir);
    expect(await codeOf(() => writer.reopen(UUID))).toBe("PERMISSION");
    expect(contentOf(dir)).toEqual(before);
  });
});

test("a record that was copied is own, and moved; written where it is, it is there", async () => {
  const { dataDir } = await twoUsers();
  const key = RecordKey.temporary();
  const [from, to] = [join(dataDir, "a"), join(dataDir, "b")];
  const run = new RunStore(from, realFs, key).create(UUID);
  run.info(procInfo(SUSPENDED));
  await run.close();
  await new RunStore(from, realFs, key).list();
  cpSync(from, to, { recursive: true, preserveTimestamps: true });
  const copy = new RunStore(to, realFs, key);
  expect(await copy.info(UUID)).toMatchObject({ moved_from: from });
  expect((await copy.leftBy(new Set(["dead"]))).runs).toEqual([]);
  const again = await copy.reopen(UUID);
  again.info((await copy.info(UUID)) ?? procInfo());
  await again.close();
  expect(await copy.info(UUID)).not.toHaveProperty("moved_from");
  expect((await copy.leftBy(new Set(["dead"]))).runs).toHaveLength(1);
});
