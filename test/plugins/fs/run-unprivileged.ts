/**
 * Run as a program: argv is the project's folder and a list of operations as JSON. Root may write
 * everywhere, so root becomes a user who owns the project first. Prints the result of each operation.
 */
import { chownSync } from "node:fs";
import plugin from "../../../plugins/fs/index.ts";
import { O_RDWR } from "../../../src/plugin/index.ts";
import { testContext } from "../../support/conformance/context.ts";
import { settled } from "../../support/conformance/vfs-file.ts";

const UNPRIVILEGED_UID = 65_534;

const [dir = "", operations = "[]", ...owned] = process.argv.slice(2);
const { context } = testContext(dir);
await run({ op: "glob", pattern: "*" }); // What is loaded on first use is loaded with all rights.
if (process.getuid?.() === 0) {
  for (const path of owned) chownSync(path, UNPRIVILEGED_UID, UNPRIVILEGED_UID);
  process.setuid?.(UNPRIVILEGED_UID);
}
const ends: string[] = [];
for (const operation of JSON.parse(operations)) ends.push(await run(operation));
process.stdout.write(JSON.stringify(ends));

async function run(operation: object): Promise<string> {
  const file = await plugin.devices["/dev/fs"].factory("", O_RDWR, context);
  const end = await settled(() => file.write(JSON.stringify(operation), new AbortController().signal));
  await file.close();
  return end === undefined ? "done" : `${end.code}: ${end.message}`;
}
