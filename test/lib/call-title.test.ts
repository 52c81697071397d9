import { describe, expect, test } from "bun:test";
import { callsTitle, callTitle, didTitle, firstLine } from "../../src/lib/call-title.ts";

const CWD = "/home/me/project";

describe("the title of a call", () => {
  test.each([
    ["Bash", { command: "npm test", description: "runs the tests" }, "Bash npm test"],
    ["Bash", { command: "\n  cd a &&\n  ls\n" }, "Bash cd a && …"],
    ["Bash", { command: "ls\n\n" }, "Bash ls"],
    ["Edit", { path: `${CWD}/src/a.ts`, old_string: "a", new_string: "b" }, "Edit src/a.ts"],
    ["Read", { path: "/etc/hosts" }, "Read /etc/hosts"],
    ["Grep", { pattern: "total", path: `${CWD}/src` }, "Grep total in src"],
    ["Glob", { pattern: "**/*.ts" }, "Glob **/*.ts"],
    ["Agent", { agent: "coder", intent: "Count the files" }, "Agent Count the files"],
    ["mcp__github__get", { owner: "a", number: 3 }, "mcp__github__get a"],
    ["Plan", { steps: ["x"] }, "Plan"],
    ["Messages", {}, "Messages"],
  ])("%s %j", (name, input, title) => {
    expect(callTitle({ name, input }, CWD)).toBe(title);
  });

  test("is short, and holds no half of a character", () => {
    const title = callTitle({ name: "Bash", input: { command: "😀".repeat(1_000_000) } }, CWD);
    expect(title.length).toBeLessThanOrEqual(200);
    expect(title.isWellFormed()).toBe(true);
    expect(title).toEndWith("…");
  });
});

test("several calls are counted, with the tools in their order", () => {
  const call = (name: string) => ({ name, input: { command: "x" } });
  expect(callsTitle([], CWD)).toBe("");
  expect(callsTitle([call("Bash")], CWD)).toBe("Bash x");
  expect(callsTitle(["Read", "Grep", "Bash"].map(call), CWD)).toBe("3 calls: Read, Grep, Bash");
  expect(callsTitle(["Read", "Bash", "Read"].map(call), CWD)).toBe("3 calls: Read ×2, Bash");
  expect(callsTitle(["A", "B", "C", "D", "E"].map(call), CWD)).toBe("5 calls: A, B, C, D, …");
});

test("the first line of a text says whether more follows", () => {
  expect(firstLine("npm test\n")).toBe("npm test");
  expect(firstLine("npm test\nnpm run lint")).toBe("npm test …");
});

test("what a step did names each call, how it failed, and how many more there were", () => {
  const call = (state: string, command: string) => ({ name: "Bash", input: { command }, state });
  expect(didTitle([call("done", "ls"), call("failed", "npm test"), call("denied", "rm -r .")], CWD)).toBe(
    "Bash ls; Bash npm test (failed); Bash rm -r . (denied)",
  );
  const many = didTitle(
    Array.from({ length: 256 }, () => call("done", "x".repeat(150))),
    CWD,
  );
  expect(many.length).toBeLessThanOrEqual(1000);
  expect(many).toMatch(/; and 25\d more$/);
});
