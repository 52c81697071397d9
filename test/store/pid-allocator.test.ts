import { describe, expect, test } from "bun:test";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PidAllocator } from "../../src/store/pid-allocator.ts";
import { memoryFolder } from "../support/memory-folder.ts";
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
} from "./support.ts";

function take(pids: PidAllocator, count: number): number[] {
  return Array.from({ length: count }, () => pids.next());
}

describe("the allocator of PIDs", () => {
  test("counts from 1 and over the end of a block", () => {
    const dir = temporaryFolder();
    const pids = new PidAllocator(join(dir, "rnix", "pids"), { block: 4 });
    expect(take(pids, 10)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(modes(dir)).toEqual({
      rnix: "700",
      "rnix/pids": "600",
      "rnix/pids.copy": "600",
      "rnix/pids.lock": "600",
    });
    expect(openFiles(dir)).toBe(0);
  });

  test("what was not used is given back at an ordered end", () => {
    const file = join(temporaryFolder(), "pids");
    for (let run = 0; run < 3; run++) {
      const pids = new PidAllocator(file);
      expect(take(pids, 2)).toEqual([run * 2 + 1, run * 2 + 2]);
      pids.release();
      pids.release();
    }
  });

  test("nothing is given back that lies below what another has taken", () => {
    const file = join(temporaryFolder(), "pids");
    const daemon = new PidAllocator(file, { block: 4 });
    const command = new PidAllocator(file, { block: 4 });
    expect(daemon.next()).toBe(1);
    expect(command.next()).toBe(5);
    daemon.release();
    command.release();
    expect(new PidAllocator(file).next()).toBe(6);
    expect(daemon.next()).toBe(22);
  });

  test("a crash loses the rest of the block, never a number that was shown", () => {
    const file = join(temporaryFolder(), "pids");
    expect(take(new PidAllocator(file, { block: 8 }), 3)).toEqual([1, 2, 3]);
    expect(new PidAllocator(file).next()).toBe(9);
  });

  test("four processes at once never get the same number", async () => {
    // Each waits for the others' syncs, and for no longer than two seconds.
    const file = join(temporaryFolder(memoryFolder), "pids");
    const takers = Array.from({ length: 4 }, () => program("takePids", file, "200"));
    await Promise.all(takers.map((taker) => until(taker.stdout, "ready\n")));
    for (const taker of takers) await taker.stdin.end();
    const outputs = await Promise.all(takers.map((taker) => until(taker.stdout, "\n")));
    const numbers = outputs.flatMap((output) => output.trim().split(" ").map(Number));
    expect(numbers).toHaveLength(800);
    expect(new Set(numbers).size).toBe(800);
    for (const output of outputs) {
      const own = output.trim().split(" ").map(Number);
      expect(own).toEqual(own.toSorted((a, b) => a - b));
    }
    for (const taker of takers) expect(await taker.exited).toBe(0);
  });

  test.each([
    ["garbage", "garbage"],
    ["zeros", "\0".repeat(40)],
    ["nothing", ""],
    ["a piece of it", '{"v":1,"la'],
  ])("a file that holds %s is restored from its copy, and a warning says so", (_, text) => {
    const file = join(temporaryFolder(), "pids");
    const pids = new PidAllocator(file, { block: 4 });
    expect(take(pids, 6)).toEqual([1, 2, 3, 4, 5, 6]);
    pids.release();
    writeFileSync(file, text);
    const warnings: string[] = [];
    const next = new PidAllocator(file, { block: 4, warn: (line) => warnings.push(line) });
    expect(take(next, 2)).toEqual([9, 10]);
    expect(warnings).toEqual([expect.stringContaining("pids was damaged. Its copy says 8")]);
    writeFileSync(file, text);
    next.release();
    expect(new PidAllocator(file).next()).toBe(11);
  });

  test("a missing file continues from its copy; a damaged copy is restored", () => {
    const file = join(temporaryFolder(), "pids");
    expect(new PidAllocator(file, { block: 4 }).next()).toBe(1);
    rmSync(file);
    expect(new PidAllocator(file, { block: 4 }).next()).toBe(5);
    writeFileSync(`${file}.copy`, "garbage");
    expect(new PidAllocator(file, { block: 4 }).next()).toBe(9);
    rmSync(file);
    expect(new PidAllocator(file, { block: 4 }).next()).toBe(13);
  });

  test("a file that is damaged with its copy is not guessed at, and the message says how to repair it", async () => {
    const file = join(temporaryFolder(), "pids");
    writeFileSync(file, "garbage");
    writeFileSync(`${file}.copy`, "garbage");
    const error = await errorOf(() => new PidAllocator(file).next());
    expect(error?.code).toBe("UNAVAILABLE");
    expect(error?.message).toContain('{"v":1,"last":N}');
    writeFileSync(
      file,
      '{ "v": 1, "last": 41, "remark": "repaired by hand, and longer than what we write" }',
    );
    expect(new PidAllocator(file).next()).toBe(42);
    expect(new PidAllocator(file).next()).toBe(58);
    writeFileSync(file, '{"v":2,"last":1}');
    expect(await codeOf(() => new PidAllocator(file).next())).toBe("UNAVAILABLE");
    expect(readFileSync(file, "utf8")).toBe('{"v":2,"last":1}');
  });

  test("a full disk gives no number", async () => {
    const file = join(temporaryFolder(), "pids");
    let full = true;
    const fs = fsWith({
      fdatasyncNow: () => {
        if (full) throw systemError("ENOSPC");
      },
    });
    const pids = new PidAllocator(file, { fs });
    expect(await codeOf(() => pids.next())).toBe("EXHAUSTED");
    full = false;
    expect(pids.next()).toBeGreaterThan(0);
  });
});
