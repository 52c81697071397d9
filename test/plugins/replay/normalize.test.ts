import { describe, expect, test } from "bun:test";
import { errorOf, normalize } from "../../../plugins/replay/normalize.ts";

const usual = normalize({ cwd: "/now/app", project: "/now" }, { cwd: "/then/app", project: "/then" });

describe("two results are equal despite different", () => {
  const same: [string, string, string][] = [
    ["the folder of the run", "/now/app/a.ts:1", "/then/app/a.ts:1"],
    ["the project", "in /now/lib", "in /then/lib"],
    ["a duration", "3 pass [12.00ms]", "3 pass [7.51ms]"],
    ["a longer one", "took 1m 2s", "took 3m 40s"],
    ["words for one", "in 3 seconds", "in 12 seconds"],
    ["a time", "at 2026-11-20T19:33:24Z", "at 2027-01-02 03:04:05.678+01:00"],
    ["a date", "Date: 2026-11-20", "Date: 2027-01-02"],
    ["the time of a clock", "19:33:24 started", "07:01:02 started"],
    ["a time as ls says it", "-rw 1 me 5 Nov 20 19:33 a", "-rw 1 me 5 Jan  2 2026 a"],
    ["a time as date says it", "Fri Nov 20 20:07:05 UTC 2026", "Sat Jan  2 01:02:03 CET 2027"],
    [
      "a time as git says it",
      "Date:   Fri Nov 20 20:07:05 2026 +0100",
      "Date:   Sat Jan 2 01:02:03 2027 +0000",
    ],
    ["a time as mail says it", "Fri, 20 Nov 2026 20:07:05 GMT", "Sat, 2 Jan 2027 01:02:03 +0000"],
    ["a UUID", "run 0199e0a0-0000-7000-8000-000000000000", "run 0199e0a1-1111-7111-9111-111111111111"],
    ["a PID", "PID 312 has ended", "PID 9 has ended"],
    ["a port of this machine", "on http://127.0.0.1:4312/", "on http://127.0.0.1:80/"],
    ["an address", "at 0x7ffd1234", "at 0x55aabb00"],
    ["a temporary folder", "/tmp/tmp.aX3/out.txt", "/tmp/tmp.Zk9/out.txt"],
    ["what was cut and where it is kept", cut(12, "/then/steps/a/x"), cut(15, "/now/steps/b/y")],
    ["a newline at the end", "done\n", "done"],
  ];
  for (const [title, a, b] of same) test(title, () => expect(usual(a)).toBe(usual(b)));
});

describe("two results differ with", () => {
  const others: [string, string, string][] = [
    ["another number", "3 pass", "2 pass"],
    ["another file", "/now/app/a.ts", "/then/app/b.ts"],
    ["another name below a temporary folder", "/tmp/x1/a.txt", "/tmp/x2/b.txt"],
    ["a folder that only begins so", "/now/app2/a", "/then/app/a"],
    ["another indentation", "  a", "a"],
    ["another word for a time", "in 3 steps", "in 4 steps"],
    ["another month's name", "May I go?", "Jun I go?"],
    ["another version", "v1.2.3", "v1.2.4"],
  ];
  for (const [title, a, b] of others) test(title, () => expect(usual(a)).not.toBe(usual(b)));
});

test("a failed call is recognised by the code at the beginning of its result", () => {
  expect(errorOf("Error NOT_FOUND: no such file")).toBe("NOT_FOUND");
  expect(errorOf("Error: no such file")).toBeNull();
  expect(errorOf("done\nError NOT_FOUND: quoted")).toBeNull();
});

function cut(left: number, where: string): string {
  return `head\n[… ${left} of 99 characters left out here. The whole result is in ${where} …]\ntail`;
}
