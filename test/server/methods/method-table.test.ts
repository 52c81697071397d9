import { expect, test } from "bun:test";
import { join } from "node:path";
import { METHODS } from "../../../src/server/methods/method-table.ts";

/** Files of the folder that define no method. */
const MACHINERY = new Set(["method.ts", "method-table.ts"]);
const FOLDER = join(import.meta.dir, "../../../src/server/methods");

test("every file of the methods folder is one method of the table, under its name", async () => {
  const files = [...new Bun.Glob("*.ts").scanSync(FOLDER)].filter((file) => !MACHINERY.has(file));
  const defined = await Promise.all(
    files.map(async (file) => [
      file.replace(/\.ts$/, "").replaceAll("-", "_"),
      Object.values<unknown>(await import(join(FOLDER, file))),
    ]),
  );
  const loaded = await Promise.all(
    Object.entries(METHODS).map(async ([name, load]) => [name, [await load()]]),
  );
  expect(Object.fromEntries(defined)).toEqual(Object.fromEntries(loaded));
});
