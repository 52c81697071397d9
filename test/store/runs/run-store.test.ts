import { describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { type FsPort, realFs } from "../../../src/store/files/fs-port.ts";
import { RunStore } from "../../../src/store/runs/run-store.ts";
import { memoryFolder } from "../../support/memory-folder.ts";
import { openJournal } from "../../support/open-journal.ts";
import { procInfo } from "../../support/samples.ts";
import { answer, callStart, event, stepRecord } from "../samples.ts";
import {
  codeOf,
  errorOf,
  fsWith,
  modes,
  openFiles,
  program,
  systemError,
  temporaryFolder,
  until,
} from "../support.ts";

// Hundreds of syncs: a busy disk takes its time.
setDefaultTimeout(120_000);

const UUID = "019a0000-0000-7000-8000-000000000001";

function newRun(fs: FsPort = realFs, limits?: { events_per_run: number }, where?: string) {
  const dataDir = temporaryFolder(where);
  const store = new RunStore(dataDir, fs);
  const writer = store.create(UUID, limits);
  return { dataDir, store, writer, file: (name: string) => join(writer.dir, name) };
}

function lines(path: string): unknown[] {
  return readFileSync(path, "utf8")
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line));
}

describe("the files of a run", () => {
  test("are laid out as documented, for their user alone, and closed between steps", async () => {
    const { dataDir, writer, file } = newRun();
    writer.meta({ v: 1, system_prompt: "p", tools: [] });
    writer.info(procInfo({ uuid: UUID }));
    writer.journal(answer(1));
    expect(openFiles(dataDir)).toBe(1);
    writer.event(event("Open"));
    writer.step(stepRecord(1));
    expect(openFiles(dataDir)).toBe(0);
    const kept = await writer.storeBlob("out.txt", "text");
    await writer.close();
    expect(writer.dir).toBe(join(dataDir, "steps", UUID));
    expect(kept.path).toBe(file(kept.file));
    expect(modes(writer.dir)).toEqual({
      "events.jsonl": "600",
      "proc-info.json": "600",
      "process-meta.json": "600",
      results: "700",
      [kept.file]: "600",
      "step.journal": "600",
      "steps.jsonl": "600",
    });
    expect(modes(dataDir)).toMatchObject({ steps: "700", [`steps/${UUID}`]: "700" });
    expect(openFiles(dataDir)).toBe(0);
  });

  test("every line and every document says its schema version", async () => {
    const { writer, file } = newRun();
    writer.info(procInfo({ uuid: UUID }));
    writer.journal(answer(1));
    writer.journal(callStart(1));
    writer.event(event("Open"));
    writer.flush();
    const journal = lines(file("step.journal"));
    writer.step(stepRecord(1));
    await writer.close();
    for (const line of [...journal, ...lines(file("steps.jsonl")), ...lines(file("events.jsonl"))]) {
      expect(line).toMatchObject({ v: 1 });
    }
    expect(JSON.parse(readFileSync(file("proc-info.json"), "utf8"))).toMatchObject({ v: 1 });
  });

  test("can be read back while and after they are written", async () => {
    const { store, writer } = newRun();
    const info = procInfo({ uuid: UUID, intent: "grün 世界" });
    writer.info(info);
    writer.meta({ v: 1, system_prompt: "p", tools: [{ name: "Read", description: "d", input: {} }] });
    writer.step(stepRecord(1));
    writer.journal(answer(2));
    writer.journal(callStart(2));
    writer.event(event("Open"));
    writer.flush();
    expect(await store.info(UUID)).toEqual(info);
    expect(await store.meta(UUID)).toMatchObject({ system_prompt: "p" });
    expect((await store.steps(UUID)).records).toMatchObject([stepRecord(1)]);
    expect(await openJournal(store, UUID)).toMatchObject({ entries: [answer(2), callStart(2)], damaged: 0 });
    expect((await store.events(UUID)).records).toEqual([event("Open")]);
    await writer.close();
    expect((await openJournal(store, UUID)).entries).toHaveLength(2);
  });

  test("the events of one syscall come from all pages of a long trace", async () => {
    const { store, writer } = newRun();
    for (let i = 0; i < 250; i++) writer.event(event(i % 50 === 0 ? "Connect" : "Open"));
    writer.event({ ...event("Open"), args: { text: '"syscall":"Connect"' } });
    await writer.close();
    expect(await Array.fromAsync(store.everyEvent(UUID, undefined, "Connect"))).toEqual(
      Array(5).fill(event("Connect")),
    );
    expect(await Array.fromAsync(store.everyEvent(UUID))).toHaveLength(251);
  });

  test("the first run in a project hides the data folder from git", () => {
    const project = temporaryFolder();
    new RunStore(join(project, ".rnix", "data")).create(UUID);
    expect(readFileSync(join(project, ".rnix", "data", ".gitignore"), "utf8")).toBe("*\n");
  });

  test("a UUID is made once, and is a UUID", async () => {
    const { store } = newRun();
    expect(await codeOf(() => store.create(UUID))).toBe("INVALID");
    for (const wrong of ["", "..", "../x", "a/b", UUID.slice(1), `${UUID}/x`]) {
      expect(await codeOf(() => store.create(wrong))).toBe("INVALID");
      expect(await codeOf(() => store.info(wrong))).toBe("INVALID");
      expect(await codeOf(() => store.remove(wrong))).toBe("INVALID");
    }
  });
});

