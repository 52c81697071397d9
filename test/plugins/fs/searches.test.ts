import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { SearchRequest } from "../../../plugins/fs/search/search.ts";
import { Searches } from "../../../plugins/fs/search/searches.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import { failure } from "../../support/failure.ts";
import { until } from "../../support/until.ts";
import { Project } from "./project.ts";

const never = new AbortController().signal;
const all = async (paths: string[]): Promise<boolean[]> => paths.map(() => true);

let project: Project;
let searches: Searches;
beforeAll(() => {
  project = new Project();
  for (let i = 0; i < 1_000; i++) project.put(`f${i % 10}/${i}.txt`, `line of ${i}\n`);
});
afterAll(() => project[Symbol.dispose]());

async function using(run: () => Promise<void>): Promise<void> {
  searches = new Searches();
  try {
    await run();
  } finally {
    await searches.end();
  }
}

const glob = (pattern = "**/*"): SearchRequest => ({
  op: "glob",
  cwd: project.dir,
  folder: project.dir,
  pattern,
  original: pattern,
  limit: 1_000,
});
const grep = (pattern: string): SearchRequest => ({
  op: "grep",
  cwd: project.dir,
  start: project.dir,
  input: { pattern, head_limit: 5_000 },
});

describe("searches", () => {
  test("of one owner run one after the other, of different owners in parallel", () =>
    using(async () => {
      const asked: string[] = [];
      const gate = Promise.withResolvers<void>();
      const held = (name: string) => async (paths: string[]) => {
        asked.push(name);
        await gate.promise;
        return all(paths);
      };
      const first = searches.run("a", glob(), held("a1"), never);
      const second = searches.run("a", glob(), held("a2"), never);
      const other = await searches.run("b", glob("f1/*"), all, never);
      expect(other.split("\n")).toHaveLength(100);
      await until(() => asked.length > 0);
      expect(asked).not.toContain("a2");
      gate.resolve();
      expect((await first).split("\n")).toHaveLength(1_000);
      expect(await second).toBe(await first);
    }));

  test("that start at once all get their answer", () =>
    using(async () => {
      const answers = await Promise.all(
        Array.from({ length: 40 }, (_, i) => searches.run(`run ${i % 12}`, grep(`of ${i}$`), all, never)),
      );
      expect(answers).toEqual(Array.from({ length: 40 }, (_, i) => `f${i % 10}/${i}.txt`));
    }));

  test("end with their signal, running or waiting, and do not affect the next one", () =>
    using(async () => {
      const controller = new AbortController();
      const deaf = (): Promise<boolean[]> => Promise.withResolvers<boolean[]>().promise;
      const ends = [1, 2, 3].map(() =>
        failure(() => searches.run("a", grep("line"), deaf, controller.signal)),
      );
      controller.abort(new SyscallError("TIMEOUT", "too late"));
      for (const error of await Promise.all(ends)) {
        expect([error.code, error.message]).toEqual(["TIMEOUT", "too late"]);
      }
      expect(await searches.run("a", grep("of 7$"), all, never)).toBe("f7/7.txt");
    }));

  test("fail with the error of the rules, and with CLOSED when they are ended", () =>
    using(async () => {
      const fails = async (): Promise<boolean[]> => {
        throw new SyscallError("INTERNAL", "no rules today");
      };
      expect((await failure(() => searches.run("a", grep("line"), fails, never))).message).toBe(
        "no rules today",
      );
      expect(await searches.run("a", grep("of 7$"), all, never)).toBe("f7/7.txt");
      const deaf = (): Promise<boolean[]> => Promise.withResolvers<boolean[]>().promise;
      const ended = failure(() => searches.run("a", grep("line"), deaf, never));
      await searches.end();
      expect((await ended).code).toBe("CLOSED");
    }));

  test("fail with the errors of an unsupported pattern and of a missing folder", () =>
    using(async () => {
      expect((await failure(() => searches.run("a", grep("("), all, never))).code).toBe("INVALID");
      const gone: SearchRequest = {
        op: "grep",
        cwd: "/",
        start: project.path("gone"),
        input: { pattern: "x" },
      };
      expect((await failure(() => searches.run("a", gone, all, never))).code).toBe("NOT_FOUND");
    }));
});
