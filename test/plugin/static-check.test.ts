import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join, relative } from "node:path";
import { problemText } from "../../src/plugin/host/report.ts";
import { mayUseMacro, staticCheck } from "../../src/plugin/host/static-check.ts";
import { Scratch } from "./support/scratch.ts";

/** The check of an entry `p.ts` among these files: its files and problems relative to the folder. */
async function check(files: Record<string, string>): Promise<{ files: string[]; problems: string[] }> {
  using scratch = new Scratch();
  for (const [path, text] of Object.entries(files)) scratch.write(path, text);
  const found = await staticCheck(join(scratch.dir, "p.ts"));
  // Bun writes paths in messages relative to the current folder.
  const here = relative(process.cwd(), scratch.dir);
  const short = (text: string) => text.replaceAll(`${here}/`, "").replaceAll(`${scratch.dir}/`, "");
  return {
    files: found.files.map(({ path }) => short(path)),
    problems: found.problems.map(problemText).map(short),
  };
}

describe("reading a plugin without running it", () => {
  test("lists every file it is made of: relative imports, its libraries, text, and what it imports later", async () => {
    const { files, problems } = await check({
      "p.ts":
        'import { a } from "./a.ts"; import lib from "lib"; import t from "./t.txt" with { type: "text" }; export default [a, lib, t, () => import("./later.ts")];',
      "a.ts": 'import type { T } from "./types.ts"; export const a: T = 1;',
      "types.ts": "export type T = number;",
      "later.ts": "export const later = 1;",
      "t.txt": "text",
      "unused.ts": "export {};",
      "node_modules/lib/package.json": '{ "name": "lib", "main": "main.js" }',
      "node_modules/lib/main.js": "module.exports = require('./deep.js');",
      "node_modules/lib/deep.js": "module.exports = 1;",
    });
    expect(problems).toEqual([]);
    expect(files).toEqual([
      "a.ts",
      "later.ts",
      "node_modules/lib/deep.js",
      "node_modules/lib/main.js",
      "p.ts",
      "t.txt",
    ]);
  });

  test("runs no code of the plugin", async () => {
    using scratch = new Scratch();
    const mark = join(scratch.dir, "ran");
    const entry = scratch.write(
      "p.ts",
      `require("node:fs").writeFileSync(${JSON.stringify(mark)}, ""); export default 1;`,
    );
    expect((await staticCheck(entry)).problems).toEqual([]);
    expect(existsSync(mark)).toBe(false);
  });

  const WRONG: [string, Record<string, string>, string][] = [
    ["a syntax error", { "p.ts": "const a = 1;\nconst b = ;" }, "p.ts:2:11: Unexpected ;"],
    [
      "a syntax error in an import",
      { "p.ts": 'import "./a.ts";', "a.ts": "\n{" },
      "a.ts:2:1: Unexpected end of file",
    ],
    ["a missing file", { "p.ts": '\nimport "./gone.ts";' }, 'p.ts:2:8: Could not resolve: "./gone.ts"'],
    [
      "a missing package",
      { "p.ts": 'import x from "no-such-package"; x();' },
      'p.ts:1:15: Could not resolve: "no-such-package". Maybe you need to "bun install"?',
    ],
    [
      "a missing export",
      { "p.ts": 'import { b } from "./a.ts"; b();', "a.ts": "export const a = 1;" },
      'p.ts:1:10: No matching export in "a.ts" for import "b"',
    ],
  ];
  for (const [what, files, said] of WRONG) {
    test(`names file, line and column of ${what}`, async () => {
      expect((await check(files)).problems).toEqual([said]);
    });
  }

  test("says that the entry is not there", async () => {
    expect((await check({})).problems).toHaveLength(1);
  });

  test("ignores aliases of a tsconfig.json, because none applies at run time", async () => {
    const { files } = await check({
      "p.ts": 'import a from "alias"; export default a;',
      "tsconfig.json":
        '{ "compilerOptions": { "paths": { "alias": ["./harmless.ts"], "rnix/plugin": ["./harmless.ts"] } } }',
      "harmless.ts": "export default 1;",
      "node_modules/alias/index.js": "module.exports = 2;",
    });
    expect(files).toEqual(["node_modules/alias/index.js", "p.ts"]);
  });

  test("refuses a macro and does not run it, though Bun would while it reads", async () => {
    using scratch = new Scratch();
    const mark = join(scratch.dir, "ran");
    scratch.write(
      "m.ts",
      `import { writeFileSync } from "node:fs";
export function go() { writeFileSync(${JSON.stringify(mark)}, ""); return 1; }`,
    );
    const entry = scratch.write(
      "p.ts",
      'import { go } from "./m.ts" with { type: "macro" };\nexport default go();',
    );
    const { problems } = await staticCheck(entry);
    expect(problems.map(problemText)).toEqual([expect.stringContaining("p.ts: It uses a Bun macro")]);
    expect(existsSync(mark)).toBe(false);

    await Bun.build({ entrypoints: [entry], target: "bun", throw: false });
    expect(existsSync(mark), "without the refusal it runs").toBe(true);
  });

  test("refuses it in a file that only an import makes a source of", async () => {
    const { problems } = await check({
      "p.ts": 'import "./m.txt" with { type: "ts" };',
      "m.txt": 'import { go } from "./go.ts" with { type: "macro" };\ngo();',
      "go.ts": "export function go() { throw new Error('ran'); }",
    });
    expect(problems).toEqual([expect.stringContaining("m.txt: It uses a Bun macro")]);
  });

  test("does not wait for a pipe in place of a file", async () => {
    using scratch = new Scratch();
    const entry = scratch.write("p.ts", 'import "./pipe.ts";');
    for (const pipe of ["pipe.ts", "entry.ts"]) {
      expect(Bun.spawnSync(["mkfifo", join(scratch.dir, pipe)]).success).toBe(true);
    }
    expect((await staticCheck(entry)).problems).toHaveLength(1);
    expect((await staticCheck(join(scratch.dir, "entry.ts"))).problems).toHaveLength(1);
  });
});

