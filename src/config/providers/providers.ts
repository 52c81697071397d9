/** Reads and merges the providers.yaml files. */

import { join } from "node:path";
import { type DriverFacts, SyscallError } from "../../plugin/index.ts";
import { type ConfigSources, EMBEDDED, refuseEscape, type Tier, workTreeOf } from "../config-sources.ts";
import { filesOfLine } from "../files/named-files.ts";
import { readYaml } from "../files/yaml.ts";
import { isBeyond } from "../settings/settings.ts";
import { asksTrust } from "../trust/project-keys.ts";
import { leftOutText, type TrustRequest } from "../trust/trust.ts";
import type { ModelFacts } from "./model-facts.ts";
import { type ProviderEntry, ProvidersFile, priceOf } from "./provider-file.ts";

/** A provider, merged from all files. The user calls it by `name`. */
export interface Provider {
  name: string;
  /** Its device is `/dev/llm/<driver>`. */
  driver: string;
  baseUrl?: string;
  /** The variables that hold its key. The first one that is set counts. Empty: it has none. Absent: its driver's. */
  keyEnvs?: readonly string[];
  /** A command that prints its key, for when no variable has it. */
  keyCommand?: KeyCommand;
  /** A run without a key fails at its start. Absent: as its driver says. */
  needsKey?: boolean;
  defaultModel?: string;
  /** The fallbacks of its runs, unless the agent names some: `model` or `provider/model`. */
  fallback?: readonly string[];
  /** What the files say of its models. */
  models: Record<string, ModelFacts>;
  concurrency?: number;
  requestsPerMinute?: number;
  extra?: Record<string, unknown>;
  /** The user allows its program to work with its own tools. */
  allowUnconfined?: boolean;
  /** The nearest file that defines it, or "embedded". */
  source: string;
  tier: Tier;
  /** Only an untrusted project defines it. It can be named but not used. */
  withheld: boolean;
}

/** `api_key_command` of an entry. */
export interface KeyCommand {
  /** For a shell. */
  command: string;
  /** The file that has it: the user's, or a trusted project's. */
  file: string;
  /** The working directory, absolute. */
  cwd: string;
}

export interface Providers {
  byName: Map<string, Provider>;
  /** `default_provider`, nearest file first. */
  defaults: { name: string; because: string }[];
  /** What trust is asked for in the project's file, trusted or not. */
  asked: TrustRequest[];
  /** What was left out because the project is not trusted. Shown to the user. */
  withheld: string[];
}

/**
 * Merges the stock entries, the user's providers.yaml and the project's, field by field. An untrusted project cannot
 * choose a provider or a model, nor set an address, a key or a price. A price in the user's file counts before any
 * project's. `drivers`: the drivers there are; each is a provider of its name.
 */
export async function loadProviders(
  sources: Pick<ConfigSources, "project" | "base" | "configDir" | "home" | "trust">,
  drivers: readonly string[] = [],
): Promise<Providers> {
  const presets = Object.entries(PRESETS).map(([name, { driver }]) => stockProvider(name, driver));
  const stock = [...drivers.map((driver) => stockProvider(driver)), ...presets];
  const byName = new Map(stock.map((provider) => [provider.name, provider]));
  const result: Providers = { byName, defaults: [], asked: [], withheld: [] };
  const user = await readYaml(ProvidersFile, join(sources.configDir, FILE));
  if (user) mergeUser(result, user, sources.home);
  const { kind, dir } = sources.project;
  if (kind === "none") return result;
  const own = join(dir, ".rnix", FILE);
  refuseEscape(own, sources.project);
  const project = await readYaml(ProvidersFile, own);
  if (project) mergeProject(result, project, sources);
  return result;
}

/** With one more entry, as if the user's file had it; null removes a key. Fails with INVALID for a malformed one. */
export function withEntry(
  providers: Providers,
  name: string,
  entry: Readonly<Record<string, unknown>>,
  { configDir, home }: Pick<ConfigSources, "configDir" | "home">,
): Providers {
  const given = Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== null));
  const checked = ProvidersFile.safeParse({ providers: { [name]: given } });
  const value = checked.data?.providers?.[name];
  if (value === undefined) {
    const why = checked.error?.issues.map(({ path, message }) => `${path.slice(1).join(".")}: ${message}`);
    throw new SyscallError("INVALID", why?.join("; ") ?? `the entry ${name} is empty`);
  }
  const stock = providerOf(name, value);
  const known = providers.byName.get(name) ?? stock;
  const hasOtherKey = entry.api_key_env === null || entry.api_key_command === null;
  const { keyEnvs, needsKey } = stock;
  const before = hasOtherKey ? { ...known, keyEnvs, needsKey, keyCommand: undefined } : known;
  const at = { file: join(configDir, FILE), cwd: home };
  const merged: Provider = { ...merge(before, value, at), tier: "user", withheld: false };
  return { ...providers, byName: new Map([...providers.byName, [name, merged]]) };
}

