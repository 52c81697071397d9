import type { ProviderChoice } from "../kernel/types.ts";
import { SyscallError } from "../plugin/index.ts";
import type { Namespace } from "../vfs/namespace.ts";
import type { DeviceEntry } from "../vfs/registry.ts";
import { formatDuration } from "./duration.ts";
import { digestText } from "./file.ts";
import { suggestion } from "./nearest.ts";
import type { Env } from "./paths.ts";
import { type Provider, type Providers, stockProvider } from "./providers.ts";
import { DRIVERS, defaultsOf } from "./stock-providers.ts";

export interface ProviderRequest {
  providers: Providers;
  /** The devices of the run: a provider is there when its driver's device is. */
  devices: Pick<Namespace, "entries">;
  /** The spawner's. */
  env: Env;
  /** `~/.config/rnix/env`, for what is not in `env`. */
  userEnv: Env;
  /** `--provider`, `--model`. */
  flags?: { provider?: string; model?: string };
  /** What agent.yaml names. */
  agent?: { name: string; provider?: string; model?: string };
  /** The choice of the run that spawns this one: its address and key are in no environment of a tool. */
  parent?: ProviderChoice;
  clock: Timers;
  /** Told of a driver that fails to say whether it can be used: the others are asked all the same. */
  warn(text: string): void;
}

/** What a look at the providers needs: nothing waits, and nothing is warned of. */
type Lookup = Omit<ProviderRequest, "clock" | "warn">;

/** `Clock` of the kernel, as far as a deadline needs it. */
interface Timers {
  timer(ms: number, f: () => void): { cancel(): void };
}

/** One line of `rnix providers`. */
export interface ProviderLine {
  name: string;
  driver: string;
  base_url: string | null;
  /** The variable of its key, and whether it is set. Never the key. */
  key_env: string | null;
  key: "set" | "missing" | "not needed";
  default_model: string | null;
  models: string[];
  source: string;
  /** Why it cannot be used; null when it can. */
  problem: string | null;
}

/**
 * The provider and model of a run: flag, RNIX_PROVIDER and RNIX_MODEL, agent.yaml, the parent's, the project's
 * providers.yaml, the user's, what is found on the machine (design §6). NOT_FOUND: no such provider.
 * INVALID: no model. UNAVAILABLE (exit 69): nothing found, or the one that was named lacks its key.
 */
export async function resolveProvider(request: ProviderRequest): Promise<ProviderChoice> {
  const named = wishes(request).find(({ provider }) => provider !== undefined);
  if (named?.provider === undefined) return await detected(request);
  if (named.provider === request.parent?.name) return takenOver(request.parent, named.because, request);
  const provider = providerNamed(named.provider, request);
  usable(provider, request);
  const wished = modelWish(provider.name, request) ?? provider.defaultModel;
  const model = wished ?? (await detect(provider, request))?.model;
  if (model === undefined) throw noModel(provider);
  return choose(provider, model, named.because, request);
}

/** Every provider that can be named, with what it lacks. */
export function describeProviders(request: Lookup): ProviderLine[] {
  return names(request).map((name) => {
    const provider = providerNamed(name, request);
    const key = keyOf(provider, request);
    return {
      name,
      driver: provider.driver,
      base_url: baseUrl(provider, request) ?? null,
      key_env: keyVariable(provider, request) ?? null,
      key: key !== undefined ? "set" : provider.needsKey ? "missing" : "not needed",
      default_model: provider.defaultModel ?? null,
      models: Object.keys(provider.models),
      source: provider.source,
      problem: lackOf(provider, request)?.message ?? null,
    };
  });
}

/** A driver has this long to say whether it can be used here. */
const DETECT_MS = 2000;

interface Wish {
  provider?: string;
  model?: string;
  because: string;
}

/** Who may name a provider or a model, the strongest first. */
function wishes({ flags, env, agent, parent, providers }: ProviderRequest): Wish[] {
  return [
    { provider: flags?.provider, model: flags?.model, because: "--provider" },
    {
      provider: env.RNIX_PROVIDER || undefined,
      model: env.RNIX_MODEL || undefined,
      because: "RNIX_PROVIDER",
    },
    { provider: agent?.provider, model: agent?.model, because: `the agent ${agent?.name}` },
    { provider: parent?.name, model: parent?.model, because: "its parent's" },
    ...providers.defaults.map(({ name, because }) => ({ provider: name, because })),
  ];
}