describe("a step", () => {
  test("is recorded before its journal is emptied", () => {
    const order: string[] = [];
    const names = new Map<number, string>();
    const fs = fsWith({
      open: (path, mode) => {
        const fd = realFs.open(path, mode);
        names.set(fd, basename(path));
        return fd;
      },
      write: (fd, data) => {
        order.push(`write ${names.get(fd)}`);
        return realFs.write(fd, data);
      },
      truncate: (fd, length) => {
        order.push(`empty ${names.get(fd)}`);
        realFs.truncate(fd, length);
      },
    });
    const { writer, file } = newRun(fs);
    writer.journal(answer(1));
    writer.event(event("Open"));
    writer.step(stepRecord(1));
    expect(order).toEqual([
      "write step.journal",
      "write steps.jsonl",
      "empty step.journal",
      "write events.jsonl",
    ]);
    expect(readFileSync(file("step.journal"), "utf8")).toBe("");
  });

  test("a recorded step makes a reader ignore an old journal", async () => {
    const { store, writer, file } = newRun();
    writer.journal(answer(1));
    writer.journal(callStart(1));
    const left = readFileSync(file("step.journal"));
    writer.step(stepRecord(1));
    writeFileSync(file("step.journal"), left);
    expect(await openJournal(store, UUID)).toMatchObject({ entries: [], damaged: 0 });
    const reopened = await store.reopen(UUID).catch((error: unknown) => error);
    expect(reopened).toMatchObject({ code: "NOT_FOUND" });
    writer.info(procInfo({ uuid: UUID }));
    const again = await store.reopen(UUID);
    again.journal(answer(2));
    expect((await openJournal(store, UUID)).entries).toMatchObject([answer(2)]);
    again.step(stepRecord(2));
    await again.close();
    expect(readFileSync(file("step.journal"), "utf8")).toBe("");
    expect((await store.steps(UUID)).records.map((record) => record.step)).toEqual([1, 2]);
  });

  test("torn at any byte is not recorded, and the journal tells what was done", async () => {
    const { store, writer, file } = newRun();
    writer.step(stepRecord(1));
    const before = readFileSync(file("steps.jsonl"));
    writer.journal(answer(2));
    const journal = readFileSync(file("step.journal"));
    writer.step(stepRecord(2));
    const after = readFileSync(file("steps.jsonl"));
    writeFileSync(file("step.journal"), journal);
    for (let cut = before.length; cut <= after.length; cut++) {
      writeFileSync(file("steps.jsonl"), after.subarray(0, cut));
      const whole = cut >= after.length - 1;
      const steps = await store.steps(UUID);
      expect(steps.records.map((record) => record.step)).toEqual(whole ? [1, 2] : [1]);
      expect(steps.damaged).toBe(cut > before.length && !whole ? 1 : 0);
      expect((await openJournal(store, UUID)).entries).toHaveLength(whole ? 0 : 1);
    }
  });

  test("whose journal is torn at any byte keeps the entries before the tear", async () => {
    const { store, writer, file } = newRun();
    writer.journal(answer(1));
    const before = readFileSync(file("step.journal")).length;
    writer.journal(callStart(1));
    const whole = readFileSync(file("step.journal"));
    for (let cut = before + 1; cut < whole.length - 1; cut++) {
      writeFileSync(file("step.journal"), whole.subarray(0, cut));
      expect(await openJournal(store, UUID)).toMatchObject({ entries: [answer(1)], damaged: 1 });
    }
  });

  test("that was made durable keeps its journal until its record is durable too", async () => {
    let letGo: (() => void) | undefined;
    let holding = false;
    const fs = fsWith({
      fdatasync: async () => {
        if (holding) await new Promise<void>((resolve) => (letGo = resolve));
      },
    });
    const { store, writer, file } = newRun(fs);
    writer.journal(callStart(1));
    await writer.sync();
    holding = true;
    writer.step(stepRecord(1));
    expect(lines(file("step.journal"))).toHaveLength(1);
    expect((await openJournal(store, UUID)).entries).toEqual([]);
    // The next step begins meanwhile: its entries stay when the disk has caught up.
    writer.journal(answer(2));
    holding = false;
    letGo?.();
    await writer.sync();
    expect((await openJournal(store, UUID)).entries).toMatchObject([answer(2)]);
    writer.step(stepRecord(2));
    await writer.close();
    expect(readFileSync(file("step.journal"), "utf8")).toBe("");
  });

  test("that is recorded leaves its durable journal to readers that ignore it, until that is worth a cut", async () => {
    let cuts = 0;
    const fs = fsWith({
      truncate: (fd, length) => {
        cuts++;
        realFs.truncate(fd, length);
      },
    });
    const { store, writer, file } = newRun(fs, undefined, memoryFolder);
    let longest = 0;
    for (let step = 1; step <= 500; step++) {
      writer.journal(callStart(step));
      longest = Math.max(longest, statSync(file("step.journal")).size);
      await writer.sync();
      writer.step(stepRecord(step));
      expect((await openJournal(store, UUID)).entries).toEqual([]);
      await writer.sync();
    }
    await writer.close();
    expect(cuts).toBeGreaterThan(0);
    expect(cuts).toBeLessThan(10);
    expect(longest).toBeLessThan(80 * 1024);
    expect(readFileSync(file("step.journal"), "utf8")).toBe("");
  });

  test("with an effect is never lost to a power cut, whenever it comes", async () => {
    // What a power cut leaves at worst: what was synced, and every emptying.
    const durable = new Map<string, string>();
    const paths = new Map<number, string>();
    const history: Map<string, string>[] = [];
    let emptied = 0;
    const fs = fsWith({
      open: (path, mode) => {
        const fd = realFs.open(path, mode);
        paths.set(fd, path);
        return fd;
      },
      write: (fd, data) => {
        const written = realFs.write(fd, data);
        history.push(new Map(durable));
        return written;
      },
      truncate: (fd, length) => {
        realFs.truncate(fd, length);
        emptied++;
        durable.set(basename(paths.get(fd) ?? ""), "");
        history.push(new Map(durable));
      },
      fdatasync: async (fd) => {
        const path = paths.get(fd) ?? "";
        const name = basename(path);
        const text = readFileSync(path, "utf8");
        const before = emptied;
        await realFs.fdatasync(fd);
        // Of two syncs of one file the later one may end first; what it made durable stays so.
        const stands = name === "steps.jsonl" || emptied === before;
        if (stands && text.length > (durable.get(name) ?? "").length) durable.set(name, text);
        history.push(new Map(durable));
      },
    });
    const { writer } = newRun(fs);
    const effects: { step: number; from: number }[] = [];
    for (let step = 1; step <= 30; step++) {
      writer.journal(answer(step));
      if (step % 2 === 0) {
        writer.journal(callStart(step));
        await writer.sync();
        effects.push({ step, from: history.length });
      }
      writer.step(stepRecord(step));
      if (step % 3 === 0) await writer.sync();
    }
    await writer.close();
    expect(effects).toHaveLength(15);
    for (const { step, from } of effects) {
      for (const left of [...history.slice(from), durable]) {
        const recorded = (left.get("steps.jsonl") ?? "").includes(`"step":${step},`);
        const journalled = (left.get("step.journal") ?? "").includes(`"id":"c${step}"`);
        if (!recorded && !journalled) throw new Error(`the effect of step ${step} is lost`);
      }
    }
  });

  test("survives kill -9 of its writer at any moment: nothing lost, nothing doubled", async () => {
    for (let round = 0; round < 5; round++) {
      const dataDir = temporaryFolder();
      const store = new RunStore(dataDir);
      const writer = program("writeSteps", dataDir, UUID);
      await until(writer.stdout, "ready\n");
      writer.kill("SIGKILL");
      await writer.exited;
      const { records, damaged } = await store.steps(UUID);
      expect(damaged).toBe(0);
      expect(records.length).toBeGreaterThanOrEqual(20);
      expect(records.map((record) => record.step)).toEqual(records.map((_, i) => i + 1));
      const { entries } = await openJournal(store, UUID);
      for (const entry of entries) expect(entry.step).toBe(records.length + 1);
      expect(await store.info(UUID)).toMatchObject({ uuid: UUID });
    }
  });
});

