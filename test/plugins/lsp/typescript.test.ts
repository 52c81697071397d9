import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { LspProject, TYPESCRIPT } from "./support.ts";

/** 200 files; each function calls the one of the file before it. */
const FILES: Record<string, string> = {
  "tsconfig.json": JSON.stringify({
    compilerOptions: {
      strict: true,
      module: "esnext",
      moduleResolution: "bundler",
      allowImportingTsExtensions: true,
      noEmit: true,
      types: [],
    },
  }),
  "src/shape.ts": `export interface Shape {
  area(): number;
}
export class Square implements Shape {
  constructor(readonly side: number) {}
  area(): number {
    return this.side ** 2;
  }
}
`,
  "src/f0.ts": "/** The first. */\nexport function f0(): number {\n  return 0;\n}\n",
  ...Object.fromEntries(
    Array.from({ length: 196 }, (_, at) => {
      const n = at + 1;
      return [
        `src/f${n}.ts`,
        `import { f${n - 1} } from "./f${n - 1}.ts";\nexport function f${n}(): number {\n  return f${n - 1}() + 1;\n}\n`,
      ];
    }),
  ),
  "src/wrong.ts": 'import { f7 } from "./f7.ts";\nconst text: string = f7();\nexport { text };\n',
};

describe("typescript-language-server, in a project of 200 files", () => {
  let project: LspProject;
  beforeAll(() => {
    project = new LspProject(FILES, TYPESCRIPT);
  });
  afterAll(() => project[Symbol.asyncDispose]());

  const call = (operation: string, file: string, more?: object) => project.call(operation, file, more);

  test("goToDefinition", async () => {
    expect(await call("goToDefinition", "src/f7.ts", { line: 3, symbol: "f6" })).toBe(
      "src/f6.ts:2:17  export function f6(): number {",
    );
  });

  test("findReferences", async () => {
    expect(await call("findReferences", "src/f6.ts", { line: 2, character: 17 })).toBe(
      [
        "src/f6.ts:2:17  export function f6(): number {",
        'src/f7.ts:1:10  import { f6 } from "./f6.ts";',
        "src/f7.ts:3:10  return f6() + 1;",
      ].join("\n"),
    );
  });

  test("hover", async () => {
    const text = await call("hover", "src/f1.ts", { line: 3, symbol: "f0" });
    expect(text).toContain("f0(): number");
    expect(text).toContain("The first.");
  });

  test("documentSymbol", async () => {
    expect(await call("documentSymbol", "src/shape.ts")).toBe(
      [
        "interface Shape  1:18",
        "  method area  2:3",
        "class Square  4:14",
        "  constructor constructor  5:3",
        "  method area  6:3",
        "  property side  5:24",
      ].join("\n"),
    );
  });

  test("workspaceSymbol", async () => {
    expect(await call("workspaceSymbol", "src/shape.ts", { query: "Square" })).toBe(
      "class Square  src/shape.ts:4:1",
    );
  });

  test("goToImplementation", async () => {
    expect(await call("goToImplementation", "src/shape.ts", { line: 1, symbol: "Shape" })).toBe(
      "src/shape.ts:4:14  export class Square implements Shape {",
    );
  });

  test("prepareCallHierarchy", async () => {
    expect(await call("prepareCallHierarchy", "src/f6.ts", { line: 2, symbol: "f6" })).toBe(
      "function f6  src/f6.ts:2:17",
    );
  });

  test("incomingCalls", async () => {
    expect(await call("incomingCalls", "src/f6.ts", { line: 2, symbol: "f6" })).toBe(
      "function f7  src/f7.ts:2:17  (called in line 3)",
    );
  });

  test("outgoingCalls", async () => {
    expect(await call("outgoingCalls", "src/f7.ts", { line: 2, symbol: "f7" })).toBe(
      "function f6  src/f6.ts:2:17  (called in line 3)",
    );
  });

  test("diagnostics, and those of the file as it is now", async () => {
    expect(await call("diagnostics", "src/wrong.ts")).toBe(
      "src/wrong.ts:2:7  error: Type 'number' is not assignable to type 'string'. [typescript 2322]",
    );
    project.write("src/wrong.ts", 'import { f7 } from "./f7.ts";\nexport const text: number = f7();\n');
    expect(await call("diagnostics", "src/wrong.ts")).toBe("typescript found nothing.");
  });

  test("a file that was changed, added or removed beside the call counts as it is now", async () => {
    project.write("src/f197.ts", 'import { f196 } from "./f196.ts";\nexport const last = f196();\n');
    expect(await call("findReferences", "src/f196.ts", { line: 2, symbol: "f196" })).toContain(
      "src/f197.ts:2:21",
    );
  });
});

describe("a request that can't be answered", () => {
  test.each([
    ["hover", "none.ts", { line: 1, character: 1 }, "NOT_FOUND"],
    ["hover", "/etc/passwd", { line: 1, character: 1 }, "PERMISSION"],
    ["hover", "a.unknown", { line: 1, character: 1 }, "UNAVAILABLE"],
    ["hover", "a.zig", { line: 1, character: 1 }, "UNAVAILABLE"],
    ["hover", "a.ts", { line: 1 }, "INVALID"],
    ["hover", "a.ts", { line: 99, character: 1 }, "INVALID"],
    ["hover", "a.ts", { line: 1, symbol: "absent" }, "INVALID"],
    ["workspaceSymbol", "a.ts", {}, "INVALID"],
    ["rename", "a.ts", {}, "INVALID"],
  ])(
    "%s of %s with %j fails with %s",
    async (operation, file, more, code) => {
      await using project = new LspProject(
        { "a.ts": "export const a = 1;\n", "a.unknown": "", "a.zig": "" },
        TYPESCRIPT,
      );
      await expect(project.call(operation, file, more)).rejects.toMatchObject({ code });
    },
    120_000,
  );
});

describe("a server that fails", () => {
  const silent = (program: string) => ({ servers: { typescript: { command: ["bash", "-c", program] } } });

  test("is named with its last words, and not started again at once", async () => {
    await using project = new LspProject({ "a.ts": "let a;\n" }, silent("echo no module >&2; exit 3"));
    const first = project.call("documentSymbol", "a.ts");
    await expect(first).rejects.toMatchObject({
      code: "CLOSED",
      message: expect.stringContaining("no module"),
    });
    const second = project.call("documentSymbol", "a.ts");
    await expect(second).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("exit code 3"),
    });
  });

  test("that writes what is no message ends with an error, not with a wait", async () => {
    await using project = new LspProject({ "a.ts": "let a;\n" }, silent("head -c 100000 /dev/zero; exit 0"));
    await expect(project.call("documentSymbol", "a.ts")).rejects.toMatchObject({ code: "CLOSED" });
  });
});