/** The strongest model that is not meant for another provider: one goes with the provider beside it. */
function modelWish(provider: string, request: ProviderRequest): string | undefined {
  return wishes(request).find(
    (wish) => wish.model !== undefined && (wish.provider === undefined || wish.provider === provider),
  )?.model;
}

/** The parent's provider as it stands; only the model may be another one of its. */
function takenOver(parent: ProviderChoice, because: string, request: ProviderRequest): ProviderChoice {
  const model = modelWish(parent.name, request) ?? parent.model;
  if (model === parent.model) return { ...parent, because };
  const { contextWindow, maxOutput, price } = request.providers.byName.get(parent.name)?.models[model] ?? {};
  return { ...parent, model, contextWindow, maxOutput, price, because };
}

/** The first of the stock drivers, then of the others, that finds what it needs in this environment. */
async function detected(request: ProviderRequest): Promise<ProviderChoice> {
  const drivers = driversOf(request).filter(({ device }) => device.provider);
  const candidates = drivers.map(({ path }) => providerNamed(path.slice(DEVICES.length), request));
  const found = await Promise.all(candidates.map((provider) => detect(provider, request)));
  for (const [index, provider] of candidates.entries()) {
    const offer = found[index];
    if (!offer || lackOf(provider, request)) continue;
    const model = modelWish(provider.name, request) ?? provider.defaultModel ?? offer.model;
    return choose(provider, model, foundBy(provider, request), request);
  }
  throw new SyscallError("UNAVAILABLE", nothingFound(request));
}

/** null when the driver cannot be used here. One that fails to say so, or takes too long, is warned of. */
async function detect(provider: Provider, request: ProviderRequest): Promise<{ model: string } | null> {
  const entry = deviceOf(provider, request);
  if (!entry?.device.provider) return null;
  const late = Promise.withResolvers<never>();
  const timer = request.clock.timer(DETECT_MS, () =>
    late.reject(new SyscallError("TIMEOUT", `no answer within ${formatDuration(DETECT_MS)}`)),
  );
  try {
    return await Promise.race([entry.device.provider.detect(environment(request)), late.promise]);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    request.warn(
      `The driver ${provider.driver} of plugin ${entry.plugin} could not be asked for a model: ${why}`,
    );
    return null;
  } finally {
    timer.cancel();
  }
}

function choose(
  provider: Provider,
  model: string,
  because: string,
  request: ProviderRequest,
): ProviderChoice {
  const facts = provider.models[model];
  const url = baseUrl(provider, request);
  const key = keyOf(provider, request);
  return {
    name: provider.name,
    device: `${DEVICES}${provider.driver}`,
    model,
    config: { base_url: url, extra: provider.extra },
    gateKey: `${provider.name}:${digestText(JSON.stringify([provider.driver, url, key])).slice(7, 23)}`,
    concurrency: provider.concurrency,
    requestsPerMinute: provider.requestsPerMinute,
    contextWindow: facts?.contextWindow,
    maxOutput: facts?.maxOutput,
    price: facts?.price,
    because,
    async secret() {
      if (key !== undefined) return key;
      throw new SyscallError("UNAVAILABLE", noKey(provider));
    },
  };
}

function providerNamed(name: string, request: Pick<ProviderRequest, "providers" | "devices">): Provider {
  const provider = request.providers.byName.get(name);
  if (provider) return provider;
  const bare = stockProvider(name);
  if (deviceOf(bare, request)) return bare;
  throw new SyscallError("NOT_FOUND", `There is no provider "${name}".${suggestion(name, names(request))}`);
}

function usable(provider: Provider, request: ProviderRequest): void {
  const lack = lackOf(provider, request);
  if (lack) throw lack;
}

/** What keeps it from being used, or null. */
function lackOf(provider: Provider, request: Lookup): SyscallError | null {
  if (provider.withheld) {
    return new SyscallError(
      "UNAVAILABLE",
      `The provider ${provider.name} is defined by ${provider.source}, and the project is not trusted: look at it, then run \`rnix trust\`, or give --trust for this run.`,
    );
  }
  if (!deviceOf(provider, request)) {
    const drivers = driversOf(request).map(({ path }) => path.slice(DEVICES.length));
    return new SyscallError(
      "UNAVAILABLE",
      `The provider ${provider.name} needs the driver ${provider.driver}, and no plugin has it.${suggestion(provider.driver, drivers)} \`rnix plugins\` shows what was loaded.`,
    );
  }
  if (defaultsOf(provider).needsBaseUrl && baseUrl(provider, request) === undefined) {
    return new SyscallError(
      "UNAVAILABLE",
      `The provider ${provider.name} needs its server's address: write base_url for it into ~/.config/rnix/providers.yaml, or set OPENAI_BASE_URL.`,
    );
  }
  if (provider.needsKey && keyOf(provider, request) === undefined) {
    return new SyscallError("UNAVAILABLE", noKey(provider));
  }
  return null;
}

