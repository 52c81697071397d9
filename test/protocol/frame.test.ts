import { describe, expect, test } from "bun:test";
import { encode, type Frame, FrameBudget, Framer } from "../../src/protocol/frame.ts";

const LIMIT = 1024;

/** What a framer makes of these bytes, given in pieces cut at these places. */
function frames(bytes: Uint8Array, cuts: number[] = [], limit = LIMIT): Frame[] {
  const framer = new Framer(limit);
  const edges = [0, ...cuts, bytes.length];
  const pieces = edges.slice(1).map((end, i) => bytes.subarray(edges[i], end));
  return [...pieces.flatMap((piece) => framer.push(piece)), ...framer.end()];
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const lines = (...texts: string[]): Frame[] => texts.map((text) => ({ kind: "line", text }));
const latin = new Uint8Array([...bytes('{"a":"'), 0xff, 0xfe, ...bytes('"}\n{}\n')]);

const CASES: { title: string; input: Uint8Array; expected: Frame[] }[] = [
  { title: "two lines", input: bytes('{"a":1}\n{"b":2}\n'), expected: lines('{"a":1}', '{"b":2}') },
  {
    title: "a CR before the newline",
    input: bytes('{"a":1}\r\n{"b":2}\r\n'),
    expected: lines('{"a":1}', '{"b":2}'),
  },
  {
    title: "a last line without a newline",
    input: bytes('{"a":1}\n{"b":2}'),
    expected: lines('{"a":1}', '{"b":2}'),
  },
  {
    title: "U+2028, U+2029, NEL and a lone CR inside the JSON",
    input: bytes('{"a":"x\u2028y\u2029z\u0085\r!"}\n'),
    expected: lines('{"a":"x\u2028y\u2029z\u0085\r!"}'),
  },
  {
    title: "letters of several bytes",
    input: bytes('{"ä":"日本 🐧"}\n'),
    expected: lines('{"ä":"日本 🐧"}'),
  },
  { title: "empty lines, which are none", input: bytes("\n\r\n\n{}\n\n"), expected: lines("{}") },
  { title: "nothing", input: bytes(""), expected: [] },
  {
    title: "invalid UTF-8, and goes on",
    input: latin,
    expected: [{ kind: "not_utf8" }, { kind: "line", text: "{}" }],
  },
  {
    title: "a line beyond the limit once, and goes on",
    input: bytes(`${"x".repeat(LIMIT * 3)}\n{}\n`),
    expected: [{ kind: "too_large" }, { kind: "line", text: "{}" }],
  },
  {
    title: "a line of exactly the limit",
    input: bytes(`${"x".repeat(LIMIT)}\n`),
    expected: lines("x".repeat(LIMIT)),
  },
  {
    title: "a line beyond the limit without an end",
    input: bytes("x".repeat(LIMIT + 1)),
    expected: [{ kind: "too_large" }],
  },
];

describe("a framer cuts", () => {
  for (const { title, input, expected } of CASES) {
    test(title, () => {
      expect(frames(input)).toEqual(expected);
    });

    test(`${title}, split at every byte`, () => {
      for (let cut = 0; cut <= input.length; cut++) expect(frames(input, [cut])).toEqual(expected);
      expect(
        frames(
          input,
          Array.from(input, (_, i) => i),
        ),
      ).toEqual(expected);
    });
  }

  test("a line too large is told before its end has come, and nothing of it is kept", () => {
    const framer = new Framer(LIMIT);
    expect(framer.push(bytes("x".repeat(LIMIT)))).toEqual([]);
    expect(framer.push(bytes("x"))).toEqual([{ kind: "too_large" }]);
    for (let i = 0; i < 100; i++) expect(framer.push(bytes("x".repeat(LIMIT)))).toEqual([]);
    expect(framer.push(bytes("\n{}\n"))).toEqual(lines("{}"));
  });
});

describe("framers that share a room", () => {
  test("hold together no more than it has, and the one that finds none is told", () => {
    const room = new FrameBudget(10);
    const [one, other] = [new Framer(LIMIT, room), new Framer(LIMIT, room)];
    expect(one.push(bytes("123456"))).toEqual([]);
    expect(other.push(bytes("12345"))).toEqual([{ kind: "no_room" }]);
    expect(other.push(bytes("678\n{}\n"))).toEqual(lines("{}"));
    expect(one.push(bytes("\n"))).toEqual(lines("123456"));
  });

  test.each<[string, (framer: Framer) => unknown]>([
    ["its line ends", (framer) => framer.push(bytes("\n"))],
    ["its line is too large", (framer) => framer.push(bytes("x".repeat(LIMIT)))],
    ["its stream is let go", (framer) => framer.release()],
    ["its stream ends", (framer) => framer.end()],
  ])("give back what they held when %s", (_when, act) => {
    const room = new FrameBudget(LIMIT);
    const one = new Framer(LIMIT, room);
    one.push(bytes("x".repeat(LIMIT)));
    expect(room.take(1)).toBe(false);
    act(one);
    expect(room.take(LIMIT)).toBe(true);
  });
});

test("what is encoded is one line, whatever it holds", () => {
  const value = { a: "x\ny\r\u2028" };
  const text = encode(value);
  expect(text.indexOf("\n")).toBe(text.length - 1);
  expect(frames(bytes(text))).toEqual(lines(JSON.stringify(value)));
});