describe("a disk that does not take it", () => {
  const faults: [string, string][] = [
    ["ENOSPC", "EXHAUSTED"],
    ["EROFS", "UNAVAILABLE"],
    ["EIO", "UNAVAILABLE"],
  ];
  for (const [system, code] of faults) {
    test(`${system} at any write is ${code} to the caller, and what was recorded stays readable`, async () => {
      let failed = 0;
      for (let nth = 1; nth <= 12; nth++) {
        let writes = 0;
        const fs = fsWith({
          write: (fd, data) => {
            if (++writes < nth) return realFs.write(fd, data);
            if (writes === nth && data.length > 5) return realFs.write(fd, data.subarray(0, 5));
            throw systemError(system);
          },
        });
        const { store, writer } = newRun(fs);
        let done = 0;
        const error = await errorOf(() => {
          for (let step = 1; step <= 3; step++) {
            writer.journal(answer(step));
            writer.journal(callStart(step));
            writer.event(event("Open"));
            writer.step(stepRecord(step));
            done = step;
          }
        });
        if (!error) continue;
        failed++;
        expect(error).toMatchObject({ code, cause: { code: system } });
        expect(error.message).toContain(UUID);
        const steps = await store.steps(UUID);
        expect(steps).toMatchObject({ damaged: 0 });
        expect([done, done + 1]).toContain(steps.records.length);
        const journal = await openJournal(store, UUID);
        expect(journal.damaged).toBe(0);
        for (const entry of journal.entries) expect(entry.step).toBe(steps.records.length + 1);
        await codeOf(() => writer.close());
        expect(openFiles(store.dataDir)).toBe(0);
      }
      expect(failed).toBe(12);
    });

    test(`${system} at a sync is ${code}, then and later`, async () => {
      let failing = true;
      const fs = fsWith({
        fdatasync: async () => {
          if (failing) throw systemError(system);
        },
      });
      const { writer } = newRun(fs);
      writer.journal(callStart(1));
      expect(await codeOf(() => writer.sync())).toBe(code);
      failing = false;
      expect(await codeOf(() => writer.sync())).toBe(code);
      expect(await codeOf(() => writer.journal(answer(1)))).toBe(code);
      expect(await codeOf(() => writer.close())).toBe(code);
    });

    test(`${system} while a record is made durable behind the step is thrown at the next call`, async () => {
      let failing = false;
      const fs = fsWith({
        fdatasync: async () => {
          if (failing) throw systemError(system);
        },
      });
      const { writer, file } = newRun(fs);
      writer.journal(callStart(1));
      await writer.sync();
      failing = true;
      writer.step(stepRecord(1));
      expect(await codeOf(() => writer.close())).toBe(code);
      expect(lines(file("step.journal"))).toHaveLength(1);
    });

    test(`${system} at the folder, the process record and a stored result is ${code}`, async () => {
      const fail = (): never => {
        throw systemError(system);
      };
      expect(await codeOf(() => newRun(fsWith({ mkdir: fail })))).toBe(code);
      const { writer } = newRun(fsWith({ rename: fail, writeAsync: async () => fail() }));
      expect(await codeOf(() => writer.info(procInfo({ uuid: UUID })))).toBe(code);
      expect(await codeOf(() => writer.storeBlob("x", "text"))).toBe(code);
      expect(readdirSync(join(writer.dir, "results"))).toEqual([]);
    });
  }
});

