import { describe, expect, test } from "bun:test";
import {
  cut,
  formatBytes,
  formatCost,
  formatCount,
  formatElapsed,
  oneLine,
  plural,
  printable,
} from "../../src/cli/output/format.ts";
import { styleOf } from "../../src/cli/output/style.ts";
import { waitsFor } from "../../src/cli/output/suspension.ts";
import { syscallLine } from "../../src/cli/output/syscall.ts";
import { fields, table } from "../../src/cli/output/table.ts";
import { BlockText } from "../../src/cli/transcript/block-text.ts";
import { callBlock } from "../../src/cli/transcript/run-calls.ts";
import type { Block, CallBlock } from "../../src/cli/transcript/transcript.ts";
import { FakeOutput } from "./support.ts";

const plain = styleOf({ env: {} }, new FakeOutput());

describe("numbers", () => {
  test.each([
    [0, "0ms"],
    [999, "999ms"],
    [1000, "1.0s"],
    [59_949, "59.9s"],
    [59_950, "1m00s"],
    [185_000, "3m05s"],
    [3_599_400, "59m59s"],
    [3_600_000, "1h00m"],
    [86_400_000, "1d00h"],
    [273_600_000, "3d04h"],
  ])("%i ms is %s", (ms, text) => expect(formatElapsed(ms)).toBe(text));

  test.each([
    [0, "0"],
    [999, "999"],
    [1000, "1.0k"],
    [9949, "9.9k"],
    [9950, "10k"],
    [35_400, "35k"],
    [999_499, "999k"],
    [999_500, "1.0M"],
    [1_340_000, "1.3M"],
  ])("%i tokens are %s", (n, text) => expect(formatCount(n)).toBe(text));

  test("an unknown cost is not shown as zero", () => {
    expect([null, 0, 0.004, 0.01, 12.5].map(formatCost)).toEqual([
      "-",
      "$0.00",
      "$0.0040",
      "$0.01",
      "$12.50",
    ]);
  });

  test("bytes and plurals", () => {
    expect([512, 2048, 3_145_728].map(formatBytes)).toEqual(["512 B", "2.0 KiB", "3.0 MiB"]);
    expect([plural(1, "step"), plural(2, "step")]).toEqual(["1 step", "2 steps"]);
  });
});

describe("text", () => {
  test("is truncated by columns, not by characters", () => {
    expect(cut("日本語日本語", 7)).toBe("日本語…");
    expect(cut("short", 5)).toBe("short");
    expect(cut("👩‍👩‍👧‍👦 family", 4)).toBe("👩‍👩‍👧‍👦…");
  });

  test("on one line has no newline and no control characters", () => {
    expect(oneLine(" a\n\tb\x1b[31mc\x07 ", 20)).toBe("a bc");
    expect(printable("a\tb\n\r\x1b]8;;x\x1b\\c\u009b")).toBe("a\tb\nc");
    expect(printable("a\u202eb\u2066c\u200fd\u2028e👩‍👩‍👧")).toBe("abcde👩‍👩‍👧");
  });
});

describe("a table", () => {
  const rows = [
    { pid: 1, intent: "short" },
    { pid: 12, intent: "one that is far too long for a narrow terminal, so that something has to give way" },
    { pid: 123, intent: "wide 日本語\nand a second line" },
  ];
  const columns = [
    { title: "PID", value: (row: (typeof rows)[number]) => String(row.pid), right: true },
    { title: "INTENT", value: (row: (typeof rows)[number]) => row.intent, flexible: true },
  ];

  test("in a pipe is not truncated", () =>
    expect(table(rows, columns, new FakeOutput(), plain)).toMatchSnapshot());

  test("on a terminal has one line per row", () => {
    const output = new FakeOutput(true);
    const text = table(rows, columns, output, plain);
    expect(text).toMatchSnapshot();
    for (const line of text.trimEnd().split("\n"))
      expect(Bun.stringWidth(line)).toBeLessThanOrEqual(output.columns);
  });

  test("continues a wrapped column on further lines, and loses none of it", () => {
    const output = new FakeOutput(true);
    const wrapped = columns.map((column) => ({ ...column, wrapped: column.title === "INTENT" }));
    const [, ...lines] = table(rows, wrapped, Object.assign(output, { columns: 40 }), plain)
      .trimEnd()
      .split("\n");
    for (const line of lines) expect(Bun.stringWidth(line)).toBeLessThanOrEqual(40);
    expect(lines.length).toBeGreaterThan(rows.length);
    expect(lines.map((line) => line.slice(5)).join(" ")).toContain(rows[1]?.intent ?? "");
    expect(table(rows, wrapped, new FakeOutput(), plain).trimEnd().split("\n")).toHaveLength(4);
  });

  test("without rows has only its titles", () =>
    expect(table([], columns, new FakeOutput(), plain)).toBe("PID  INTENT\n"));

  test("of names and values aligns the values and their further lines", () => {
    expect(
      fields(
        [
          ["a", "1"],
          ["long", "2\n3"],
        ],
        plain,
      ),
    ).toBe("a     1\nlong  2\n      3\n");
  });
});

