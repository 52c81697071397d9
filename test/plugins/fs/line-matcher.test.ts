import { describe, expect, test } from "bun:test";
import { LineMatcher } from "../../../plugins/fs/search/line-matcher.ts";
import { SyscallError } from "../../../src/plugin/index.ts";

/** Feeds a line in pieces of this size and says whether it matched. */
function matches(pattern: string, line: string, o: { ignoreCase?: boolean; piece?: number } = {}): boolean {
  const matcher = new LineMatcher(pattern, { ignoreCase: o.ignoreCase ?? false });
  return feed(matcher, line, o.piece ?? line.length);
}

function feed(matcher: LineMatcher, line: string, piece: number): boolean {
  matcher.begin();
  for (let start = 0; start < line.length && !matcher.matched; start += piece) {
    const text = line.slice(start, start + piece);
    for (let at = 0; at < text.length && !matcher.matched; at = matcher.position)
      matcher.feed(text, at, text.length);
  }
  return matcher.end();
}

const LINES = [
  "",
  "a",
  "b",
  "ab",
  "aab",
  "abab",
  "ba",
  "foo bar",
  "foobar",
  "foo",
  "bar",
  "  indented",
  "tab\there",
  "x = y + 1;",
  "function name(arg) {",
  "interface{}",
  "a{2}",
  "a.b",
  "a*b",
  "C:\\path\\file",
  "$price ^caret",
  "(paren) [bracket] |pipe|",
  "2024-01-15",
  "user@example.com",
  "été",
  "naïve café",
  "名前",
  "🚀 launch",
  "under_score",
  "UPPER lower",
  "aaaaaaaaaaaaaaaaaaaa",
  "K\u212Aelvin",
  "-dash-",
  "a-b",
  "word",
  "words",
  "\u00a0nbsp",
];

const PATTERNS = [
  "a",
  "ab",
  "a|b",
  "^a",
  "a$",
  "^$",
  "^a$",
  "^",
  "$",
  "a*",
  "a+b",
  "a?b",
  "(ab)+",
  "(?:ab){2}",
  "a{2}",
  "a{2,}",
  "a{1,2}b",
  "a{0}b",
  "^a{3,5}$",
  "^a{20}$",
  "^a{21}$",
  "(a|b)*",
  "^(a|b)*$",
  "^(a|ab)(b|ba)?$",
  "foo|bar",
  "^(foo|bar)$",
  "foo.*bar",
  "foo.+?bar",
  "foo.?bar",
  "\\bfoo\\b",
  "\\bbar",
  "\\Bbar",
  "foo\\B",
  "\\bword\\b",
  "\\b",
  "\\B",
  "^\\B",
  "\\bé",
  "^\\s+",
  "\\s",
  "\\S+@\\S+",
  "\\d{4}-\\d{2}-\\d{2}",
  "^\\D*$",
  "\\w+\\(",
  "\\W",
  "[abc]",
  "[^abc]",
  "[a-z]+",
  "[^a-z]",
  "[\\w.]+@",
  "[\\d-]+",
  "[\\w-]+",
  "[]a]",
  "[^]",
  "[.*+]",
  "[\\]]",
  "[\\\\]",
  "a\\.b",
  "a\\*b",
  "\\$price",
  "\\^caret",
  "\\(paren\\)",
  "\\[bracket\\]",
  "\\|",
  "\\{\\}",
  "interface{}",
  "{",
  "a{,2}",
  "\\\\path",
  "\\t",
  "\\x61",
  "\\u0061b",
  "é",
  "[é-ü]",
  "^..$",
  "^.$",
  "名.",
  "^🚀",
  "-dash-",
  "a-b",
  "\\-dash",
  "\\/|/",
  "(a(b(a)?)?)?$",
  "(|a)b",
  "(a|)b$",
  "()",
  "(?<name>a)b",
  "a??b",
  "(a*)*q",
  "(a+)+$",
  "^(.*)(.*)b$",
  "(^a|b$)",
  "x*",
  "upper",
  "[A-Z]{5}",
  "kelvin",
];

