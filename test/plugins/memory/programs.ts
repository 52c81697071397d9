/** Programs that change one memory file at once: `bun programs.ts <name> <dir> <label>`. */
import {
  closeSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import memory from "../../../plugins/memory/index.ts";
import { O_RDWR } from "../../../src/plugin/index.ts";
import { PluginStore, pluginFolders } from "../../../src/store/plugin-store.ts";
import { testContext } from "../../support/conformance/context.ts";

const [name = "", dir = "", label = ""] = process.argv.slice(2);
const file = join(dir, ".rnix/data/memory/MEMORY.md");
let stopped = false;
process.stdin.on("end", () => {
  stopped = true;
});
process.stdin.resume();

/** Adds entries, and names each that is confirmed. */
async function agent(): Promise<void> {
  const dataDir = join(dir, ".rnix/data");
  const store = new PluginStore({
    plugin: "memory",
    ...pluginFolders(true, { project: { id: "p", dataDir }, user: join(dir, "user") }),
  });
  const { context } = testContext(dir, { store, config: {} });
  const { signal } = new AbortController();
  for (let n = 0; !stopped; n++) {
    const device = await memory.devices["/dev/memory/commit"].factory("", O_RDWR, context);
    const content = `${label}-${n}\nof two lines`;
    await device.write(JSON.stringify({ action: "add", content }), signal);
    process.stdout.write(`${label}-${n}\n`);
  }
}

/** Adds lines as editors do: in place, half by half, by a new file, or with the old one moved away. */
async function editor(): Promise<void> {
  for (let n = 0; !stopped; n++) {
    const before = text();
    if (before === null) continue;
    const after = `${before}- ${label}-${n}\n`;
    if (n % 4 === 0) writeFileSync(file, after);
    else if (n % 4 === 1) await inHalves(after);
    else if (n % 4 === 2) {
      writeFileSync(`${file}.swp`, after);
      renameSync(`${file}.swp`, file);
    } else {
      renameSync(file, `${file}~`);
      writeFileSync(file, after);
      rmSync(`${file}~`);
    }
    process.stdout.write(`${label}-${n}\n`);
    await Bun.sleep(25);
  }
}

async function inHalves(after: string): Promise<void> {
  const fd = openSync(file, "r+");
  ftruncateSync(fd, 0);
  writeSync(fd, after.slice(0, after.length / 2));
  await Bun.sleep(5);
  writeSync(fd, after.slice(after.length / 2));
  closeSync(fd);
}

function text(): string | null {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return null; // An agent has not written yet.
  }
}

await (name === "agent" ? agent() : editor());
