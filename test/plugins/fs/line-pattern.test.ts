import { describe, expect, test } from "bun:test";
import { LinePattern } from "../../../plugins/fs/search/line-pattern.ts";
import { SyscallError } from "../../../src/plugin/index.ts";

const LINES = [
  "",
  "ab",
  "abab",
  "foo bar",
  "foobar",
  "  indented",
  "x = y + 1;",
  "interface{}",
  "a*b",
  "C:\\path\\file",
  "$price ^caret",
  "user@example.com",
  "naïve café",
  "名前 🚀",
  "UPPER lower",
];

const PATTERNS = [
  "^$",
  "a+b",
  "(?:ab){2}",
  "^(foo|bar)",
  "\\bbar",
  "foo\\B",
  "\\S+@\\S+",
  "[^a-z ]$",
  "interface{}",
  "a\\*b",
  "\\\\path",
  "^名.",
  "(?i)upper LOWER",
  "(?<name>a)b",
  "\\p{Lu}{5}",
];

test("a text in which a line matches may match, whatever its other lines and their ends", () => {
  for (const pattern of PATTERNS) {
    const one = new LinePattern(pattern, { ignoreCase: false });
    expect(LINES.some((line) => one.matches(line))).toBe(true);
    for (const line of LINES) {
      if (!one.matches(line)) continue;
      expect(one.mayMatchIn(`zzz\n${line}\nzzz`), `${pattern} in ${line}`).toBe(true);
      expect(one.mayMatchIn(`zzz\r\n${line}\r\nzzz`), `${pattern} in ${line}`).toBe(true);
    }
  }
  expect(new LinePattern("^b+$", { ignoreCase: false }).mayMatchIn("a\nabb\nbba")).toBe(false);
  expect(new LinePattern("^B+$", { ignoreCase: true }).mayMatchIn("a\nbb\nc")).toBe(true);
});

describe("an unsupported pattern is INVALID, with the reason", () => {
  const GRID: [string, RegExp][] = [
    ["(", /missing closing \)/],
    ["[a", /missing closing \]/],
    ["*", /missing argument/],
    ["a{3,2}", /repeat count/],
    ["(?=a)", /no look-around/],
    ["(a)\\1", /no back-references/],
    ["a\\nb", /line by line/],
    ["((a{100}){100}){100}", /repeat count/],
    ["((){1000}){1000}q", /too large/],
    ["(".repeat(5000), /missing closing|nest/],
  ];
  for (const [pattern, message] of GRID) {
    test(pattern.slice(0, 40), () => {
      const made = (): LinePattern => new LinePattern(pattern, { ignoreCase: false });
      expect(made).toThrow(SyscallError);
      expect(made).toThrow(message);
    });
  }
  test("an n after a backslash is none", () => {
    expect(new LinePattern("path\\\\new", { ignoreCase: false }).matches("path\\new")).toBe(true);
  });
});

describe("time grows only with the length of the line", () => {
  const NASTY = [
    "^(a+)+$",
    "(a|aa)+c",
    "(.*)(.*)(.*)(.*)(.*)[x]",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(a?){100}a{100}[c]",
    "(x+x+)+[y]",
    ".{0,200}a.{200}[c]",
    "(((((((((a*)*)*)*)*)*)*)*)*)*[c]",
  ];
  const line = `${"ab".repeat(50_000)}${"a".repeat(100_000)}`;
  for (const pattern of NASTY)
    test(pattern, () => expect(new LinePattern(pattern, { ignoreCase: false }).matches(line)).toBe(false));
});
