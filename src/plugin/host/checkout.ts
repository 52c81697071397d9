import { join, resolve } from "node:path";
import { type EmbeddedFile, type FileDigest, pluginEntries, stockFiles, textFiles } from "./stock-files.ts";

/**
 * Where the stock plugins, agents and skills come from when the checkout itself runs (`bun src/main.ts`,
 * `bun test`). build.ts puts a generated module with the same exports in this one's place, so that the
 * binary carries them; nothing but embedded.ts may import it.
 */

const ROOT = resolve(import.meta.dir, "../../..");
const PLUGINS = join(ROOT, "plugins");

interface StockPlugin {
  name: string;
  /** Its own files below `plugins/`, by content. */
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

export async function agents(): Promise<EmbeddedFile[]> {
  return textFiles(join(ROOT, "agents"));
}

export async function skills(): Promise<EmbeddedFile[]> {
  return textFiles(join(ROOT, "skills"));
}

/** What `new Worker` is given for a plugin's Worker. */
export const workerUrl: string = new URL("./worker.ts", import.meta.url).href;
