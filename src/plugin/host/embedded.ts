/** The stock plugins, agents and skills that are embedded in the binary. */

import type { ConfigSources } from "../../config/config-sources.ts";
import type { CommandSpec } from "../index.ts";
import * as stock from "./checkout.ts";
import { sha256 } from "./stock-files.ts";

export interface EmbeddedPlugin {
  name: string;
  /** The digest of `files`: the plugin's version. */
  digest: string;
  /** Its files, relative to a plugins folder. The same content on disk is the same plugin. */
  files: readonly { path: string; digest: string }[];
  /** The module, loaded on first use. */
  import(): Promise<unknown>;
}

let known: EmbeddedPlugin[] | undefined;

/** The stock plugins: from the binary, or from `plugins/` of a checkout. */
export function embeddedPlugins(): readonly EmbeddedPlugin[] {
  known ??= stock.plugins().map((plugin) => ({ ...plugin, digest: listDigest(plugin.files) }));
  return known;
}

/** The commands of the stock plugins. */
export function embeddedCommands(): Promise<CommandSpec[]> {
  return stock.commands();
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

/** The command line of the process of a plugin. */
export const pluginProgram: readonly string[] = stock.pluginProgram;

/** One digest over a list of files: paths and contents, in the order of the paths. */
export function listDigest(files: readonly { path: string; digest: string }[]): string {
  const lines = files.map(({ path, digest }) => `${digest}  ${path}\n`);
  return sha256(lines.sort().join(""));
}
