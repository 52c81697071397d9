import { describe, expect, test } from "bun:test";
import {
  normalized,
  parseEntries,
  replaceEntry,
  withEntry,
  withoutEntry,
} from "../../../plugins/memory/entry-file.ts";
import { seeded } from "../../support/seeded.ts";

const texts = (file: string): string[] => parseEntries(file).entries.map(({ text }) => text);

const BY_HAND = `# Notes

<!-- mine:
- no entry
-->

- one
- two, over
  two lines

  and a paragraph
* three
  - with a list
    in it
1. four
lazily continued

A paragraph
of two lines.

\`\`\`sh
- code, no entry of its own
# no heading
\`\`\`

---
- [ ] a task
\t- of tabs
-    wide
     mark
`;

const OF_HAND = [
  "one",
  "two, over\ntwo lines\n\nand a paragraph",
  "three\n- with a list\n  in it",
  "four\nlazily continued",
  "A paragraph\nof two lines.",
  "```sh\n- code, no entry of its own\n# no heading\n```",
  "[ ] a task\n- of tabs",
  "wide\nmark",
];

describe("a file that a person wrote", () => {
  test("has an entry for each item and paragraph", () => {
    expect(texts(BY_HAND)).toEqual(OF_HAND);
  });

  test("keeps everything else when entries are added, replaced and removed", () => {
    const added = withEntry(parseEntries(BY_HAND), "new\n\n  - deep");
    expect(texts(added)).toEqual([...OF_HAND, "new\n\n  - deep"]);
    expect(added.startsWith(BY_HAND.trimEnd())).toBe(true);
    for (const [at, text] of OF_HAND.entries()) {
      const file = parseEntries(BY_HAND);
      const entry = file.entries[at];
      if (!entry) throw new Error(`no entry ${text}`);
      expect(texts(replaceEntry(file, entry, "other\n\nlines"))).toEqual(OF_HAND.with(at, "other\n\nlines"));
      const rest = withoutEntry(file, entry);
      expect(texts(rest)).toEqual(OF_HAND.toSpliced(at, 1));
      for (const kept of ["# Notes", "<!-- mine:", "---"]) expect(rest).toContain(kept);
    }
  });

  test.each([
    ["of another system", "- one\r\n- two\r\n  more\r\n", ["one", "two\nmore"]],
    ["with a byte order mark", "\ufeff- one\n", ["one"]],
    ["without a last line end", "- one", ["one"]],
    ["that is empty", "", []],
    ["with a comment that never ends", "<!-- open\n\n- one\n", ["<!-- open", "one"]],
    ["with code that never ends", "```\ncode\n\n- one\n", ["```\ncode", "one"]],
    ["with rules of Markdown", "===\n\n---\n***\n- one\n", ["one"]],
  ])("%s", (_, file, expected) => {
    expect(texts(file)).toEqual(expected);
  });
});

test("any text survives, beside any others", () => {
  const random = seeded(4711);
  const pieces = [
    "- ",
    "* ",
    "1. ",
    "# ",
    "```",
    "~~~",
    "<!--",
    "-->",
    "---",
    "\n",
    "\n\n",
    "  ",
    "\t",
    "a",
    "é",
    "\u{1f600}",
    "| x |",
    "> q",
    "-",
    "=",
  ];
  for (let round = 0; round < 300; round++) {
    const all = new Set<string>();
    let file = round % 3 === 0 ? BY_HAND : "";
    const before = texts(file);
    for (let n = 0; n < 5; n++) {
      const count = 1 + Math.floor(random() * 12);
      const text = normalized(
        Array.from({ length: count }, () => pieces[Math.floor(random() * pieces.length)]).join(""),
      );
      if (text === "" || all.has(text) || before.includes(text)) continue;
      all.add(text);
      file = withEntry(parseEntries(file), text);
    }
    expect(texts(file)).toEqual([...before, ...all]);
    const left = [...all];
    for (const text of all) {
      const parsed = parseEntries(file);
      const entry = parsed.entries.find((one) => one.text === text);
      if (!entry) throw new Error(`lost ${JSON.stringify(text)}`);
      file = random() < 0.5 ? withoutEntry(parsed, entry) : replaceEntry(parsed, entry, `now ${text}`);
      left.shift();
      for (const other of left) expect(texts(file)).toContain(other);
    }
  }
});

test("a text is stored without what can't be seen in a file", () => {
  expect(normalized("\r\n  a\r\nb\u2028c \u001b[31mred\u001b[0m\n   \n\n")).toBe("a\nb\nc red");
  expect(normalized("\ud800 half")).toBe("\ufffd half");
});