/** An entry that is in no file: a preset, or one for a driver of this name. */
export function stockProvider(name: string, driver = name): Provider {
  const { keyEnvs, needsKey, defaultModel } = presetOf({ name, driver }) ?? {};
  return {
    name,
    driver,
    keyEnvs,
    needsKey,
    defaultModel,
    models: {},
    source: EMBEDDED,
    tier: "embedded",
    withheld: false,
  };
}

const FILE = "providers.yaml";
/** The row of this file in the table of what a project may set. */
const TABLE = ".rnix/providers.yaml";
const DEFAULT = "default_provider";
/** The gate's default. An untrusted project may ask for at most this when the user's file has no number. */
const USUAL_CONCURRENCY = 16;

function mergeUser(into: Providers, { value, text }: ProvidersFile, cwd: string): void {
  for (const [name, entry] of Object.entries(value.providers ?? {})) {
    const before = into.byName.get(name) ?? providerOf(name, entry);
    into.byName.set(name, { ...merge(before, entry, { file: text.file, cwd }), tier: "user" });
  }
  addDefault(into, value.default_provider, text.file);
}

function mergeProject(
  into: Providers,
  { value, text: { file } }: ProvidersFile,
  sources: Pick<ConfigSources, "project" | "base" | "trust">,
): void {
  const { base, trust } = sources;
  const workTree = workTreeOf(sources);
  for (const [name, entry] of Object.entries(value.providers ?? {})) {
    if (entry.allow_unconfined !== undefined) {
      // Only the user can allow an unconfined program, also in a trusted project.
      throw new SyscallError(
        "INVALID",
        `${file}: providers.${name}.allow_unconfined: only your own ~/.config/rnix/providers.yaml can set it.`,
      );
    }
    const before = into.byName.get(name);
    const { free, asks } = splitEntry(name, entry, before);
    const named = filesOfLine(asks.api_key_command ?? "", workTree, workTree);
    const said = Object.entries(asks).map(([key, value]) => `${key} ${JSON.stringify(value)}`);
    const asked: TrustRequest = {
      kind: "provider",
      name,
      what: `provider ${name}: ${said.join(", ")}`,
      file,
      parts: { [`providers.${name}`]: asks },
      named,
    };
    // As a server with variables: see outsideCheckout in mcp.ts.
    const cwd = named.files.length > 0 ? workTree : sources.project.dir;
    if (said.length > 0) into.asked.push(asked);
    const allowed = trust.allows(asked) && base?.isUnchanged(named) !== false;
    const withheld = said.length > 0 && !allowed;
    if (withheld) into.withheld.push(leftOutText(asked));
    const counts = withheld ? free : entry;
    const merged = merge(before ?? providerOf(name, counts), counts, { file, cwd });
    into.byName.set(name, {
      ...merged,
      models: withKnownPrices(merged.models, before?.models),
      tier: "project",
      withheld: withheld && (before === undefined || before.withheld),
    });
  }
  const name = value.default_provider;
  if (name === undefined) return;
  const asked: TrustRequest = {
    kind: "provider",
    name: DEFAULT,
    what: `${DEFAULT}: ${name}`,
    file,
    parts: { [DEFAULT]: name },
  };
  into.asked.push(asked);
  const allowed = trust.allows(asked) && into.byName.get(name)?.withheld !== true;
  if (allowed) addDefault(into, name, file);
  else into.withheld.push(leftOutText(asked));
}

function addDefault({ defaults }: Providers, name: string | undefined, file: string): void {
  if (name !== undefined) defaults.unshift({ name, because: `${DEFAULT} of ${file}` });
}

/** Splits a project's entry by the table of project keys: `free` counts at once, `asks` needs trust. */
function splitEntry(
  name: string,
  entry: ProviderEntry,
  before: Provider | undefined,
): { free: ProviderEntry; asks: ProviderEntry } {
  const free: ProviderEntry = {};
  const asks: ProviderEntry = {};
  const widens: Record<string, boolean> = {
    concurrency: isBeyond(entry.concurrency, before?.concurrency ?? USUAL_CONCURRENCY),
    requests_per_minute: isBeyond(entry.requests_per_minute, before?.requestsPerMinute),
  };
  for (const [key, value] of Object.entries(entry)) {
    if (value === undefined || (key === "driver" && value === (before?.driver ?? name))) continue;
    const target = asksTrust(TABLE, `providers.*.${key}`, widens[key]) ? asks : free;
    Object.assign(target, { [key]: value });
  }
  return { free, asks };
}

