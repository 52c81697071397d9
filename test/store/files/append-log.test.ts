import { describe, expect, test } from "bun:test";
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SyscallError } from "../../../src/plugin/index.ts";
import { AppendLog } from "../../../src/store/files/append-log.ts";
import { type FsPort, realFs } from "../../../src/store/files/fs-port.ts";
import { type LogPage, readLog } from "../../../src/store/files/read-log.ts";
import { codeOf, errorOf, fsWith, modes, openFiles, systemError, temporaryFolder } from "../support.ts";

function logFile(): string {
  return join(temporaryFolder(), "a.jsonl");
}

function readAll(path: string, page: { after?: number; limit?: number } = {}): Promise<LogPage<unknown>> {
  return readLog(realFs, path, { after: 0, limit: 1_000_000, ...page, decode: (value) => value });
}

const LINES = [{ n: 1 }, { n: 2, text: "grün 世界 🙂" }];
const LAST = { n: 3, text: 'ü"\\\n🙂', list: [1, { a: null }] };

describe("a torn last line", () => {
  const whole = `${LINES.map((line) => JSON.stringify(line)).join("\n")}\n`;
  const last = Buffer.from(`${JSON.stringify(LAST)}\n`);

  test("is recognised, counted and skipped wherever it was cut", async () => {
    const path = logFile();
    for (let cut = 1; cut < last.length; cut++) {
      writeFileSync(path, Buffer.concat([Buffer.from(whole), last.subarray(0, cut)]));
      const complete = cut === last.length - 1;
      const page = await readAll(path);
      expect(page.records).toEqual(complete ? [...LINES, LAST] : LINES);
      expect(page.damaged).toBe(complete ? 0 : 1);
      expect(page.torn).toBe(!complete);
      expect(page.next.after).toBe(complete ? 3 : 2);
    }
  });

  test("does not eat the line that is appended after it, and is named from then on", async () => {
    const path = logFile();
    for (let cut = 1; cut < last.length; cut++) {
      writeFileSync(path, Buffer.concat([Buffer.from(whole), last.subarray(0, cut)]));
      new AppendLog(path, "a log").append(JSON.stringify({ n: 4 }));
      const complete = cut === last.length - 1;
      const page = await readAll(path);
      expect(page.records).toEqual(complete ? [...LINES, LAST, { n: 4 }] : [...LINES, { n: 4 }]);
      expect(page.damagedLines).toEqual(complete ? [] : [3]);
      expect(page.torn).toBe(false);
    }
  });

  test("of zeros, as a power loss leaves it, is one damaged line", async () => {
    const path = logFile();
    writeFileSync(path, Buffer.concat([Buffer.from(whole), Buffer.alloc(9_000)]));
    expect(await readAll(path)).toMatchObject({ records: LINES, damaged: 1, damagedLines: [3], torn: true });
    new AppendLog(path, "a log").append('{"n":4}');
    expect(await readAll(path)).toMatchObject({
      records: [...LINES, { n: 4 }],
      damagedLines: [3],
      torn: false,
    });
  });
});

