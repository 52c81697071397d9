import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { KINDS } from "../../src/cli/replay/report.ts";
import { Stage } from "../plugins/replay/stage.ts";
import { failure } from "../support/failure.ts";

const ROOT = join(import.meta.dir, "../..");
const text = readFileSync(join(ROOT, "docs/replay.md"), "utf8");
const example = /```yaml\n([\s\S]*?)```/.exec(text)?.[1] ?? "";

describe("docs/replay.md", () => {
  const grid: [string, Record<string, string[]>, string[]][] = [
    ["nothing is wrong", { Bash: ["PASS"] }, ["Let me see.", "Nothing to do."]],
    [
      "it is repaired",
      { Bash: ["FAIL: 3", "PASS"], Edit: ["edited"] },
      ["Let me see.", "", "", "It adds now."],
    ],
  ];
  for (const [title, results, said] of grid) {
    test(`its example replays as documented: ${title}`, async () => {
      using stage = new Stage();
      stage.write("s.yaml", example);
      expect(await (await stage.open("s.yaml")).play(({ name }) => results[name]?.shift() ?? "")).toEqual(
        said,
      );
    });
  }

  test("its example diverges when a call's result differs", async () => {
    const others: [Record<string, string[]>, RegExp][] = [
      [{ Bash: ["no such file"] }, /no condition of its branch is true/],
      [{ Bash: ["FAIL: 3"], Edit: ["Error NOT_FOUND: total.sh"] }, /turn 2: Edit/],
      [{ Bash: ["FAIL: 3", "FAIL: 4"], Edit: ["edited"] }, /turn 3: Bash/],
    ];
    for (const [results, says] of others) {
      using stage = new Stage();
      stage.write("s.yaml", example);
      const played = (await stage.open("s.yaml")).play(({ name }) => results[name]?.shift() ?? "");
      expect((await failure(played)).message).toMatch(says);
    }
  });

  test("names every kind of difference, every key of a script and every key of a condition", () => {
    // The part of a recorded step, at the end of script.ts, is no part of a script.
    const sources = ["script.ts", "condition.ts"].map(
      (file) =>
        readFileSync(join(ROOT, "plugins/replay", file), "utf8").split("/** The part of a step")[0] ?? "",
    );
    const keys = sources.flatMap((source) => [
      ...source.matchAll(/^\s+(\w+): (?:z$|z\.|texts|pattern|Match|Condition)/gm),
    ]);
    const words = [...KINDS, ...keys.map((match) => match[1] ?? ""), "one_of", "when"];
    expect(words.length).toBeGreaterThan(35);
    expect([...new Set(words)].filter((word) => !new RegExp(`\\b${word}\\b`).test(text))).toEqual([]);
  });
});
