import { describe, expect, test } from "bun:test";
import { Secrets } from "../../../src/kernel/process/secrets.ts";

const KEYS = [
  "sk-live-0123456789",
  "sk-live-0123456789-longer",
  'key/with"quote',
  "schlüssel-mit-ü",
  "aabaabaab",
];
const TEXT = `${KEYS.join(" ")} sk-live-01 aabaabaabaab aaaabaabaab${KEYS[0]}${KEYS[1]} schlüssel sk-li`;

describe("secrets", () => {
  const secrets = new Secrets({ keys: KEYS });

  test("are redacted in a text, the longest first, also in JSON form", () => {
    expect(secrets.hide(`a ${KEYS[1]} b`)).toBe("a [key] b");
    expect(secrets.hide(JSON.stringify({ key: KEYS[2] }))).toBe('{"key":"[key]"}');
  });

  test("shorter than eight characters are words, and not redacted", () => {
    expect(new Secrets({ keys: ["ollama"] }).hide("ollama serve")).toBe("ollama serve");
  });

  test("that other runs fetch later are redacted, too", () => {
    const shared = new Secrets();
    const own = new Secrets({ shared });
    const stream = own.stream();
    expect(own.hide("fetched-key")).toBe("fetched-key");
    shared.add("fetched-key");
    expect(own.hide("fetched-key")).toBe("[key]");
    expect(stream.push("fetch") + stream.push("ed-key") + stream.end()).toBe("[key]");
  });

  test("do not displace each other: of changing keys, the first ones stay known", () => {
    const own = new Secrets({ keys: ["the-first-key"] });
    for (let i = 0; i < 100; i++) own.add(`fetched-key-${i}`);
    expect(own.hide("the-first-key fetched-key-99 fetched-key-0")).toBe("[key] [key] fetched-key-0");
    expect(own.keys.length).toBeLessThan(17 * 12);
  });

  test("are redacted for every split of a stream, and no other text is lost", () => {
    const random = numbers(20_261_122);
    for (let round = 0; round < 3_000; round++) {
      const pieces = cut(TEXT, random);
      const stream = secrets.stream();
      const shown = pieces.map((piece) => stream.push(piece)).join("") + stream.end();
      for (const key of KEYS) expect(shown).not.toContain(key);
      const restored = shown.split("[key]");
      for (const part of restored) expect(TEXT).toContain(part);
    }
  });

  test("are redacted in bytes, for every split", () => {
    const random = numbers(7);
    const bytes = Buffer.from(TEXT);
    for (let round = 0; round < 3_000; round++) {
      const stream = secrets.byteStream();
      const shown: Uint8Array[] = [];
      for (let at = 0; at < bytes.length; ) {
        const next = at + 1 + random(12);
        shown.push(stream.push(bytes.subarray(at, next)));
        at = next;
      }
      const text = Buffer.concat([...shown, stream.end()]).toString();
      for (const key of KEYS) expect(text).not.toContain(key);
      expect(text).toEndWith(" schlüssel sk-li");
    }
  });

  test("hold back at most a possible beginning of a secret", () => {
    const stream = new Secrets({ keys: ["sk-live-0123456789"] }).stream();
    expect(stream.push("an answer")).toBe("an answer");
    expect(stream.push(" and sk-li")).toBe(" and ");
    expect(stream.push("ght")).toBe("sk-light");
    expect(stream.push("s")).toBe("");
    expect(stream.end()).toBe("s");
    expect(stream.end()).toBe("");
  });

  test("pass bytes without a secret unchanged", () => {
    const data = Buffer.from("no key in here\n");
    expect(secrets.byteStream().push(data)).toEqual(data);
    expect(new Secrets().byteStream().push(data)).toBe(data);
  });
});

function cut(text: string, random: (below: number) => number): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; ) {
    const next = at + 1 + random(12);
    pieces.push(text.slice(at, next));
    at = next;
  }
  return pieces;
}

function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

describe("a key that a program has encoded is hidden", () => {
  const key = "sk-é/Test+key?42";
  const secrets = new Secrets({ keys: [key] });
  const bytes = Buffer.from(key);
  test.each([
    ["in a URL", encodeURIComponent(key)],
    ["in a URL with small letters", encodeURIComponent(key).toLowerCase().replace("test", "Test")],
    ["in a URL with slashes", encodeURIComponent(key).replaceAll("%2F", "/")],
    [
      "in base64 in lines",
      Buffer.from(`${"x".repeat(41)}${key}`)
        .toString("base64")
        .replace(/.{76}/g, "$&\n"),
    ],
    ["in base64 in short lines", Buffer.from(`abc${key}`).toString("base64").replace(/.{16}/g, "$&\r\n")],
    ["in hexadecimal digits", bytes.toString("hex")],
    ["in capital hexadecimal digits", bytes.toString("hex").toUpperCase()],
    ...["", "a", "ab", "user:", "Basic user name:"].flatMap((before) =>
      ["", "x", "xy", "\nmore"].flatMap((after) =>
        (["base64", "base64url"] as const).map(
          (alphabet) =>
            [
              `in ${alphabet} between ${JSON.stringify(before)} and ${JSON.stringify(after)}`,
              Buffer.from(before + key + after).toString(alphabet),
            ] as const,
        ),
      ),
    ),
  ])("%s", (_, text) => {
    const shown = secrets.hide(`<${text}>`);
    expect(shown).toContain("[key]");
    // What a neighbour has changed of the first and the last characters may stay.
    expect(Buffer.from(shown.replace("[key]", ""), "base64").includes(key.slice(2, -2))).toBe(false);
  });

  test("also when it comes in pieces of a text", () => {
    for (const text of [
      bytes.toString("hex"),
      encodeURIComponent(key),
      Buffer.from(`user:${key}`).toString("base64"),
    ]) {
      const stream = secrets.stream();
      const shown = [...text].map((piece) => stream.push(piece)).join("") + stream.end();
      expect(shown).toContain("[key]");
    }
  });

  test("also when it comes in pieces of bytes", () => {
    const stream = secrets.byteStream();
    const text = Buffer.from(`user:${key}`).toString("base64");
    const pieces = [...Buffer.from(text)].map((byte) => stream.push(Uint8Array.of(byte)));
    expect(Buffer.concat([...pieces, stream.end()]).toString()).toContain("[key]");
  });
});
