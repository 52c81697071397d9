/** The stock plugins, agents and skills that are embedded in the binary; stock plugins run in this thread. */

import { readRegular } from "../../lib/regular-file.ts";
import type { Plugin } from "../index.ts";
import { plugins } from "./checkout.ts";
import { exportedPlugin } from "./exported.ts";
import { type FileDigest, MAX_SOURCE_BYTES, sha256 } from "./stock-files.ts";

export interface EmbeddedPlugin {
  name: string;
  /** The digest of `files`: the plugin's version. */
  digest: string;
  /** Its files, relative to a plugins folder. The same content on disk is the same plugin. */
  files: readonly { path: string; digest: string }[];
  /** The module, loaded on first use. */
  import(): Promise<unknown>;
}

/** `compiled`: this is the compiled binary. `pluginProgram`: the command line of the process of a plugin. */
export {
  agents as embeddedAgents,
  commands as embeddedCommands,
  compiled,
  pluginProgram,
  skills as embeddedSkills,
} from "./checkout.ts";

let known: EmbeddedPlugin[] | undefined;

/** The stock plugins: from the binary, or from `plugins/` of a checkout. */
export function embeddedPlugins(): readonly EmbeddedPlugin[] {
  known ??= plugins().map((plugin) => ({ ...plugin, digest: listDigest(plugin.files) }));
  return known;
}

/** One digest over a list of files: paths and contents, in the order of the paths. */
export function listDigest(files: readonly { path: string; digest: string }[]): string {
  const lines = files.map(({ path, digest }) => `${digest}  ${path}\n`);
  return sha256(lines.sort().join(""));
}

/** The path of a mount type. */
const MOUNTS = "/mnt/";

/** The stock plugins, which run in this thread. Each is imported on first use. */
export class StockPlugins {
  readonly #loaded = new Map<string, Promise<Plugin>>();

  get all(): readonly EmbeddedPlugin[] {
    return embeddedPlugins();
  }

  named(name: string): EmbeddedPlugin | undefined {
    return this.all.find((plugin) => plugin.name === name);
  }

  load(stock: EmbeddedPlugin): Promise<Plugin> {
    const { name } = stock;
    return this.#loaded.getOrInsertComputed(name, async () => exportedPlugin(name, await stock.import()));
  }

  /** The stock parts that a plugin from disk replaces: "plugin fs", "/dev/fs", "Read", "/mnt/mcp". */
  async takenBy(name: string, { devices, mount }: Pick<Plugin, "devices" | "mount">): Promise<string[]> {
    const paths = [...Object.keys(devices ?? {}), ...(mount ? [MOUNTS + mount.type] : [])];
    const tools = Object.values(devices ?? {}).flatMap((device) => device.tools ?? []);
    const taken = new Set([...paths, ...tools.map((tool) => tool.name)]);
    return (await this.#claims(name)).filter((claim) => taken.has(claim) || claim === `plugin ${name}`);
  }

  /**
   * The same for a plugin that may not run yet, from the names in its sources. A source can hide a name from this; a
   * loaded plugin is checked by `takenBy`.
   */
  async mentionedBy(name: string, files: readonly FileDigest[]): Promise<string[]> {
    const own = files.filter(({ path }) => !path.includes("/node_modules/"));
    const texts = await Promise.all(
      own.map(({ path }) => readRegular(path, MAX_SOURCE_BYTES).catch(() => "")),
    );
    const source = texts.join("\n");
    const written = (claim: string) => {
      const word = claim.startsWith(MOUNTS) ? claim.slice(MOUNTS.length) : claim;
      return [`"${word}"`, `'${word}'`, `\`${word}\``].some((text) => source.includes(text));
    };
    return (await this.#claims(name)).filter((claim) => claim === `plugin ${name}` || written(claim));
  }

  /** Disposes of all stock plugins. Never throws: at the end their errors help no one. */
  async dispose(): Promise<void> {
    const plugins = await Promise.allSettled(this.#loaded.values());
    this.#loaded.clear();
    await Promise.allSettled(
      plugins.map((plugin) => (plugin.status === "fulfilled" ? plugin.value.dispose?.() : null)),
    );
  }

  async #claims(name: string): Promise<string[]> {
    const claims = this.named(name) ? [`plugin ${name}`] : [];
    for (const stock of this.all) {
      const { devices = {}, mount } = await this.load(stock);
      if (mount) claims.push(MOUNTS + mount.type);
      for (const [path, device] of Object.entries(devices)) {
        claims.push(path, ...(device.tools ?? []).map((tool) => tool.name));
      }
    }
    return claims;
  }
}
