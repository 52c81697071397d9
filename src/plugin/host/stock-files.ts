/** Lists the files of stock plugins, agents and skills with their digests. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";

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
  /** Absolute: `plugins/<name>.ts` or `plugins/<name>/index.ts`. */
  entry: string;
}

/** The plugins of a folder, by name. Declarations and names that begin with "_" or "." are helpers. */
export function pluginEntries(folder: string): PluginEntry[] {
  const found: PluginEntry[] = [];
  for (const item of readdirSync(folder, { withFileTypes: true })) {
    if (/^[._]/.test(item.name) || item.name === "node_modules") continue;
    const path = join(folder, item.name);
    const index = join(path, "index.ts");
    if (!item.isDirectory() && /\.ts$/.test(item.name) && !/\.(d|test)\.ts$/.test(item.name)) {
      found.push({ name: item.name.slice(0, -3), entry: path });
    } else if (existsSync(index)) {
      found.push({ name: item.name, entry: index });
    }
  }
  return found.sort((a, b) => (a.entry < b.entry ? -1 : 1));
}

/** The entry and its imports from the same folder, without running or bundling them. */
export function stockFiles(folder: string, entry: string): FileDigest[] {
  const seen = new Map<string, string>();
  const open = [entry];
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

const scanner = new Bun.Transpiler({ loader: "ts" });

/** Decodes UTF-8, because agents and skills are embedded as text. Throws a TypeError for other bytes. */
function utf8(path: string): string {
  return new TextDecoder("utf-8", { fatal: true }).decode(readFileSync(path));
}
