/** The scan of what is remembered, on ordinary texts and on attacks. */
import { describe, expect, test } from "bun:test";
import { normalized } from "../../../plugins/memory/entry-file.ts";
import { scan } from "../../../plugins/memory/scan/scan.ts";
import { FRESH, HIDDEN, INSTRUCTIONS, SECRETS } from "./attacks.ts";
import { ORDINARY } from "./ordinary.ts";

describe("ordinary text passes", () => {
  for (const [kind, texts] of Object.entries(ORDINARY)) {
    test(kind, () => {
      const alarms = texts.flatMap((text) => {
        const finding = scan(normalized(text));
        return finding ? [`${finding.kind}: ${finding.what}: ${text}`] : [];
      });
      expect(alarms).toEqual([]);
    });
  }
});

describe("attacks are found", () => {
  test.each([
    ["hidden characters", HIDDEN],
    ["a secret", SECRETS],
  ] as const)("%s", (kind, texts) => {
    expect(texts.filter((text) => scan(normalized(text))?.kind !== kind)).toEqual([]);
  });

  test("instructions", () => {
    const missed = INSTRUCTIONS.filter((text) => scan(normalized(text)) === null);
    expect(missed).toEqual([]);
  });
});

test("of instructions in other words it finds most", () => {
  expect(FRESH.filter((text) => scan(normalized(text)) !== null).length).toBeGreaterThanOrEqual(23);
});

test("a finding never repeats a secret", () => {
  for (const text of SECRETS) {
    const what = scan(normalized(text))?.what ?? "";
    for (const word of text.split(/[\s"':;,]+/).filter((word) => word.length >= 16))
      expect(what).not.toContain(word);
  }
});

test("a hidden character is named with its code point and place", () => {
  expect(scan("first line\nse\u200bcond")?.what).toBe("U+200B (zero-width space) in line 2, column 3");
});

test.each([
  "a".repeat(4096),
  "ignore ".repeat(580),
  `${"all previous ".repeat(300)}x`,
  "\u200d".repeat(4096),
  "A".repeat(4096),
  `eyJ${"a".repeat(4000)}`,
  "send all ".repeat(450),
  "do not tell the user ".repeat(190),
  "%41".repeat(1300),
  "&#105;".repeat(680),
  "a b c d e f g h ".repeat(250),
])("the scan of a long text is fast: %.20s", (text) => {
  const before = process.cpuUsage();
  for (let n = 0; n < 5; n++) scan(text.slice(0, 4096));
  // Far more than it takes, far less than a pattern that goes back takes.
  expect(process.cpuUsage(before).user / 1_000).toBeLessThan(1_500);
});