describe("a macro is seen", () => {
  const HIDDEN: string[] = [
    'import { a } from "./m.ts" with { type: "macro" };',
    "import { a } from './m.ts' assert { type: 'macro' };",
    'import { a } from "./m.ts"with{type:"macro"}',
    'import { a } from "./m.ts" with { "type": "m\\u0061cro" };',
    'import { a } from "./m.ts" with { type: "\\x6dacro" };',
    'import { a } from "./m.ts" with { type: "\\u{00006d}acro" };',
    'import { a } from "./m.ts" with { type: "\\155acro" };',
    'import { a } from "./m.ts" with { type: "mac\\\nro" };',
    'import { a } from "./m.ts" with /* { */ // {\n { /* } */ type: "macro" };',
    'import { a } from "./m.ts" with <!-- {\n { type: "macro" };',
    'export { a } from "./m.ts" with { type: "macro" };',
    'import { a } from "macro:./m.ts";',
    'import "\\u006dacro:./m.ts";',
    "import { a } from/* */'macro:./m.ts';",
    'const s = "/*"; import { a } from "./m.ts" with { type: "macro" }; /* */',
  ];
  for (const source of HIDDEN) test(source, () => expect(mayUseMacro(source)).toBe(true));

  const HARMLESS: string[] = [
    'import t from "./t.txt" with { type: "text" };',
    "// the word macro, with { braces }",
    'const kind = "macro";',
    'import macro from "macro-tools";',
    "export const macros = { with: 1, assert: 2 };",
  ];
  for (const source of HARMLESS) test(`not in: ${source}`, () => expect(mayUseMacro(source)).toBe(false));

  test("in linear time", () => {
    const openings = "from/*".repeat(500_000);
    const started = performance.now();
    expect(mayUseMacro(openings)).toBe(false);
    expect(performance.now() - started).toBeLessThan(10_000);
  });
});
