/** Runs a command that prints 100 MB as the tool does, and tells what memory that took. */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import plugin from "../../../plugins/shell.ts";
import { O_RDWR } from "../../../src/plugin/index.ts";
import { exchange, text } from "../../support/conformance/vfs-file.ts";
import { measure } from "../../support/measured.ts";
import { openContext } from "../../support/open-context.ts";

const command = "head -c 104857600 /dev/zero | tr '\\0' x";
const root = mkdtempSync(join(tmpdir(), "rnix-shell-"));
const dir = join(root, "project");
mkdirSync(dir);
try {
  await using real = openContext(dir, join(root, "kept"));
  await measure(async () => {
    const file = await plugin.devices["/dev/shell"].factory("", O_RDWR, real.context);
    try {
      return text(await exchange(file, JSON.stringify({ op: "bash", command })));
    } finally {
      await file.close();
    }
  });
} finally {
  rmSync(root, { recursive: true, force: true });
}
