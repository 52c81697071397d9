import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  appendFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DailySpending } from "../../src/store/daily-spending.ts";
import { seeded } from "../support/seeded.ts";
import { fsWith, systemError } from "./support.ts";

const DAY = "2026-11-20";
let dir = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "rnix-days-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const file = (day = DAY) => join(dir, "spending", `${day}.jsonl`);

describe("the book of a day", () => {
  test("is there for the next process that opens it", () => {
    const book = new DailySpending(dir);
    expect(book.has(DAY)).toBe(false);
    expect(book.spent(DAY)).toEqual({ tokens: 0, cost: 0 });
    book.add(DAY, { tokens: 10, cost: 0.25 });
    book.add(DAY, { tokens: 5, cost: 0 });
    for (const one of [book, new DailySpending(dir)])
      expect(one.spent(DAY)).toEqual({ tokens: 15, cost: 0.25 });
    expect(book.has(DAY)).toBe(true);
    expect(statSync(file()).mode & 0o777).toBe(0o600);
  });

  test.each(["EPERM", "ENOTSUP"])(
    "begins once where the file system has no hard links (%s)",
    async (code) => {
      const fs = fsWith({
        link: () => {
          throw systemError(code);
        },
      });
      await new DailySpending(dir, fs).begin(DAY, { tokens: 7, cost: 1 });
      await new DailySpending(dir, fs).begin(DAY, { tokens: 9, cost: 9 });
      expect(new DailySpending(dir, fs).spent(DAY)).toEqual({ tokens: 7, cost: 1 });
      expect(readdirSync(join(dir, "spending"))).toEqual([`${DAY}.jsonl`]);
    },
  );

  test("another day begins with nothing, and the one before is still there", () => {
    const book = new DailySpending(dir);
    book.add(DAY, { tokens: 10, cost: 1 });
    book.add("2026-11-21", { tokens: 3, cost: 0 });
    expect(book.spent("2026-11-21")).toEqual({ tokens: 3, cost: 0 });
    expect(book.spent(DAY)).toEqual({ tokens: 10, cost: 1 });
  });

  test.each(Array.from({ length: 20 }, (_, seed) => seed))(
    "is one for all kernels that write and read it, in whatever order (seed %i)",
    (seed) => {
      const random = seeded(seed);
      const books = [new DailySpending(dir), new DailySpending(dir), new DailySpending(dir)];
      let sum = 0;
      for (let i = 0; i < 100; i++) {
        const book = books[Math.floor(random() * books.length)] ?? books[0];
        if (random() < 0.5) {
          const tokens = Math.floor(random() * 1000);
          book?.add(DAY, { tokens, cost: 0 });
          sum += tokens;
        } else if (random() < 0.2) {
          books[0] = new DailySpending(dir);
        } else expect(book?.spent(DAY).tokens).toBe(sum);
      }
      for (const book of books) expect(book.spent(DAY).tokens).toBe(sum);
    },
  );

  test("a line that a kill has cut off says nothing, and the next one is whole", () => {
    const book = new DailySpending(dir);
    book.add(DAY, { tokens: 10, cost: 0 });
    appendFileSync(file(), '{"v":1,"tokens":99');
    expect(book.spent(DAY).tokens).toBe(10);
    new DailySpending(dir).add(DAY, { tokens: 1, cost: 0 });
    for (const one of [book, new DailySpending(dir)]) expect(one.spent(DAY).tokens).toBe(11);
  });

  test("a line with a negative or invalid amount is ignored", () => {
    const book = new DailySpending(dir);
    book.add(DAY, { tokens: 10, cost: 0.5 });
    const lines = ['{"v":1,"tokens":-1e9,"cost":-3}', '{"v":1,"tokens":1e999,"cost":"2"}', "null", "[]", "7"];
    appendFileSync(file(), `${lines.join("\n")}\n`);
    for (const one of [book, new DailySpending(dir)])
      expect(one.spent(DAY)).toEqual({ tokens: 10, cost: 0.5 });
  });

  test("a second opener does not add the earlier spending again", async () => {
    const [one, two] = [new DailySpending(dir), new DailySpending(dir)];
    await Promise.all([one.begin(DAY, { tokens: 7, cost: 2 }), two.begin(DAY, { tokens: 7, cost: 2 })]);
    await two.begin(DAY, { tokens: 50, cost: 5 });
    for (const book of [one, two]) expect(book.spent(DAY)).toEqual({ tokens: 7, cost: 2 });
    expect(readdirSync(join(dir, "spending"))).toEqual([`${DAY}.jsonl`]);
    expect(readFileSync(file(), "utf8")).toBe('{"v":1,"tokens":7,"cost":2}\n');
  });

  test("is not read when it has more bytes than a day's calls can fill", () => {
    new DailySpending(dir).add(DAY, { tokens: 10, cost: 0 });
    truncateSync(file(), 2 ** 30);
    const opened = new DailySpending(dir);
    const memory = process.memoryUsage().rss;
    expect(() => opened.spent(DAY)).toThrow(/has 1073741824 bytes.*Remove it/);
    expect(process.memoryUsage().rss - memory).toBeLessThan(2 ** 28);
  });

  test("keeps one month", async () => {
    const book = new DailySpending(dir);
    for (let month = 1; month <= 4; month++)
      for (let day = 10; day < 20; day++) book.add(`2026-0${month}-${day}`, { tokens: 1, cost: 0 });
    writeFileSync(join(dir, "spending", "notes.txt"), "mine");
    await book.begin(DAY, { tokens: 0, cost: 0 });
    const left = readdirSync(join(dir, "spending"));
    expect(left).toHaveLength(32);
    expect(left).toContain("notes.txt");
    expect(left.toSorted()[0]).toBe("2026-02-10.jsonl");
  });
});