describe("events", () => {
  test("are written in batches, at the latest with the step", () => {
    let writes = 0;
    const fs = fsWith({
      write: (fd, data) => {
        writes++;
        return realFs.write(fd, data);
      },
    });
    const { writer, file } = newRun(fs);
    for (let i = 0; i < 100; i++) writer.event(event("Read", i));
    expect(writes).toBe(0);
    for (let i = 100; i < 1_000; i++) writer.event(event("Read", i));
    expect(writes).toBeGreaterThan(0);
    expect(writes).toBeLessThan(10);
    writer.flush();
    expect(lines(file("events.jsonl"))).toHaveLength(1_000);
  });

  test("are capped, and the last line says how many are missing", async () => {
    const { store, writer, file } = newRun(realFs, { events_per_run: 10 });
    for (let i = 1; i <= 25; i++) writer.event(event("Read", i));
    await writer.close();
    await writer.close();
    const { records } = await store.events(UUID);
    expect(records).toHaveLength(11);
    expect(records.slice(0, 10).map((record) => record.timestamp_ms)).toEqual([
      1, 2, 3, 4, 5, 6, 7, 8, 9, 10,
    ]);
    expect(records[10]).toMatchObject({
      error_code: "EXHAUSTED",
      timestamp_ms: 25,
      args: { dropped: 15, limit: 10 },
    });
    expect(lines(file("events.jsonl"))).toHaveLength(11);
  });

  test("that a disk refuses are buffered for the next try, up to a bound", async () => {
    let full = true;
    const fs = fsWith({
      write: (fd, data) => {
        if (full) throw systemError("ENOSPC");
        return realFs.write(fd, data);
      },
    });
    const { store, writer } = newRun(fs);
    const codes = new Set<string | undefined>();
    for (let i = 1; i <= 10_000; i++) codes.add(await codeOf(() => writer.event(event("Read", i))));
    expect(codes).toEqual(new Set([undefined, "EXHAUSTED"]));
    full = false;
    await writer.close();
    const { records } = await store.events(UUID);
    expect(records).toHaveLength(4_097);
    expect(records.at(-1)?.args).toMatchObject({ dropped: 5_904 });
  });

  test("of a resumed run count towards the same cap", async () => {
    const { store, writer } = newRun(realFs, { events_per_run: 10 });
    writer.info(procInfo({ uuid: UUID }));
    for (let i = 1; i <= 8; i++) writer.event(event("Read", i));
    await writer.close();
    const again = await store.reopen(UUID, { events_per_run: 10 });
    for (let i = 9; i <= 12; i++) again.event(event("Read", i));
    await again.close();
    const { records } = await store.events(UUID);
    expect(records).toHaveLength(11);
    expect(records[10]?.args).toEqual({ dropped: 2, limit: 10 });
  });

  test.each([[true], [false]])(
    "of a run whose trace can't be read are counted and dropped (by its end: %p)",
    async (toTheEnd) => {
      let faulty = false;
      const fs = fsWith({
        open: (path, mode) => {
          if (faulty && path.endsWith("events.jsonl")) throw systemError("EIO");
          return realFs.open(path, mode);
        },
      });
      const { store, writer } = newRun(fs);
      writer.info(procInfo({ uuid: UUID }));
      writer.event(event("Read", 1));
      await writer.close();
      faulty = true;
      const again = await store.reopen(UUID);
      expect(again.untraced).toMatchObject({ code: "UNAVAILABLE" });
      for (let i = 2; i <= 4; i++) again.event(event("Read", i));
      again.step(stepRecord(1));
      faulty = toTheEnd;
      await again.close();
      faulty = false;
      const dropped = [event("Read", 1).syscall, ...(toTheEnd ? [] : ["EventsDropped"])];
      const { records } = await store.events(UUID);
      expect(records.map(({ syscall }) => syscall)).toEqual(dropped);
      if (!toTheEnd) expect(records.at(-1)?.args).toMatchObject({ dropped: 3 });
    },
  );
});