describe("every pattern matches what JavaScript's own engine matches", () => {
  for (const ignoreCase of [false, true]) {
    for (const pattern of PATTERNS) {
      test(`/${pattern}/${ignoreCase ? "i" : ""}`, () => {
        const own = nativeOf(pattern, ignoreCase);
        const matcher = new LineMatcher(pattern, { ignoreCase });
        for (const line of LINES) {
          if (isPlain(line)) expect(mayMatch(matcher, line), JSON.stringify(line)).toBe(own.test(line));
          if (own.test(line))
            expect(holdsRequired(matcher, line), JSON.stringify(matcher.required)).toBe(true);
          for (const piece of [1000, 1]) {
            if (piece === 1 && /[\uD800-\uDFFF]/.test(line)) continue;
            expect(feed(matcher, line, piece), `${JSON.stringify(line)} in pieces of ${piece}`).toBe(
              own.test(line),
            );
          }
        }
      });
    }
  }

  /** In Unicode mode where the pattern is right in it, as the matcher does; `interface{}` is not. */
  function nativeOf(pattern: string, ignoreCase: boolean): RegExp {
    const flags = ignoreCase ? "i" : "";
    try {
      return new RegExp(pattern, `u${flags}`);
    } catch {
      return new RegExp(pattern, flags);
    }
  }

  test("also for random patterns and lines", () => {
    let seed = 12345;
    const random = (below: number): number => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return Math.floor((seed / 2147483648) * below);
    };
    const pick = <T>(items: readonly [T, ...T[]]): T => items[random(items.length)] ?? items[0];
    const make = (depth: number): string => {
      if (depth === 0) return pick(["a", "b", ".", "[ab]", "[^a]", "\\w", "\\b", "^", "$", "é"]);
      return pick([
        () => make(depth - 1) + make(depth - 1),
        () => `(?:${make(depth - 1)}|${make(depth - 1)})`,
        () => `(?:${make(depth - 1)})${pick(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?"])}`,
        () => make(depth - 1),
      ])();
    };
    for (let round = 0; round < 1500; round++) {
      const pattern = make(3);
      const own = new RegExp(pattern, "u");
      const matcher = new LineMatcher(pattern, { ignoreCase: false });
      for (let each = 0; each < 8; each++) {
        const line = Array.from({ length: random(8) }, () => pick(["a", "b", " ", "é", "c"])).join("");
        expect(feed(matcher, line, 3), `/${pattern}/ on ${JSON.stringify(line)}`).toBe(own.test(line));
        if (own.test(line)) expect(holdsRequired(matcher, line), pattern).toBe(true);
        if (isPlain(line)) expect(mayMatch(matcher, line), `/${pattern}/ on ${line}`).toBe(own.test(line));
      }
    }
  });
});

/** As a whole file of one line, with each kind of line end. */
function mayMatch(matcher: LineMatcher, line: string): boolean {
  const may = matcher.mayMatch(Buffer.from(`${line}\n`));
  for (const file of [`${line}\r\n`, ...(line === "" ? [] : [line])]) {
    expect(matcher.mayMatch(Buffer.from(file)), JSON.stringify(file)).toBe(may);
  }
  return may;
}

function isPlain(line: string): boolean {
  return /^[\x20-\x7e\t]*$/.test(line);
}

test("the quick test of a whole file's bytes finds a match in any of its lines", () => {
  const matcher = new LineMatcher("^b+$|\\bend$", { ignoreCase: false });
  const cases: [string, boolean][] = [
    ["", false],
    ["a\nbb\nc\n", true],
    ["a\r\nbb\r\nc", true],
    ["bba\nabb\n", false],
    ["a\nthe end", true],
    ["a\nthe end\r\n", true],
    ["the ended\nb a\n", false],
    ["é\n", true],
  ];
  for (const [file, may] of cases) {
    expect(matcher.mayMatch(Buffer.from(file)), JSON.stringify(file)).toBe(may);
  }
  expect(new LineMatcher("^$", { ignoreCase: false }).mayMatch(Buffer.from("a\n\nb\n"))).toBe(true);
  expect(new LineMatcher("^$", { ignoreCase: false }).mayMatch(Buffer.from("a\n"))).toBe(false);
});

function holdsRequired({ required }: LineMatcher, line: string): boolean {
  return required.length === 0 || required.some((text) => line.includes(text));
}