describe("reading", () => {
  test("damaged lines in the middle are counted and named, the others are there", async () => {
    const path = logFile();
    const bad = [
      Buffer.from("{nope"),
      Buffer.from([0x22, 0xff, 0x22]),
      Buffer.from("12"),
      Buffer.from("null"),
    ];
    const parts = bad.flatMap((line) => [Buffer.from('{"ok":1}\n'), line, Buffer.from("\n")]);
    writeFileSync(path, Buffer.concat([...parts, Buffer.from('\n{"ok":2}\n')]));
    const page = await readAll(path);
    expect(page.records).toHaveLength(5);
    expect(page).toMatchObject({
      damaged: 5,
      damagedLines: [2, 4, 6, 8, 9],
      torn: false,
      next: { after: 10 },
    });
  });

  test("a line that is not what it should be is damaged, a SyscallError gives the reading up", async () => {
    const path = logFile();
    writeFileSync(path, '{"n":1}\n{"n":"x"}\n{"n":3}\n');
    const numbers = (value: unknown): number => {
      if (typeof value === "object" && value !== null && "n" in value && typeof value.n === "number")
        return value.n;
      throw new TypeError("no number");
    };
    const page = await readLog(realFs, path, { after: 0, limit: 10, decode: numbers });
    expect(page).toMatchObject({ records: [1, 3], damagedLines: [2] });
    const refuse = (): never => {
      throw new SyscallError("INVALID", "newer");
    };
    expect(await codeOf(() => readLog(realFs, path, { after: 0, limit: 10, decode: refuse }))).toBe(
      "INVALID",
    );
  });

  test("pages of every size give every line once, in order", async () => {
    const path = logFile();
    const lines = Array.from({ length: 25 }, (_, n) => (n % 5 === 4 ? "broken" : JSON.stringify({ n })));
    writeFileSync(path, `${lines.join("\n")}\n`);
    const expected = (await readAll(path)).records;
    for (let limit = 1; limit <= 26; limit++) {
      const records: unknown[] = [];
      let damaged = 0;
      for (let after = 0; ; ) {
        const page = await readAll(path, { after, limit });
        records.push(...page.records);
        damaged += page.damaged;
        if (page.next.after === after) break;
        after = page.next.after;
      }
      expect(records).toEqual(expected);
      expect(damaged).toBe(5);
    }
  });

  test("lines longer than a chunk, and a file that is not there", async () => {
    const path = logFile();
    expect(await readAll(path)).toMatchObject({ records: [], damaged: 0, next: { after: 0 } });
    const sizes = [1, 65_530, 65_536, 65_537, 200_000, 3, 1_000_000, 0];
    const log = new AppendLog(path, "a log");
    for (const size of sizes) log.append(JSON.stringify({ text: "ü".repeat(size) }));
    const page = await readAll(path);
    expect(page.records).toEqual(sizes.map((size) => ({ text: "ü".repeat(size) })));
  });

  test("a line that is being written is not passed over", async () => {
    const path = logFile();
    writeFileSync(path, '{"n":1}\n{"n"');
    const first = await readAll(path);
    expect(first).toMatchObject({ records: [{ n: 1 }], torn: true, next: { after: 1 } });
    appendFileSync(path, ":2}\n");
    expect(await readAll(path, { after: first.next.after })).toMatchObject({
      records: [{ n: 2 }],
      damaged: 0,
    });
  });
});