function noKey({ name, keyEnvs: [keyEnv], source }: Provider): string {
  if (keyEnv === undefined) {
    return `The provider ${name} has no key: name its variable as api_key_env in ${source}, and set it.`;
  }
  return `The provider ${name} needs a key: set ${keyEnv}, or write ${keyEnv}=… into ~/.config/rnix/env (chmod 600).`;
}

function noModel({ name }: Provider): SyscallError {
  return new SyscallError(
    "INVALID",
    `No model for the provider ${name}: give --model, set RNIX_MODEL, or write default_model for it into ~/.config/rnix/providers.yaml.`,
  );
}

function nothingFound({ providers, devices }: ProviderRequest): string {
  const all = names({ providers, devices }).join(", ");
  return `No model provider found. The shortest way to one: export ANTHROPIC_API_KEY=… or OPENAI_API_KEY=… (OPENAI_BASE_URL=http://… for a server of your own), or name one with --provider (${all}). \`rnix demo\` needs none.`;
}

function foundBy(provider: Provider, request: ProviderRequest): string {
  const variable = keyVariable(provider, request);
  if (variable !== undefined && request.env[variable]) return `found ${variable}`;
  if (variable !== undefined && request.userEnv[variable]) return `found ${variable} in ~/.config/rnix/env`;
  return `found ${provider.name} on this machine`;
}

type Environments = Pick<ProviderRequest, "env" | "userEnv">;

function keyOf(provider: Provider, { env, userEnv }: Environments): string | undefined {
  const variable = keyVariable(provider, { env, userEnv });
  return variable === undefined ? undefined : env[variable] || userEnv[variable] || undefined;
}

/** The variable its key is taken from; where none is set, the one to set. */
function keyVariable({ keyEnvs }: Provider, { env, userEnv }: Environments): string | undefined {
  return keyEnvs.find((name) => env[name]) ?? keyEnvs.find((name) => userEnv[name]) ?? keyEnvs[0];
}

/** A file's word counts before the variable that the driver's own SDK reads. */
function baseUrl(provider: Provider, { env, userEnv }: Environments): string | undefined {
  if (provider.baseUrl !== undefined) return provider.baseUrl;
  const { baseUrlEnv, urlOf, baseUrl: usual } = defaultsOf(provider);
  const said = baseUrlEnv === undefined ? undefined : env[baseUrlEnv] || userEnv[baseUrlEnv];
  if (!said) return usual;
  return urlOf === undefined ? said : urlOf(said);
}

const DEVICES = "/dev/llm/";

function names(request: Pick<ProviderRequest, "providers" | "devices">): string[] {
  const drivers = driversOf(request).map(({ path }) => path.slice(DEVICES.length));
  return [...new Set([...request.providers.byName.keys(), ...drivers])].toSorted();
}

/** Model devices: ours in the order of DRIVERS, then the others by name. */
function driversOf({ devices }: Pick<ProviderRequest, "devices">): DeviceEntry[] {
  const order = Object.keys(DRIVERS).map((driver) => `${DEVICES}${driver}`);
  const rank = (path: string) => (order.includes(path) ? order.indexOf(path) : order.length);
  return devices
    .entries()
    .filter(({ path }) => path.startsWith(DEVICES))
    .toSorted((a, b) => rank(a.path) - rank(b.path) || (a.path < b.path ? -1 : 1));
}

function deviceOf(
  { driver }: Provider,
  { devices }: Pick<ProviderRequest, "devices">,
): DeviceEntry | undefined {
  return devices.entries().find(({ path }) => path === `${DEVICES}${driver}`);
}

/** What a driver looks for: the user's file under the spawner's environment. Empty is not set. */
function environment({ userEnv, env }: Lookup): Record<string, string> {
  const set = [...Object.entries(userEnv), ...Object.entries(env)].filter(
    (entry): entry is [string, string] => Boolean(entry[1]),
  );
  return Object.fromEntries(set);
}
