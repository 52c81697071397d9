import { describe, expect, test } from "bun:test";
import { installed } from "../../support/installed.ts";
import { LspProject } from "./support.ts";

const FILES = {
  "go.mod": "module example.com/shapes\n\ngo 1.19\n",
  "shape.go":
    "package shapes\n\ntype Shape interface {\n\tArea() int\n}\n\ntype Square struct{ Side int }\n\nfunc (s Square) Area() int { return s.Side * s.Side }\n",
  "total.go":
    "package shapes\n\nfunc Total(shapes []Shape) int {\n\tsum := 0\n\tfor _, s := range shapes {\n\t\tsum += s.Area()\n\t}\n\treturn sum\n}\n",
  "use.go": "package shapes\n\nfunc Use() int {\n\treturn Total(nil)\n}\n",
};

// Debian packages, which `.ci/run` installs.
describe.skipIf(!installed("gopls", "go"))("gopls", () => {
  test("answers each operation", async () => {
    await using project = new LspProject(FILES);
    const call = (operation: string, file: string, more?: object) => project.call(operation, file, more);
    expect(await call("goToDefinition", "use.go", { line: 4, symbol: "Total" })).toBe(
      "total.go:3:6  func Total(shapes []Shape) int {",
    );
    expect(await call("findReferences", "total.go", { line: 3, symbol: "Total" })).toBe(
      "total.go:3:6  func Total(shapes []Shape) int {\nuse.go:4:9  return Total(nil)",
    );
    expect(await call("hover", "use.go", { line: 4, symbol: "Total" })).toContain(
      "func Total(shapes []Shape) int",
    );
    expect(await call("documentSymbol", "use.go")).toBe("function Use  3:6");
    expect(await call("workspaceSymbol", "use.go", { query: "Square" })).toContain("shape.go:7:6");
    expect(await call("goToImplementation", "shape.go", { line: 3, symbol: "Shape" })).toContain(
      "shape.go:7:6",
    );
    expect(await call("incomingCalls", "total.go", { line: 3, symbol: "Total" })).toContain("function Use");
    expect(await call("outgoingCalls", "use.go", { line: 3, symbol: "Use" })).toContain("function Total");
    project.write("use.go", "package shapes\n\nfunc Use() string {\n\treturn Total(nil)\n}\n");
    expect(await call("diagnostics", "use.go")).toMatch(/^use\.go:4:9 {2}error: cannot use Total/);
  }, 120_000);
});
