import { existsSync } from "node:fs";
import { join } from "node:path";
import { AGENT_CHECKS, projectChecks } from "./agents.ts";
import type { Places } from "./places.ts";
import { loadProviders } from "./providers.ts";
import { CONFIG_PLUGINS, configPlugins } from "./settings.ts";
import { projectScripts } from "./skills.ts";
import type { Trust, TrustItem } from "./trust.ts";

/** A plugin of the project, as the plugin host has read it without running it. */
interface PluginFiles {
  name: string;
  /** Absolute: its entry first, then everything it imports. */
  files: readonly string[];
  /** Paths and tools of stock plugins that it takes: the person who decides is told. */
  takes?: readonly string[];
}

/**
 * Everything in the project that runs code or moves a key (design §5, "Trust"), for `rnix trust` to show
 * and to bind. Empty outside a project. A configuration that cannot be read is thrown as INVALID.
 */
export async function trustItems(
  places: Places,
  trust: Trust,
  plugins: readonly PluginFiles[],
): Promise<TrustItem[]> {
  if (places.project.kind === "none") return [];
  return [
    ...plugins.map((plugin) => pluginItem(trust, plugin)),
    ...(await configItems(places, trust)),
    ...(await providerItems(places, trust)),
    ...fileItems(places, trust),
    ...(await checkItems(places, trust)),
    ...projectScripts(places).map(({ name, file, scripts }) =>
      trust.files(
        { kind: "scripts", name, what: `${scripts.length} scripts of the skill ${name}`, file },
        scripts,
      ),
    ),
  ];
}

function pluginItem(trust: Trust, { name, files, takes = [] }: PluginFiles): TrustItem {
  const instead = takes.length === 0 ? "" : `, in place of the stock ${takes.join(", ")}`;
  const what = `plugin ${name}: runs as you, ${files.length} files${instead}`;
  return trust.files({ kind: "plugin", name, what, file: files[0] ?? name }, files);
}

async function configItems({ project }: Places, trust: Trust): Promise<TrustItem[]> {
  const file = join(project.dir, ".rnix", "config.yaml");
  const plugins = await configPlugins(file);
  if (plugins === undefined) return [];
  const what = `settings of the plugins ${Object.keys(plugins).join(", ")}`;
  return [trust.part({ kind: "config", name: CONFIG_PLUGINS, what, file }, CONFIG_PLUGINS, plugins)];
}

async function providerItems(places: Places, trust: Trust): Promise<TrustItem[]> {
  const { moves } = await loadProviders(places);
  return moves.map(({ name, file, part, value }) => {
    const says = Object.entries(value).map(([key, said]) => `${key} ${JSON.stringify(said)}`);
    return trust.part(
      { kind: "provider", name, what: `provider ${name}: ${says.join(", ")}`, file },
      part,
      value,
    );
  });
}

function fileItems({ project }: Places, trust: Trust): TrustItem[] {
  const all = [
    { kind: "mcp", name: ".mcp.json", what: "MCP servers: programs and addresses" },
    { kind: "mcp", name: ".rnix/mcp.yaml", what: "MCP servers: programs and addresses" },
    { kind: "init", name: ".rnix/init.yaml", what: "services started with the daemon" },
  ] as const;
  return all
    .map((item) => ({ ...item, file: join(project.dir, item.name) }))
    .filter(({ file }) => existsSync(file))
    .map((item) => trust.files(item, [item.file]));
}

async function checkItems(places: Places, trust: Trust): Promise<TrustItem[]> {
  return (await projectChecks(places)).map(({ name, file, checks }) =>
    trust.part(
      { kind: "checks", name, what: `checks of the agent ${name}: ${checks.join("; ")}`, file },
      AGENT_CHECKS,
      checks,
    ),
  );
}