describe("colour and glyphs", () => {
  const tty = new FakeOutput(true);
  test.each([
    ["a terminal", {}, tty, "\x1b[31mx\x1b[39m", "✔"],
    ["a pipe", {}, new FakeOutput(), "x", "ok"],
    ["NO_COLOR", { NO_COLOR: "1" }, tty, "x", "✔"],
    ["an empty NO_COLOR", { NO_COLOR: "" }, tty, "\x1b[31mx\x1b[39m", "✔"],
    ["TERM=dumb", { TERM: "dumb" }, tty, "x", "✔"],
    ["RNIX_ASCII=1", { RNIX_ASCII: "1" }, tty, "\x1b[31mx\x1b[39m", "ok"],
  ])("%s", (_name, env, output, red, ok) => {
    const style = styleOf({ env }, output);
    expect(style.red("x")).toBe(red);
    expect(style.glyph.ok).toBe(ok);
  });
});

describe("the blocks of a run as plain lines", () => {
  const call = (id: string, result = "", name = "Agent") =>
    callBlock(
      {
        ...{ id, name, path: "/dev/kernel/agent", input: { intent: id }, state: "done", result },
        ...{ error: null, error_code: null, started_at: "", duration_ms: null },
      },
      0,
    );
  const of = (block: Exclude<Block, { kind: "end" }>): string => new BlockText(plain).of(block);
  const result = (text: string): string => of({ kind: "call", call: call("a", text), agents: [] });
  const print = (...parts: (["starts" | "ends", CallBlock] | [])[]) => {
    const blocks = new BlockText(plain);
    return parts
      .flatMap(([what, one]) =>
        one === undefined
          ? []
          : [what === "starts" ? blocks.started(one) : blocks.of({ kind: "call", call: one, agents: [] })],
      )
      .join("\n");
  };
  const [a, b] = [call("a", "x"), call("b", "y")];

  test("name the call of each result of parallel calls, in any order", () => {
    const both = print(["starts", a], ["starts", b], ["ends", a], ["ends", b]);
    expect(both).toBe("  > Agent a\n  > Agent b\n  > Agent a\n    x\n  > Agent b\n    y");
    expect(print(["starts", a], ["starts", b], ["ends", b])).toBe("  > Agent a\n  > Agent b\n    y");
  });

  test("name a call once whose result follows it, and one that never started", () => {
    expect(print(["starts", a], ["ends", a])).toBe("  > Agent a\n    x");
    expect(print(["ends", a])).toBe("  > Agent a\n    x");
    expect(result("  ")).toBe("");
  });

  test("name each file that one answer read, with what was read", () => {
    const read = of({ kind: "reads", calls: [call("a", "x", "Read"), call("b", "y", "Read")] });
    expect(read).toBe("  > Read intent=a\n    x\n  > Read intent=b\n    y");
  });

  test("a message at a step is distinct from the model's text, and a long one is truncated", () => {
    expect(of({ kind: "message", from: "user", text: "look\nagain" })).toBe("  look\n  again");
    expect(of({ kind: "message", from: 7, text: "look" })).toBe("  from process 7: look");
    expect(of({ kind: "message", from: "user", text: "a\n".repeat(40) })).toEndWith("… 28 more lines");
  });

  test("a long result is truncated", () => {
    const lines = Array.from({ length: 40 }, (_, i) => `line ${i}`).join("\n");
    expect(result(lines)).toContain("    line 11\n    … 28 more lines");
    expect(result("a\nb")).toEndWith("    a\n    b");
  });

  test("text has nothing that acts on a terminal", () => {
    expect(of({ kind: "thought", text: "a\x1b[2J\nb", ms: null })).toBe("  a\n  b");
  });
});

describe("a syscall", () => {
  const event = {
    timestamp_ms: 13,
    pid: 1,
    syscall: "Open",
    args: { path: "/dev/fs", flags: 2 },
    duration_ms: 1.04,
  };
  test.each([
    [{ ...event, result: 3 }, '   0.013  Open(path="/dev/fs", flags=2) = 3 <1.0ms>\n'],
    [{ ...event, args: {} }, "   0.013  Open() = ok <1.0ms>\n"],
    [
      { ...event, error: "not\nallowed", error_code: "PERMISSION" },
      '   0.013  Open(path="/dev/fs", flags=2) = PERMISSION not allowed <1.0ms>\n',
    ],
  ])("%j", (wire, line) => expect(syscallLine(wire, plain)).toBe(line));
});

test("a wait without a date is shown as endless, not as an error", () => {
  for (const at_ms of [8.64e15, 1e300])
    expect(waitsFor({ wake: { on: "at", at_ms } })).toStartWith("until 9999-12-");
  expect(waitsFor({ wake: { on: "at", at_ms: Date.UTC(2026, 4, 5) } })).toStartWith("until 2026-05-0");
});
