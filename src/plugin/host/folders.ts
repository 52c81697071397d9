/** Finds plugins in folders. */

import { existsSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { digestFile } from "../../config/files/file.ts";
import { readRegularSync } from "../../lib/regular-file.ts";
import type { EmbeddedPlugin } from "./embedded.ts";
import type { PluginLayer } from "./report.ts";
import { type FileDigest, type PluginEntry, pluginEntries } from "./stock-files.ts";

interface Folder {
  path: string;
  layer: PluginLayer;
}

/** A plugin in a folder, not yet read. */
export interface PluginLocation {
  name: string;
  layer: PluginLayer;
  /** Absolute. */
  entry: string;
  folder: string;
  /** Why it is not read. */
  refused?: string;
}

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;

/** The plugins in the folders, farthest first. A missing folder is empty. */
export function findPlugins(folders: readonly Folder[]): PluginLocation[] {
  return folders.flatMap(({ path, layer }) => {
    if (!existsSync(path)) return [];
    const entries = readable(path);
    if (typeof entries === "string") {
      return [{ name: basename(path), layer, entry: path, folder: path, refused: entries }];
    }
    const unsafe = layer === "project" ? undefined : unsafety(path);
    const own = isShared(path, layer) ? entries.filter(({ entry }) => isPlugin(entry)) : entries;
    const taken = new Map<string, string>();
    return own.map(({ name, entry }) => {
      const refused = unsafe ?? nameFault(name, entry, taken.get(name));
      if (!taken.has(name)) taken.set(name, entry);
      return { name, layer, entry, folder: path, refused };
    });
  });
}

/** Other tools use `<project>/plugins`, too. */
function isShared(path: string, layer: PluginLayer): boolean {
  return layer === "project" && basename(dirname(path)) !== ".rnix";
}

/** A larger file is no plugin's entry. */
const MOST_BYTES = 2 ** 20;

/** Whether a file there is one of ours: a TypeScript module, or another source that names the contract. */
function isPlugin(entry: string): boolean {
  if (entry.endsWith(".ts")) return true;
  try {
    return readRegularSync(entry, MOST_BYTES).includes("rnix/plugin");
  } catch {
    return false; // A pipe, or more than a plugin's entry would hold.
  }
}

/** The folder's plugins, or why they can't be listed. */
function readable(folder: string): PluginEntry[] | string {
  try {
    return pluginEntries(folder);
  } catch (error) {
    return `${folder} can't be read: ${error instanceof Error ? error.message : String(error)}.`;
  }
}

/** Why a folder is unsafe: code that other users put there would run as this user, without a trust question. */
function unsafety(folder: string): string | undefined {
  const { uid, mode } = statSync(folder);
  const mine = process.getuid?.() ?? uid;
  if (uid !== mine && uid !== 0)
    return `${folder} belongs to another user. Plugins are not loaded from there.`;
  if ((mode & 0o002) === 0) return undefined;
  return `All users may write to ${folder}. Plugins are loaded from there after \`chmod o-w\`.`;
}

function nameFault(name: string, entry: string, other: string | undefined): string | undefined {
  if (!NAME.test(name)) return `"${name}" is no name for a plugin: use letters, digits, "_" and "-".`;
  if (other === undefined) return undefined;
  return `It is not loaded, because ${other} is plugin ${name}. Remove or rename ${entry}.`;
}

/** Leaves out the plugins whose files are those of the embedded plugin of the same name: they are that plugin. */
export function withoutCopies(
  found: readonly PluginLocation[],
  embedded: (name: string) => EmbeddedPlugin | undefined,
): PluginLocation[] {
  // Plugins share files, and each run looks at all of them.
  const seen = new Map<string, boolean>();
  return found.filter(({ name, folder }) => {
    const files = embedded(name)?.files ?? [];
    const isSame = ({ path, digest }: FileDigest): boolean => {
      const file = `${folder}/${path}`;
      return seen.getOrInsertComputed(file, () => digestFile(file) === `sha256:${digest}`);
    };
    return files.length === 0 || !files.every(isSame);
  });
}

/**
 * The plugin folders, farthest first. `beside`: the folder of the binary, if there is one. If the binary is
 * inside the project, the plugins beside it belong to the project and need trust. They are left out if the project's
 * plugins are those of another revision.
 */
export function pluginFolders(
  user: string,
  project: { dir: string; workTree: string } | null,
  beside: string | null,
): Folder[] {
  const own = project === null ? [] : [join(project.dir, "plugins"), join(project.dir, ".rnix", "plugins")];
  const folders: Folder[] = [];
  if (beside !== null) {
    const top = project?.workTree;
    const inProject = top !== undefined && (beside === top || beside.startsWith(`${top}/`));
    const layer = inProject ? "project" : "stock";
    if (!inProject || top === project?.dir) folders.push({ path: join(beside, "plugins"), layer });
  }
  folders.push({ path: join(user, "plugins"), layer: "user" });
  folders.push(...own.map((path) => ({ path, layer: "project" as const })));
  return folders.filter(({ path }, i) => folders.findIndex((other) => other.path === path) === i);
}

/** The folder for plugins beside the executable. */
export function besideBinary(): string {
  return dirname(process.execPath);
}