/** Puts back the prices of the user's file: a project cannot change them. */
function withKnownPrices(
  models: Record<string, ModelFacts>,
  known: Record<string, ModelFacts> = {},
): Record<string, ModelFacts> {
  return Object.fromEntries(
    Object.entries(models).map(([id, facts]) => [id, { ...facts, price: known[id]?.price ?? facts.price }]),
  );
}

/** A new entry. Its driver has the same name by default. */
function providerOf(name: string, entry: ProviderEntry): Provider {
  const bare = stockProvider(name, entry.driver ?? name);
  // A server of another name at its own address does not get the driver's default key.
  return entry.base_url === undefined || bare.driver === name
    ? bare
    : { ...bare, keyEnvs: [], needsKey: false };
}

function merge(before: Provider, entry: ProviderEntry, at: Pick<KeyCommand, "file" | "cwd">): Provider {
  return {
    ...before,
    driver: entry.driver ?? before.driver,
    baseUrl: entry.base_url ?? before.baseUrl,
    ...keyOfEntry(entry, at),
    defaultModel: entry.default_model ?? before.defaultModel,
    fallback: entry.fallback ?? before.fallback,
    models: mergeModels(before.models, entry.models ?? {}),
    concurrency: entry.concurrency ?? before.concurrency,
    requestsPerMinute: entry.requests_per_minute ?? before.requestsPerMinute,
    extra: entry.extra ?? before.extra,
    allowUnconfined: entry.allow_unconfined ?? before.allowUnconfined,
    source: at.file,
  };
}

/** Only the nearest file with a key counts: its variable first, then its command. */
function keyOfEntry(
  { api_key_env, api_key_command }: ProviderEntry,
  at: Pick<KeyCommand, "file" | "cwd">,
): Partial<Pick<Provider, "keyEnvs" | "keyCommand" | "needsKey">> {
  if (api_key_env === undefined && api_key_command === undefined) return {};
  return {
    keyEnvs: api_key_env === undefined ? [] : [api_key_env],
    keyCommand: api_key_command === undefined ? undefined : { command: api_key_command, ...at },
    needsKey: true,
  };
}

function mergeModels(
  before: Record<string, ModelFacts>,
  models: NonNullable<ProviderEntry["models"]>,
): Record<string, ModelFacts> {
  const merged = { ...before };
  for (const [id, { context_window, max_output, price }] of Object.entries(models)) {
    const known = before[id];
    merged[id] = {
      contextWindow: context_window ?? known?.contextWindow,
      maxOutput: max_output ?? known?.maxOutput,
      price: price ? priceOf(price) : known?.price,
    };
  }
  return merged;
}

/** The facts of a provider, unless a file overrides them. */
export interface ProviderDefaults extends DriverFacts {
  /** Turns the value of `baseUrlEnv` into a URL. Absent: the value is a URL. */
  urlOf?(value: string): string;
  /** An Ollama server. It is searched for on this machine when no other provider is found. */
  isLocal?: true;
  defaultModel?: string;
}

export const PRESETS: Readonly<Record<string, ProviderDefaults & { driver: string }>> = {
  openrouter: {
    driver: "openai-compatible",
    keyEnvs: ["OPENROUTER_API_KEY"],
    needsKey: true,
    baseUrl: "https://openrouter.ai/api/v1",
    defaultModel: "openrouter/auto",
  },
  ollama: {
    driver: "openai-compatible",
    keyEnvs: [],
    needsKey: false,
    baseUrlEnv: "OLLAMA_HOST",
    urlOf: ollamaUrl,
    baseUrl: "http://127.0.0.1:11434/v1",
    isLocal: true,
  },
};

/** The preset of this name, if the provider still has its driver. */
export function presetOf({ name, driver }: { name: string; driver: string }): ProviderDefaults | undefined {
  const preset = Object.hasOwn(PRESETS, name) ? PRESETS[name] : undefined;
  return preset?.driver === driver ? preset : undefined;
}

/**
 * Reads OLLAMA_HOST as Ollama's own client does (`envconfig.Host`): `host`, `host:port`, `:port` or a URL. The port is
 * 11434 unless a scheme is given. A server that listens on all addresses is called on the loopback address.
 */
function ollamaUrl(value: string): string {
  const text = value.trim();
  const [, scheme, rest = ""] = /^(?:(https?):\/\/)?(.*)$/.exec(text) ?? [];
  const [, host = "", port, path = ""] = /^(\[[^\]]*\]|[^:/]*)(?::(\d+))?(\/.*)?$/.exec(rest) ?? [];
  if (host === "" && port === undefined) return text;
  const name = ["", "0.0.0.0"].includes(host) ? "127.0.0.1" : host === "[::]" ? "[::1]" : host;
  const at = port ?? (scheme === undefined ? "11434" : undefined);
  return `${scheme ?? "http"}://${name}${at === undefined ? "" : `:${at}`}${path.replace(/\/+$/, "")}/v1`;
}
