import { expect, test } from "bun:test";
import { join } from "node:path";
import { TYPESCRIPT } from "../plugins/lsp/support.ts";
import { Machine } from "./support/machine.ts";
import { toolResults } from "./support/requests.ts";
import { calls, says } from "./support/scenes.ts";

const PATH = `${join(import.meta.dir, "../../node_modules/.bin")}:${process.env.PATH}`;

test("two runs share a language server, which sees what the first has written, and ends with the daemon", async () => {
  await using machine = new Machine();
  machine.config({ plugins: { lsp: TYPESCRIPT } });
  machine.write("tsconfig.json", '{"compilerOptions": {"strict": true, "types": []}}');
  machine.write("a.ts", "export const wrong: string = 1;\n");
  const model = await machine.play({
    "look and mend": [
      calls(["Lsp", { operation: "diagnostics", file: "a.ts" }]),
      calls(["Edit", { path: "a.ts", old_string: "1", new_string: '"1"' }]),
      says("done"),
    ],
    "look again": [
      calls(["Lsp", { operation: "diagnostics", file: "a.ts" }]),
      calls(["Lsp", { operation: "documentSymbol", file: "a.ts" }], ["DaemonList", { kind: "lsp" }]),
      says("done"),
    ],
  });
  expect(await machine.run(["spawn", "look and mend"], { env: { PATH } })).toMatchObject({ code: 0 });
  expect(toolResults(model.last)[0]).toContain(
    "a.ts:1:14  error: Type 'number' is not assignable to type 'string'.",
  );
  expect(await machine.run(["spawn", "look again"], { env: { PATH } })).toMatchObject({ code: 0 });
  const [clean, symbols, units] = toolResults(model.last);
  expect(clean).toBe("typescript found nothing.");
  expect(symbols).toContain("constant wrong  1:14");
  expect(units).toMatch(/^- l\w{8} \[lsp\/running\] typescript in /);
  await machine.run(["daemon", "stop"]);
  expect(machine.strays()).toEqual([]);
}, 120_000);

test("the model gets the new problems of a file that it has edited with the next step, and nothing once they are mended", async () => {
  await using machine = new Machine();
  machine.config({ plugins: { lsp: TYPESCRIPT } });
  machine.write("tsconfig.json", '{"compilerOptions": {"strict": true, "types": []}}');
  machine.write("a.ts", "export const a: string = 1;\nexport const b = 1;\n");
  const edit = (old_string: string, new_string: string) =>
    calls(["Edit", { path: "a.ts", old_string, new_string }]);
  const model = await machine.play({
    "edit without a server": [edit("b = 1", "b = 2"), says("done")],
    "edit with one": [
      calls(["Lsp", { operation: "diagnostics", file: "a.ts" }]),
      edit("b = 2", 'b: number = "two"'),
      edit('"two"', "2"),
      says("done"),
    ],
  });
  const spawn = async (intent: string) => {
    await machine.ok(["spawn", "--allow", "Lsp", "--allow", "Edit", intent], { env: { PATH } });
    return model.requests.map(({ text }) => text.split("New problems in files").length - 1);
  };
  expect(await spawn("edit without a server")).toEqual([0, 0]);
  // The problem of `a` was there before.
  expect(await spawn("edit with one")).toEqual([0, 0, 0, 0, 1, 1]);
  const noted = model.last.text;
  expect(noted).toContain("a.ts:2:14  error: Type 'string' is not assignable to type 'number'.");
  expect(noted.split("Type 'number' is not assignable to type 'string'")).toHaveLength(2);
  await machine.run(["daemon", "stop"]);
}, 120_000);
