import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { problemsOf } from "../../../src/cli/report/problems.ts";

let folder = "";

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "rnix-problems-"));
  mkdirSync(join(folder, "src"));
  writeFileSync(join(folder, "src/a.ts"), "");
  writeFileSync(join(folder, "main.go"), "");
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

function found(output: string): string[] {
  const checks = [{ command: "make test", exit_code: 1, output }];
  return problemsOf({ checks }, folder).map(
    ({ path, line, column, message }) => `${path} ${line} ${column ?? "-"} ${message}`,
  );
}

test.each([
  ["GCC and ESLint", "src/a.ts:10:5: error: x is not defined", ["src/a.ts 10 5 error: x is not defined"]],
  ["without a column", "src/a.ts:10: bad", ["src/a.ts 10 - bad"]],
  ["go test, indented", "    main.go:7: got 1, want 2", ["main.go 7 - got 1, want 2"]],
  [
    "tsc",
    "src/a.ts(3,4): error TS2304: Cannot find name 'x'.",
    ["src/a.ts 3 4 error TS2304: Cannot find name 'x'."],
  ],
  ["tsc, pretty", "src/a.ts:3:4 - error TS2304: no x", ["src/a.ts 3 4 error TS2304: no x"]],
  [
    "rustc",
    "error[E0308]: mismatched types\n  --> src/a.ts:2:3",
    ["src/a.ts 2 3 error[E0308]: mismatched types"],
  ],
  ["a stack trace", "Error: boom\n    at f (src/a.ts:9:1)", ["src/a.ts 9 1 Error: boom"]],
  ["with colours", "\u001b[31msrc/a.ts:1:2: red\u001b[0m", ["src/a.ts 1 2 red"]],
  ["the same place twice", "src/a.ts:1:2: x\nsrc/a.ts:1:2: x", ["src/a.ts 1 2 x"]],
  ["no such file", "src/none.ts:1:2: x", []],
  ["outside the folder", "../src/a.ts:1:2: x\n/etc/passwd:1:1: x", []],
  ["a folder", "src:1:2: x", []],
  ["a time and an address", "12:30:05: started\nhttp://localhost:80: up", []],
])("%s", (_form, output, problems) => {
  expect(found(output)).toEqual(problems);
});

test("a passed check, one without output and an absolute path inside the folder", () => {
  expect(problemsOf({ checks: [{ command: "c", exit_code: 0, output: "src/a.ts:1:1: x" }] }, folder)).toEqual(
    [],
  );
  expect(problemsOf({ checks: [{ command: "c", exit_code: 1 }] }, folder)).toEqual([]);
  expect(found(`${folder}/src/a.ts:1:1: x`)).toEqual(["src/a.ts 1 1 x"]);
});

test("at most fifty", () => {
  const lines = Array.from({ length: 80 }, (_, n) => `src/a.ts:${n + 1}:1: x`);
  expect(found(lines.join("\n"))).toHaveLength(50);
});
