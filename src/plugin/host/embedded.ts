import type { ConfigSources } from "../../config/places.ts";
import * as stock from "./checkout.ts";
import { sha256 } from "./stock-files.ts";

export interface EmbeddedPlugin {
  name: string;
  /** Over the content of `files`: the plugin's version. */
  digest: string;
  /** Its own files, relative to a plugins folder: the same content on disk is this plugin. */
  files: readonly { path: string; digest: string }[];
  /** The module, loaded on first use. */
  import(): Promise<unknown>;
}

let known: EmbeddedPlugin[] | undefined;

/** The stock plugins: in the binary, or in `plugins/` of the checkout when that runs. */
export function embeddedPlugins(): readonly EmbeddedPlugin[] {
  known ??= stock.plugins().map((plugin) => ({ ...plugin, digest: listDigest(plugin.files) }));
  return known;
}

/** Files below `agents/` by relative path, loaded when asked for. */
export function embeddedAgents(): Promise<ConfigSources["agents"]> {
  return stock.agents();
}

/** Files below `skills/` by relative path, loaded when asked for. */
export function embeddedSkills(): Promise<ConfigSources["skills"]> {
  return stock.skills();
}

/** True in the compiled binary. */
export const compiled: boolean = stock.compiled;

export const workerUrl: string = stock.workerUrl;

/** One digest over a list of files: paths and contents, in the order of the paths. */
export function listDigest(files: readonly { path: string; digest: string }[]): string {
  const lines = files.map(({ path, digest }) => `${digest}  ${path}\n`);
  return sha256(lines.sort().join(""));
}
