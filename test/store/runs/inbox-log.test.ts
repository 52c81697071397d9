import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { type FsPort, realFs } from "../../../src/store/files/fs-port.ts";
import { RunStore } from "../../../src/store/runs/run-store.ts";
import type { InboxDraft } from "../../../src/store/runs/schema.ts";
import { procInfo } from "../../support/samples.ts";
import { seeded } from "../../support/seeded.ts";
import { answer, callEnd, stepRecord } from "../samples.ts";
import { codeOf, fsWith, openFiles, systemError, temporaryFolder } from "../support.ts";

const UUID = "019a0000-0000-7000-8000-000000000001";
const TS = "2026-11-20T00:00:00.000Z";

function newRun(fs: FsPort = realFs) {
  const dataDir = temporaryFolder();
  const store = new RunStore(dataDir, fs);
  const writer = store.create(UUID);
  return { dataDir, store, writer, file: join(writer.dir, "inbox.jsonl") };
}

function message(data: string, from = 2): InboxDraft {
  return { kind: "message", ts: TS, from_pid: from, from_uuid: `uuid-${from}`, data };
}

const unreadOf = async (store: RunStore): Promise<number[]> =>
  (await store.inbox(UUID)).unread.map(({ seq }) => seq);

describe("the inbox of a run", () => {
  test("is made with its first entry, holds them in order, and no file stays open", async () => {
    const { dataDir, store, writer, file } = newRun();
    expect(existsSync(file)).toBe(false);
    expect(await store.inbox(UUID)).toEqual({
      unread: [],
      keys: new Map(),
      last: 0,
      spentBytes: 0,
      damaged: 0,
      damagedLines: [],
      torn: false,
      foreign: 0,
      missing: 0,
    });
    const first = await writer.inbox.add(message("hällo"));
    const second = await writer.inbox.add({ kind: "notice", ts: TS, source: "lsp", text: "2 errors" });
    expect(first).toEqual({ v: 1, seq: 1, ...message("hällo") });
    expect(second).toMatchObject({ v: 1, seq: 2, kind: "notice" });
    expect(await store.inbox(UUID)).toMatchObject({ unread: [first, second], last: 2, spentBytes: 0 });
    expect(openFiles(dataDir)).toBe(0);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  test("is acknowledged by the record of the step: by its own list and those of its calls", async () => {
    const { store, writer } = newRun();
    for (const data of ["a", "b", "c", "d"]) await writer.inbox.add(message(data));
    writer.step({ ...stepRecord(1), inbox: [1] });
    expect(await unreadOf(store)).toEqual([2, 3, 4]);
    writer.step({ ...stepRecord(2), tool_calls: [{ ...callEnd(2).call, inbox: [2, 3] }] });
    expect(await unreadOf(store)).toEqual([4]);
    await writer.close();
    expect(await unreadOf(store)).toEqual([4]);
  });

  test("the journal names the entries that the open step has delivered; they are unread until its record", async () => {
    const { store, writer } = newRun();
    for (const data of ["a", "b", "c"]) await writer.inbox.add(message(data));
    writer.journal({ ...answer(1), inbox: [1] });
    writer.journal({ ...callEnd(1), call: { ...callEnd(1).call, inbox: [2] } });
    expect(await store.state({ uuid: UUID })).toMatchObject({ acknowledged: [], delivered: [1, 2] });
    expect(await store.inbox(UUID)).toMatchObject({ last: 3 });
    expect(await unreadOf(store)).toEqual([1, 2, 3]);
    writer.step({ ...stepRecord(1), inbox: [1], tool_calls: [{ ...callEnd(1).call, inbox: [2] }] });
    expect(await store.state({ uuid: UUID })).toMatchObject({ acknowledged: [1, 2], delivered: [] });
    expect(await unreadOf(store)).toEqual([3]);
  });

  test("stores what a program has stopped taking: at the latest at the run's end", async () => {
    const { store, writer } = newRun();
    for (const data of ["a", "b", "c"]) await writer.inbox.add(message(data));
    writer.inbox.taken(1);
    await writer.inbox.add(message("d"));
    expect(await unreadOf(store)).toEqual([2, 3, 4]);
    writer.inbox.taken(3);
    await writer.close();
    expect(await unreadOf(store)).toEqual([2, 4]);
  });

  test("is emptied when a run that received everything ends, and no number is used twice", async () => {
    const { store, writer, file } = newRun();
    writer.info(procInfo({ uuid: UUID }));
    await writer.inbox.add(message("a"));
    await writer.inbox.add(message("b"));
    writer.step({ ...stepRecord(1), inbox: [1, 2] });
    await writer.close();
    expect(readFileSync(file, "utf8")).toBe("");
    const again = await store.reopen(UUID);
    expect(await again.inbox.add(message("c"))).toMatchObject({ seq: 3 });
    await again.close();
    const third = await store.reopen(UUID);
    third.step({ ...stepRecord(2), inbox: [3] });
    await third.close();
    expect(readFileSync(file, "utf8")).toBe("");
    expect(await store.inbox(UUID)).toMatchObject({ unread: [], last: 3 });
  });

  test("remembers the keys of messages, also when they were read and the file was rewritten", async () => {
    const { store, writer } = newRun();
    writer.info(procInfo({ uuid: UUID }));
    const input = (key: string, text = "a"): InboxDraft => ({
      kind: "input",
      ts: TS,
      text,
      key,
      digest: "d",
    });
    await writer.inbox.add(input("k1", "x".repeat(300 * 1024)));
    writer.step({ ...stepRecord(1), inbox: [1] });
    await writer.inbox.add(input("k2"));
    writer.step({ ...stepRecord(2), inbox: [2] });
    expect(writer.inbox.keyed("k1")).toEqual({ seq: 1, digest: "d" });
    await writer.close();
    const again = await store.reopen(UUID);
    expect(["k1", "k2", "k3"].map((key) => again.inbox.keyed(key)?.seq)).toEqual([1, 2, undefined]);
    await again.close();
    const { keys, unread, last } = await store.inbox(UUID);
    expect([keys.get("k1"), keys.get("k2")?.seq, unread, last]).toEqual([{ seq: 1, digest: "d" }, 2, [], 2]);
  });

  test("torn at any byte keeps the entries before the tear, and accepts more", async () => {
    const { store, writer, file } = newRun();
    writer.info(procInfo({ uuid: UUID }));
    await writer.inbox.add(message("a"));
    const before = readFileSync(file).length;
    await writer.inbox.add(message("hällo 世界"));
    const whole = readFileSync(file);
    await writer.close();
    for (let cut = before + 1; cut < whole.length - 1; cut++) {
      writeFileSync(file, whole.subarray(0, cut));
      expect(await store.inbox(UUID)).toMatchObject({ unread: [{ seq: 1 }], damaged: 1, last: 1 });
      const again = await store.reopen(UUID);
      await again.inbox.add(message("c"));
      expect((await store.inbox(UUID)).unread).toMatchObject([{ data: "a" }, { data: "c" }]);
      await again.close();
    }
  });

  test("of a newer rnix is refused, not guessed at", async () => {
    const { store, writer, file } = newRun();
    await writer.inbox.add(message("a"));
    writeFileSync(file, `{"v":2,"seq":1,"kind":"parcel"}\n`);
    expect(await codeOf(() => store.inbox(UUID))).toBe("INVALID");
  });

  test("is written and synced once for all messages added at the same time", async () => {
    let syncs = 0;
    const fs = fsWith({
      fdatasync: async (fd) => {
        syncs++;
        await realFs.fdatasync(fd);
      },
    });
    const { store, writer } = newRun(fs);
    await Promise.all(Array.from({ length: 100 }, (_, n) => writer.inbox.add(message(String(n)))));
    expect(syncs).toBeLessThanOrEqual(2);
    expect((await store.inbox(UUID)).unread.map((entry) => ("data" in entry ? entry.data : ""))).toEqual(
      Array.from({ length: 100 }, (_, n) => String(n)),
    );
  });

  test("does not grow beyond its cap, however much goes through it", async () => {
    const { store, writer, file } = newRun();
    let longest = 0;
    // There is always one that is not acknowledged: the file is never all spent.
    await writer.inbox.add(message("first"));
    for (let step = 1; step <= 300; step++) {
      const { seq } = await writer.inbox.add(message("x".repeat(8_000)));
      writer.step({ ...stepRecord(step), inbox: [seq - 1] });
      longest = Math.max(longest, statSync(file).size);
    }
    expect(longest).toBeLessThan(300 * 1024);
    expect(await store.inbox(UUID)).toMatchObject({ unread: [{ seq: 301 }], damaged: 0, last: 301 });
  });
});

test("the inbox of a run that is resumed again and again is emptied when all is delivered", async () => {
  const { store, writer, file } = newRun();
  writer.info(procInfo({ uuid: UUID }));
  await writer.inbox.add(message("a"));
  await writer.inbox.add(message("b"));
  // Killed: neither its end nor any emptying came.
  writer.step({ ...stepRecord(1), inbox: [1] });
  const again = await store.reopen(UUID);
  again.step({ ...stepRecord(2), inbox: [2] });
  const left = await store.inbox(UUID);
  expect(left.spentBytes).toBe(statSync(file).size);
  const third = await store.reopen(UUID);
  await third.close();
  expect(readFileSync(file, "utf8")).toBe("");
});

describe("a power cut", () => {
  test("accepts no entry that was added but not delivered, and no record of one that was", async () => {
    // What a power cut leaves at worst: what was synced, what was put in a file's place, and every emptying.
    const durable = new Map<string, string>();
    const paths = new Map<number, string>();
    const synced = new Map<string, string>();
    const history: Map<string, string>[] = [];
    const keep = (): void => void history.push(new Map(durable));
    const made = async (fd: number, sync: (fd: number) => Promise<void>): Promise<void> => {
      const path = paths.get(fd) ?? "";
      const text = statSync(path).isDirectory() ? "" : readFileSync(path, "utf8");
      await sync(fd);
      synced.set(path, text);
      if (!path.endsWith(".tmp")) durable.set(basename(path), text);
      keep();
    };
    const fs = fsWith({
      open: (path, mode) => {
        const fd = realFs.open(path, mode);
        paths.set(fd, path);
        return fd;
      },
      truncate: (fd, length) => {
        realFs.truncate(fd, length);
        durable.set(basename(paths.get(fd) ?? ""), "");
        keep();
      },
      rename: (from, to) => {
        realFs.rename(from, to);
        durable.set(basename(to), synced.get(from) ?? "");
        keep();
      },
      fdatasync: (fd) => made(fd, realFs.fdatasync),
      fsync: (fd) => made(fd, realFs.fsync),
    });
    const { writer } = newRun(fs);
    const random = seeded(7);
    const below = (n: number): number => Math.floor(random() * n);
    const added: { seq: number; from: number }[] = [];
    let waiting: number[] = [];
    for (let step = 1; step <= 200; step++) {
      for (let n = below(4); n > 0; n--) {
        const { seq } = await writer.inbox.add(message("x".repeat(below(12_000))));
        added.push({ seq, from: history.length });
        waiting.push(seq);
      }
      const delivered = waiting.filter(() => below(2) === 0);
      waiting = waiting.filter((seq) => !delivered.includes(seq));
      writer.step({ ...stepRecord(step), inbox: delivered });
      if (below(5) === 0) await writer.sync();
    }
    await writer.close();
    keep();
    const rewrites = history.filter((left, n) => {
      const before = history[n - 1]?.get("inbox.jsonl") ?? "";
      return (left.get("inbox.jsonl") ?? "").length < before.length;
    });
    expect(rewrites.length).toBeGreaterThan(2);
    for (const [n, left] of history.entries()) {
      const unread = numbersIn(left.get("inbox.jsonl"), ({ seq }) => [seq]);
      const recorded = numbersIn(left.get("steps.jsonl"), ({ inbox }) => inbox);
      for (const { seq, from } of added) {
        if (from <= n && !unread.has(seq) && !recorded.has(seq)) throw new Error(`entry ${seq} is lost`);
      }
    }
  });
});

const known = new Map<string, Set<number>>();

function numbersIn(text = "", of: (line: { seq: number; inbox: number[] }) => number[]): Set<number> {
  let found = known.get(text);
  if (!found) {
    const lines = text.split("\n").slice(0, -1);
    found = new Set(lines.flatMap((line) => of(JSON.parse(line))));
    known.set(text, found);
  }
  return found;
}

describe("a disk that does not take it", () => {
  test.each([
    ["ENOSPC", "EXHAUSTED"],
    ["EIO", "UNAVAILABLE"],
  ])("%s at the write fails the sender with %s, and later messages are accepted", async (system, code) => {
    let failing = true;
    const fs = fsWith({
      write: (fd, data) => {
        if (failing && data.length > 5) return realFs.write(fd, data.subarray(0, 5));
        if (failing) throw systemError(system);
        return realFs.write(fd, data);
      },
    });
    const { store, writer } = newRun(fs);
    const codes = await Promise.all([1, 2, 3].map((n) => codeOf(() => writer.inbox.add(message(`${n}`)))));
    expect(codes).toEqual([code, code, code]);
    failing = false;
    await writer.inbox.add(message("taken"));
    expect(await store.inbox(UUID)).toMatchObject({ unread: [{ data: "taken" }] });
  });

  test("an error at the sync fails this message and later ones", async () => {
    let failing = true;
    const fs = fsWith({
      fdatasync: async () => {
        if (failing) throw systemError("EIO");
      },
    });
    const { writer } = newRun(fs);
    expect(await codeOf(() => writer.inbox.add(message("a")))).toBe("UNAVAILABLE");
    failing = false;
    expect(await codeOf(() => writer.inbox.add(message("b")))).toBe("UNAVAILABLE");
  });

  test("an error at a rewrite fails the sender; nothing is lost, and a later one succeeds", async () => {
    let failing = false;
    const fs = fsWith({
      writeAsync: (fd, data) =>
        failing ? Promise.reject(systemError("ENOSPC")) : realFs.writeAsync(fd, data),
    });
    const { store, writer } = newRun(fs);
    for (let n = 1; n <= 6; n++) await writer.inbox.add(message("x".repeat(60_000)));
    writer.step({ ...stepRecord(1), inbox: [1, 2, 3, 4, 5] });
    failing = true;
    expect(await codeOf(() => writer.inbox.add(message("no")))).toBe("EXHAUSTED");
    expect(await unreadOf(store)).toEqual([6]);
    failing = false;
    const { seq } = await writer.inbox.add(message("yes"));
    expect(await unreadOf(store)).toEqual([6, seq]);
  });
});