test("the texts that a match requires are found from the pattern", () => {
  const cases: [string, string[]][] = [
    ["needleWord", ["needleWord"]],
    ["a?bcd*e+fgh", ["fgh"]],
    ["\\bexport \\w+ name\\(", ["export "]],
    ["foo|barn", ["foo", "barn"]],
    ["x(foo|barn)y", ["foo", "barn"]],
    ["(foo|b*)", []],
    ["(?:long){2,}x", ["long"]],
    ["[ab]\\d", []],
    ["\uFFFDab", ["ab"]],
    ["a|b|c|d|e|f|g|h|i", []],
  ];
  for (const [pattern, required] of cases) {
    expect(new LineMatcher(pattern, { ignoreCase: false }).required, pattern).toEqual(required);
    expect(new LineMatcher(pattern, { ignoreCase: true }).required, pattern).toEqual([]);
  }
});

test("(?i) at the start ignores case", () => {
  expect(matches("(?i)upper LOWER", "UPPER lower")).toBe(true);
  expect(matches("upper LOWER", "UPPER lower")).toBe(false);
});

test("\\p{…} classes work", () => {
  expect(matches("^\\p{L}+$", "naïveté名前")).toBe(true);
  expect(matches("^\\p{Lu}", "lower")).toBe(false);
});

describe("an unsupported pattern is INVALID, with the reason and the position", () => {
  const GRID: [string, RegExp][] = [
    ["(", /not closed/],
    [")", /unmatched/],
    ["[a", /not closed/],
    ["a\\", /lone backslash/],
    ["*", /nothing stands before \*/],
    ["^*a", /a character before it/],
    ["\\b+", /a character before it/],
    ["a**", /repetition follows/],
    ["a{2}{3}", /repetition follows/],
    ["a{3,2}", /wrong way round/],
    ["a{1001}", /more than 1000/],
    ["(?=a)", /look-around/],
    ["(?!a)", /look-around/],
    ["(?<=a)", /look-around/],
    ["(?<!a)", /look-around/],
    ["(a)\\1", /back-references/],
    ["\\k<a>", /back-references/],
    ["a\\nb", /line by line/],
    ["\\A", /means nothing/],
    ["[[:alpha:]]", /POSIX/],
    ["[z-a]", /character/],
    ["((a{100}){100}){100}", /too large/],
    ["(".repeat(500), /nested/],
    ["a".repeat(3000), /longer than/],
  ];
  for (const [pattern, message] of GRID) {
    test(pattern.slice(0, 40), () => {
      let thrown: unknown;
      try {
        new LineMatcher(pattern, { ignoreCase: false });
      } catch (error) {
        thrown = error;
      }
      expect(thrown).toBeInstanceOf(SyscallError);
      expect(thrown).toMatchObject({ code: "INVALID", message: expect.stringMatching(message) });
    });
  }
});

describe("time grows only with the length of the line", () => {
  const NASTY = [
    "^(a+)+$",
    "(a*)*q",
    "(a|a)*q",
    "(a|aa)+q",
    "(.*)(.*)(.*)(.*)(.*)x",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(a?){100}a{100}q",
    "([a-z]+[0-9]*)*!",
    "(x+x+)+y",
    ".*.*.*.*.*.*.*.*=",
    "(?:a|b|ab|ba)*c",
    ".{0,200}a.{200}q",
    "(((((((((a*)*)*)*)*)*)*)*)*)*q",
    "((){1000}){1000}q",
  ];
  const line = `${"ab".repeat(50_000)}${"a".repeat(100_000)}`;
  for (const pattern of NASTY) {
    test(pattern, () => {
      const matcher = new LineMatcher(pattern, { ignoreCase: false });
      matcher.begin();
      let turns = 0;
      for (let at = 0; at < line.length && !matcher.matched; at = matcher.position) {
        matcher.feed(line, at, line.length);
        turns++;
        expect(matcher.position).toBeGreaterThan(at);
      }
      expect(matcher.end()).toBe(false);
      // A turn is bounded, and not even each character of the worst line needs one.
      expect(turns).toBeLessThan(line.length);
    });
  }
});

test("more states than the cache holds make it slower, but not wrong", () => {
  // The state holds the last 12 characters: 4096 of them, of which 2000 are cached.
  const matcher = new LineMatcher("a.{11}$", { ignoreCase: false });
  let line = "";
  for (let number = 0; number < 4096; number++)
    line += number.toString(2).padStart(12, "0").replaceAll("0", "b").replaceAll("1", "a");
  for (let cut = 0; cut < 6; cut++) {
    const text = line.slice(0, line.length - cut * 7);
    expect(feed(matcher, text, text.length)).toBe(/a.{11}$/.test(text));
  }
});
