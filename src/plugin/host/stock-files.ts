/** Lists the files of stock plugins, agents and skills with their digests. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";

/** A larger file of a plugin is not read. */
export const MAX_SOURCE_BYTES = 16 * 2 ** 20;

/** A file and its digest. `path` is relative to the listed folder, unless noted as absolute. */
export interface FileDigest {
  path: string;
  /** SHA-256 of the bytes, hexadecimal. */
  digest: string;
}

export interface EmbeddedFile {
  /** Relative to `agents/` or `skills/`, with "/": "default/agent.yaml". */
  path: string;
  text: string;
}

export interface PluginEntry {
  name: string;
  /** Absolute: `plugins/<name>.ts` or `plugins/<name>/index.ts`, or with another extension of EXTENSIONS. */
  entry: string;
}

/** The extensions of a plugin's entry. Of two entries of one name the first in this list is the plugin. */
const EXTENSIONS = ["ts", "tsx", "mts", "cts", "js", "jsx", "mjs", "cjs"];
const SOURCE = new RegExp(`^(.+)\\.(${EXTENSIONS.join("|")})$`);

/** The plugins of a folder, by name. Declarations and names that begin with "_" or "." are helpers. */
export function pluginEntries(folder: string): PluginEntry[] {
  const found: (PluginEntry & { rank: number })[] = [];
  for (const item of readdirSync(folder, { withFileTypes: true })) {
    if (/^[._]/.test(item.name) || item.name === "node_modules") continue;
    const path = join(folder, item.name);
    const [, name, extension = ""] = SOURCE.exec(item.name) ?? [];
    if (!item.isDirectory() && name !== undefined) {
      if (!/\.(d|test)$/.test(name)) found.push({ name, entry: path, rank: EXTENSIONS.indexOf(extension) });
      continue;
    }
    for (const [rank, one] of EXTENSIONS.entries()) {
      const index = join(path, `index.${one}`);
      if (existsSync(index)) found.push({ name: item.name, entry: index, rank: EXTENSIONS.length + rank });
    }
  }
  return found
    .sort((a, b) => (a.name === b.name ? a.rank - b.rank : a.name < b.name ? -1 : 1))
    .map(({ name, entry }) => ({ name, entry }));
}

/** A plugin's name from its entry. */
export function nameOf(entry: string): string {
  const parts = entry.split("/");
  const last = parts.at(-1) ?? entry;
  const [, name = last] = SOURCE.exec(last) ?? [];
  return name === "index" ? (parts.at(-2) ?? last) : name;
}

/** The entry and its imports from the same folder, without running or bundling them. */
export function stockFiles(folder: string, entry: string): FileDigest[] {
  const seen = new Map<string, string>();
  const open = [entry];
  const scanner = new Bun.Transpiler({ loader: "ts" });
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    if (seen.has(file)) continue;
    const text = readFileSync(file);
    seen.set(file, sha256(text));
    if (!/\.[jt]sx?$/.test(file)) continue;
    for (const { path } of scanner.scanImports(text)) {
      if (path.startsWith(".")) open.push(resolve(dirname(file), path));
    }
  }
  return [...seen]
    .map(([path, digest]) => ({ path: relative(folder, path).split(sep).join("/"), digest }))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** All files below a folder as text, in a stable order, without those that begin with ".". */
export function textFiles(folder: string): EmbeddedFile[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((item) => item.isFile() && !item.name.startsWith("."))
    .map((item) => join(item.parentPath, item.name))
    .sort()
    .map((path) => ({ path: relative(folder, path).split(sep).join("/"), text: utf8(path) }));
}

export function sha256(data: string | Uint8Array): string {
  return Bun.CryptoHasher.hash("sha256", data, "hex");
}

/** Decodes UTF-8, because agents and skills are embedded as text. Throws a TypeError for other bytes. */
function utf8(path: string): string {
  return new TextDecoder("utf-8", { fatal: true }).decode(readFileSync(path));
}