describe("appending", () => {
  test("makes the file for its user alone and leaves it closed", () => {
    const dir = temporaryFolder();
    const log = new AppendLog(join(dir, "a.jsonl"), "a log");
    log.append('{"n":1}', '{"n":2}');
    log.append();
    expect(readFileSync(log.path, "utf8")).toBe('{"n":1}\n{"n":2}\n');
    expect(modes(dir)).toEqual({ "a.jsonl": "600" });
    expect(openFiles(dir)).toBe(0);
  });

  test("keeps the file open on request, until close", () => {
    const dir = temporaryFolder();
    const log = new AppendLog(join(dir, "a.jsonl"), "a log", { keepOpen: true });
    log.append('{"n":1}');
    expect(openFiles(dir)).toBe(1);
    log.empty();
    expect(readFileSync(log.path, "utf8")).toBe("");
    log.append('{"n":2}');
    log.close();
    log.close();
    expect(readFileSync(log.path, "utf8")).toBe('{"n":2}\n');
    expect(openFiles(dir)).toBe(0);
  });

  test("short writes are continued", () => {
    const fs = fsWith({ write: (fd, data) => realFs.write(fd, data.subarray(0, 3)) });
    const log = new AppendLog(logFile(), "a log", { fs });
    log.append('{"n":"a longer line"}');
    expect(readFileSync(log.path, "utf8")).toBe('{"n":"a longer line"}\n');
  });

  test("a disk that fills up in the middle of a line leaves no part of it", async () => {
    const path = logFile();
    let room = 10;
    const fs = fsWith({
      write: (fd, data) => {
        if (room === 0) throw systemError("ENOSPC");
        const written = realFs.write(fd, data.subarray(0, room));
        room -= written;
        return written;
      },
    });
    const log = new AppendLog(path, "steps.jsonl of run X", { fs });
    log.append('{"n":1}');
    const error = await errorOf(() => log.append('{"n":2}'));
    expect(error).toMatchObject({ code: "EXHAUSTED", cause: { code: "ENOSPC" } });
    expect(error?.message).toContain("steps.jsonl of run X");
    expect(readFileSync(path, "utf8")).toBe('{"n":1}\n');
    room = 100;
    log.append('{"n":3}');
    expect(readFileSync(path, "utf8")).toBe('{"n":1}\n{"n":3}\n');
  });

  test("where the failed write cannot be undone either, the next line still has a line of its own", async () => {
    const path = logFile();
    let full = false;
    const fs = fsWith({
      write: (fd, data) => {
        if (!full) return realFs.write(fd, data);
        if (data.length < 8) throw systemError("EIO");
        return realFs.write(fd, data.subarray(0, 4));
      },
      truncate: () => {
        throw systemError("EIO");
      },
    });
    const log = new AppendLog(path, "a log", { fs });
    log.append('{"n":1}');
    full = true;
    expect(await codeOf(() => log.append('{"n":2}'))).toBe("UNAVAILABLE");
    full = false;
    log.append('{"n":3}');
    expect(await readAll(path)).toMatchObject({ records: [{ n: 1 }, { n: 3 }], damagedLines: [2] });
  });

  const faults: [string, string][] = [
    ["EROFS", "UNAVAILABLE"],
    ["EACCES", "UNAVAILABLE"],
    ["ENOSPC", "EXHAUSTED"],
    ["EDQUOT", "EXHAUSTED"],
    ["EMFILE", "EXHAUSTED"],
    ["ENOTDIR", "INVALID"],
    ["EWHATEVER", "UNAVAILABLE"],
  ];
  for (const [system, code] of faults) {
    test(`${system} at open is ${code}, with the cause`, async () => {
      const fs = fsWith({
        open: () => {
          throw systemError(system);
        },
      });
      const log = new AppendLog(logFile(), "a log", { fs });
      expect(await errorOf(() => log.append("{}"))).toMatchObject({ code, cause: { code: system } });
      expect(await errorOf(() => log.empty())).toMatchObject({ code, cause: { code: system } });
    });
  }
});

describe("sync", () => {
  test("syncs once for many lines, and not at all for none", async () => {
    let syncs = 0;
    const fs = fsWith({
      fdatasync: async (fd) => {
        syncs++;
        await realFs.fdatasync(fd);
      },
    });
    const dir = temporaryFolder();
    const log = new AppendLog(join(dir, "a.jsonl"), "a log", { fs });
    await log.sync();
    log.append("{}");
    log.append("{}");
    await Promise.all([log.sync(), log.sync()]);
    await log.sync();
    expect(syncs).toBe(1);
    log.append("{}");
    await log.sync();
    expect(syncs).toBe(2);
    expect(openFiles(dir)).toBe(0);
  });

  test("a failure is final: what the disk has lost is not known", async () => {
    let failing = true;
    const fs = fsWith({
      fdatasync: async () => {
        if (failing) throw systemError("EIO");
      },
    });
    const log = new AppendLog(logFile(), "a log", { fs });
    log.append("{}");
    expect(await codeOf(() => log.sync())).toBe("UNAVAILABLE");
    failing = false;
    expect(await codeOf(() => log.sync())).toBe("UNAVAILABLE");
    expect(await codeOf(() => log.append("{}"))).toBe("UNAVAILABLE");
  });

  test("at most four are in flight in the whole process, and all get their turn", async () => {
    const waiting: (() => void)[] = [];
    let most = 0;
    const held: Pick<FsPort, "fdatasync"> = {
      fdatasync: () =>
        new Promise((resolve) => {
          waiting.push(resolve);
          most = Math.max(most, waiting.length);
        }),
    };
    const logs = Array.from({ length: 20 }, () => new AppendLog(logFile(), "a log", { fs: fsWith(held) }));
    for (const log of logs) log.append("{}");
    let done = 0;
    const all = Promise.all(logs.map((log) => log.sync().then(() => done++)));
    while (done < logs.length) {
      waiting.shift()?.();
      await Promise.resolve();
    }
    await all;
    expect(most).toBe(4);
  });
});
