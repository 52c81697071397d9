import { expect, test } from "bun:test";
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../../support/machine.ts";
import { toolResults } from "../../support/requests.ts";
import { calls, says } from "../../support/scenes.ts";
import { receiptOf } from "../../support/verdict.ts";

const SECRET = "TOKEN=hidden";
const SEARCHES: [string, Record<string, unknown>][] = [
  ["Grep", { pattern: "TOKEN", output_mode: "content" }],
  ["Grep", { pattern: "TOKEN", path: "." }],
  ["Grep", { pattern: "TOKEN", path: "config", output_mode: "count" }],
  ["Grep", { pattern: "TOKEN", path: "way" }],
  ["Glob", { pattern: "**/.e*" }],
  ["Glob", { pattern: "*", path: "way" }],
  ["Glob", { pattern: "way/.*" }],
  ["Read", { path: "config/.envs" }],
];

/** Results of the searches in a run with the rules. */
async function results(flags: string[]): Promise<string[]> {
  await using machine = new Machine();
  machine.write("config/.env", SECRET);
  machine.write("config/deep/.env", SECRET);
  machine.write("src/a.ts", "const TOKEN = 1;");
  symlinkSync("config", join(machine.project, "way"));
  const model = await machine.play({ search: [calls(...SEARCHES), says("done")] });
  const run = await machine.run(["spawn", "search", "--output", "json", ...flags]);
  expect(receiptOf(run)).toMatchObject({ exit_code: 0 });
  const last = model.requests.at(-1);
  return last ? toolResults(last) : [];
}

const DENIED: string[][] = [
  ["--deny", "Grep(**/.env)", "--deny", "Glob(**/.env)", "--deny", "Read(**/.env)"],
  ["--deny", "/dev/fs/**/.env"],
  ["--deny", "Read(**/.env)"],
  ["--deny", "Read(**/.ENV)"],
  ["--deny", "Read(config/**)"],
  ["--allow", "Grep(src/**)", "--allow", "Glob(src/**)", "--allow", "Read(src/**)"],
];

for (const flags of DENIED) {
  test(`search results leave out what rules forbid to read: ${flags.join(" ")}`, async () => {
    const found = await results(flags);
    expect(found).toHaveLength(SEARCHES.length);
    expect(found.filter((text) => /hidden|\.env(?!s)(?!\))/.test(withoutRules(text)))).toEqual([]);
    expect(found[0]).toContain("const TOKEN");
    expect(found[0]).toContain("[2 files were left out by rules.]");
    expect(found[1]).toContain("src/a.ts");
  });
}

test("without a rule everything is found", async () => {
  const found = await results([]);
  expect(found.filter((text) => /hidden|\.env/.test(text))).toHaveLength(SEARCHES.length);
});

/** A rule is named by itself. */
function withoutRules(text: string): string {
  return text.replace(/\w+\([^)]*\.env\)|\/dev\/fs\/\*\*\/\.env|\w+\(config\/\.envs\)/gi, "");
}
