import { describe, expect, test } from "bun:test";
import { lookOf } from "../../../src/cli/terminal/look.ts";
import { MarkdownStream, renderMarkdown } from "../../../src/cli/terminal/markdown.ts";
import { safeLine } from "../../../src/cli/terminal/safe-text.ts";
import { seeded } from "../../support/seeded.ts";
import { FakeOutput } from "../support.ts";
import { SAMPLES } from "./samples/markdown.ts";

const colours = lookOf({ env: { TERM: "xterm" }, stdout: new FakeOutput(true) });
const ascii = lookOf({ env: { TERM: "xterm", RNIX_ASCII: "1" }, stdout: new FakeOutput(true) });
const widths = [20, 31, 60, 80, 120];

const plain = (text: string, columns = 60, style = ascii) =>
  renderMarkdown(text, columns, style)
    .map((line) => Bun.stripANSI(line))
    .join("\n");

describe("streamed Markdown", () => {
  for (const [name, text] of Object.entries(SAMPLES)) {
    test(`${name}: what was given out is the rendering of the whole, however it was cut`, () => {
      const random = seeded(name.length);
      for (const columns of widths) {
        const whole = renderMarkdown(text, columns, colours);
        for (let round = 0; round < 8; round++) {
          const stream = new MarkdownStream(colours);
          const given: string[] = [];
          for (let at = 0; at < text.length; ) {
            const length = round === 0 ? 1 : 1 + Math.floor(random() * 40);
            stream.push(text.slice(at, at + length));
            at += length;
            given.push(...stream.finished(columns));
            if (random() < 0.3) expect(stream.rest(columns, 5).length).toBeLessThanOrEqual(5);
          }
          expect([...given, ...stream.end(columns)]).toEqual(whole);
        }
      }
    });
  }

  test("the rest at the end of the text is what the end gives out", () => {
    const { ANSWER = "" } = SAMPLES;
    const stream = new MarkdownStream(colours);
    stream.push(ANSWER);
    stream.finished(80);
    const rest = stream.rest(80, 100);
    expect(stream.end(80)).toEqual(rest);
  });

  test("an item, a line of code and a paragraph are given out when they are finished, not with the whole", () => {
    const stream = new MarkdownStream(ascii);
    const given = (text: string): string => {
      stream.push(text);
      return stream
        .finished(60)
        .map((line) => Bun.stripANSI(line))
        .join("\n");
    };
    expect(given("one\ntwo")).toBe("");
    expect(given("\n\n")).toBe("one two");
    expect(given("- a\n- b")).toBe("");
    expect(given("\n- c")).toBe("\n* a");
    expect(given("\n```sh\nls")).toBe("* b\n* c\n");
    expect(given("\npwd")).toBe("  ls");
    expect(given("\n```\n")).toBe("  pwd");
  });

  test("marks that may still become a block or that have not ended are not shown", () => {
    const rests: [string, string][] = [
      ["text\n--", "text"],
      ["text\n#", "text"],
      ["text\n``", "text"],
      ["- item\n-", "* item"],
      ["a **bo", "a bo"],
      ["a **", "a"],
      ["a `co", "a co"],
      ["a [link](https://exa", "a link"],
    ];
    for (const [text, shown] of rests) {
      const stream = new MarkdownStream(ascii);
      stream.push(text);
      const lines = [...stream.finished(60), ...stream.rest(60, 10)];
      expect(
        lines
          .map((line) => Bun.stripANSI(line))
          .join("\n")
          .trim(),
      ).toBe(shown);
    }
  });

  test("an answer of 100 kB costs little, character by character", () => {
    const text = `${Object.values(SAMPLES).join("\n\n")}\n\n`.repeat(20).slice(0, 100_000);
    for (const answer of [
      text,
      "word ".repeat(20_000),
      "x".repeat(100_000),
      `\`\`\`\n${"x".repeat(100_000)}`,
    ]) {
      const began = performance.now();
      const stream = new MarkdownStream(colours);
      let count = 0;
      for (const char of answer) {
        stream.push(char);
        if (++count % 100 === 0) {
          stream.finished(80);
          stream.rest(80, 20);
        }
      }
      stream.end(80);
      // 1,000 frames: a quadratic cost would take minutes.
      expect(performance.now() - began).toBeLessThan(8000);
    }
  });
});

