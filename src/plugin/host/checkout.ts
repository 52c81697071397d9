/**
 * The stock plugins, agents and skills of a checkout (`bun src/main.ts`, `bun test`). In the binary, build.ts replaces
 * this module by a generated one with the same exports. Only embedded.ts may import it.
 */

import { join, resolve } from "node:path";
import type { CommandSpec } from "../index.ts";
import { exportedPlugin } from "./exported.ts";
import { type EmbeddedFile, type FileDigest, pluginEntries, stockFiles, textFiles } from "./stock-files.ts";

const ROOT = resolve(import.meta.dir, "../../..");
const PLUGINS = join(ROOT, "plugins");

interface StockPlugin {
  name: string;
  /** Its files below `plugins/`, by content. */
  files: readonly FileDigest[];
  import(): Promise<unknown>;
}

export const compiled = false;

export function plugins(): StockPlugin[] {
  return pluginEntries(PLUGINS).map(({ name, entry }) => ({
    name,
    files: stockFiles(PLUGINS, entry),
    import: () => import(entry),
  }));
}

/** The commands of the stock plugins. In the binary they are data: no plugin is loaded for them. */
export async function commands(): Promise<CommandSpec[]> {
  const modules = await Promise.all(
    plugins().map(async ({ name, import: load }) => exportedPlugin(name, await load())),
  );
  return modules.flatMap((plugin) => plugin.commands ?? []);
}

export async function agents(): Promise<EmbeddedFile[]> {
  return textFiles(join(ROOT, "agents"));
}

export async function skills(): Promise<EmbeddedFile[]> {
  return textFiles(join(ROOT, "skills"));
}

export const pluginProgram: readonly string[] = [
  process.execPath,
  join(import.meta.dir, "plugin-program.ts"),
];