describe("the index", () => {
  const uuids = [1, 2, 3].map((n) => `019a0000-0000-7000-8000-00000000000${n}`);

  test("lists runs oldest first and names those that cannot be read", async () => {
    const dataDir = temporaryFolder();
    const store = new RunStore(dataDir);
    expect(await store.list()).toEqual([]);
    for (const uuid of uuids.toReversed()) store.create(uuid).info(procInfo({ uuid }));
    mkdirSync(join(dataDir, "steps", "not-a-uuid"));
    const broken: [string, string | null, string][] = [
      ["019b0000-0000-7000-8000-000000000001", "", "an empty file"],
      ["019b0000-0000-7000-8000-000000000002", '{"v":2}', "schema version 2"],
      ["019b0000-0000-7000-8000-000000000003", '{"v":1}', "is damaged"],
      ["019b0000-0000-7000-8000-000000000004", null, "no proc-info.json"],
      [
        "019b0000-0000-7000-8000-000000000005",
        JSON.stringify(procInfo({ uuid: uuids[0] })),
        `holds the record of run ${uuids[0]}`,
      ],
    ];
    for (const [uuid, text] of broken) {
      mkdirSync(join(dataDir, "steps", uuid));
      if (text !== null) writeFileSync(join(dataDir, "steps", uuid, "proc-info.json"), text);
    }
    expect((await store.list()).map((info) => info.uuid)).toEqual(uuids);
    const { damaged } = await store.survey();
    expect(damaged.map(({ uuid }) => uuid)).toEqual(broken.map(([uuid]) => uuid));
    for (const [i, [, , message]] of broken.entries()) expect(damaged[i]?.error.message).toContain(message);
  });

  test("finds by prefix", async () => {
    const store = new RunStore(temporaryFolder());
    for (const uuid of uuids) store.create(uuid);
    expect(await store.find("019A0000-0000")).toEqual(uuids);
    expect(await store.find(uuids[1] ?? "")).toEqual([uuids[1] ?? ""]);
    expect(await store.find("02")).toEqual([]);
    expect(await store.find("../")).toEqual([]);
  });

  test("a newer schema in a log is refused whole, with the line", async () => {
    const { store, writer, file } = newRun();
    writer.step(stepRecord(1));
    appendFileSync(file("steps.jsonl"), `${JSON.stringify({ ...stepRecord(2), v: 2 })}\n`);
    writeFileSync(file("events.jsonl"), `{"v":2}\n`);
    writeFileSync(file("step.journal"), `{"v":2,"t":"new"}\n`);
    for (const read of [() => store.steps(UUID), () => store.events(UUID), () => openJournal(store, UUID)]) {
      const error = await errorOf(read);
      expect(error?.code).toBe("INVALID");
      expect(error?.message).toContain("schema version 2");
    }
    expect((await errorOf(() => store.steps(UUID)))?.message).toContain("Line 2 of steps.jsonl");
    expect((await store.steps(UUID, { limit: 1 })).records).toHaveLength(1);
  });

  test("pages by line, and a damaged line is counted and named", async () => {
    const { store, writer, file } = newRun();
    for (let step = 1; step <= 3; step++) writer.step(stepRecord(step));
    appendFileSync(file("steps.jsonl"), "damaged\n");
    writer.step(stepRecord(4));
    expect(await store.steps(UUID)).toMatchObject({
      damaged: 1,
      damagedLines: [4],
      torn: false,
      next: { after: 5 },
    });
    expect((await store.steps(UUID, { after: 1, limit: 1 })).records).toMatchObject([stepRecord(2)]);
    expect((await store.steps(UUID, { after: 3, limit: 5 })).records).toMatchObject([stepRecord(4)]);
    expect((await store.steps(UUID, { after: 9 })).records).toEqual([]);
  });

  test("what is not there is null, empty or NOT_FOUND, and remove removes", async () => {
    const { store, writer } = newRun();
    const none = uuids[2] ?? "";
    expect(await store.info(none)).toBeNull();
    expect(await store.meta(none)).toBeNull();
    expect((await store.steps(none)).records).toEqual([]);
    expect(await openJournal(store, none)).toMatchObject({ entries: [], damaged: 0 });
    expect(await codeOf(() => store.reopen(none))).toBe("NOT_FOUND");
    await store.remove(UUID);
    await store.remove(UUID);
    expect(existsSync(writer.dir)).toBe(false);
  });
});