describe("every line", () => {
  for (const [name, text] of Object.entries(SAMPLES)) {
    test(`${name}: fits its columns and acts on nothing`, () => {
      for (let columns = 20; columns <= 120; columns++) {
        for (const line of renderMarkdown(text, columns, colours)) {
          expect(Bun.stringWidth(line)).toBeLessThanOrEqual(columns);
          expect(line).not.toContain("\n");
          // What the screen lets through is the line itself: there is nothing else in it.
          expect(Bun.stripANSI(safeLine(line))).toBe(Bun.stripANSI(line));
          expect(line.replaceAll(/\u001b\[[\d;]*m|\u001b\]8;[^\u001b]*\u001b\\/g, "")).not.toMatch(/\p{Cc}/u);
        }
      }
    });
  }

  test("ends the styles and links that it begins", () => {
    for (const text of Object.values(SAMPLES)) {
      for (const line of renderMarkdown(text, 31, colours)) {
        const on = new Set<string>();
        for (const [, code = ""] of line.matchAll(/\u001b\[([\d;]*)m/g)) {
          if (code === "0") on.clear();
          else if (["1", "2"].includes(code)) on.add("22");
          else if (["3", "4", "9"].includes(code)) on.add(`2${code}`);
          else if (/^3[0-7]$/.test(code)) on.add("39");
          else on.delete(code);
        }
        expect([...on]).toEqual([]);
        const links = [...line.matchAll(/\u001b\]8;[^;]*;([^\u001b]*)\u001b\\/g)].map(
          ([, address]) => address,
        );
        expect(links.at(-1) ?? "").toBe("");
      }
    }
  });
});

describe("what is shown", () => {
  test("an answer, at 60 columns", () => {
    expect(plain(SAMPLES.ANSWER ?? "")).toMatchSnapshot();
  });

  test("the same at 30 columns, with its table as a list", () => {
    expect(plain(SAMPLES.ANSWER ?? "", 30)).toMatchSnapshot();
  });

  test("loose and odd lists, headings and code", () => {
    expect(plain(SAMPLES.LOOSE ?? "")).toMatchSnapshot();
    expect(plain(SAMPLES.UNFINISHED ?? "")).toMatchSnapshot();
  });

  test("hostile text as text", () => {
    expect(plain(SAMPLES.HOSTILE ?? "")).toMatchSnapshot();
  });

  test("ASCII glyphs only, of what is ours", () => {
    expect(plain(SAMPLES.ANSWER ?? "")).toMatch(/^[\n -~]*$/);
  });

  test("a link's address, always; only addresses of the web and of mail are links", () => {
    const links = (text: string) =>
      [
        ...renderMarkdown(text, 80, colours)
          .join("")
          .matchAll(/\u001b\]8;id=[^;]+;([^\u001b]+)/g),
      ].map(([, to]) => to);
    expect(links("[a](https://b.c)")).toEqual(["https://b.c", "https://b.c"]);
    expect(links("<https://b.c>")).toEqual(["https://b.c"]);
    expect(links("[a](javascript:x) [b](file:///c) [d](/e)")).toEqual([]);
    expect(plain("[a](https://b.c) [b.c](https://b.c) [d](e.md)")).toBe("a (https://b.c) b.c d (e.md)");
  });

  test("a table that fits, one with wrapped cells, one as a list", () => {
    const table = "|name|what it does|n|\n|-|-|-:|\n|first|a longer text in a cell|1|\n|second|short|22|";
    expect(plain(table, 60)).toBe(
      [
        "name   | what it does            |  n",
        "-------+-------------------------+---",
        "first  | a longer text in a cell |  1",
        "second | short                   | 22",
      ].join("\n"),
    );
    expect(plain(table, 26)).toBe(
      [
        "name   | what it does |  n",
        "-------+--------------+---",
        "first  | a longer     |  1",
        "       | text in a    |",
        "       | cell         |",
        "-------+--------------+---",
        "second | short        | 22",
      ].join("\n"),
    );
    expect(plain(table, 16)).toContain("name: first\nwhat it does: a");
  });
});
