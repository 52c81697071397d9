/** Checks whether a provider has its key, address or program. */

import { SyscallError } from "../../plugin/index.ts";
import type { DeviceEntry, Namespace } from "../../vfs/namespace.ts";
import type { Env } from "../environment/paths.ts";
import { suggestion } from "../files/suggestion.ts";
import { addressProblem } from "../files/values.ts";
import {
  type Provider,
  type ProviderDefaults,
  type Providers,
  presetOf,
  stockProvider,
} from "./providers.ts";

/** What is needed to find a provider and its key. */
export interface Lookup {
  providers: Providers;
  /** The devices of the run. A provider can be used when its driver's device is among them. */
  devices: Pick<Namespace, "entries">;
  /** The spawner's. */
  env: Env;
  /** `~/.config/rnix/env`, for variables that are not in `env`. */
  userEnv: Env;
  /** No shell starts the run, such as that of a job: messages name the user's file alone. */
  withoutShell?: boolean;
}

type Devices = Pick<Lookup, "devices">;
type Entries = Pick<Lookup, "providers" | "devices">;
type Environments = Pick<Lookup, "env" | "userEnv" | "devices">;

export const DEVICES = "/dev/llm/";

/** The entry of this name, or a plain one for a plugin's driver of this name. NOT_FOUND suggests the nearest name. */
export function providerNamed(name: string, look: Entries): Provider {
  const provider = findProvider(name, look);
  if (provider) return provider;
  throw new SyscallError(
    "NOT_FOUND",
    `There is no provider "${name}".${suggestion(name, providerNames(look))}`,
  );
}

export function findProvider(name: string, { providers, devices }: Entries): Provider | undefined {
  const provider = providers.byName.get(name);
  if (provider) return provider;
  const bare = stockProvider(name);
  return deviceOf(bare, { devices }) && bare;
}

export function providerNames(look: Entries): string[] {
  return [...new Set([...look.providers.byName.keys(), ...driverNames(look)])].toSorted();
}

/** The drivers that the search for a provider tries first. */
const FIRST = ["anthropic", "openai", "google", "claude", "cursor"].map((driver) => `${DEVICES}${driver}`);

/** Model devices: those that the search tries first, then the others by name. */
export function driversOf({ devices }: Devices): readonly DeviceEntry[] {
  const entries = devices.entries();
  const known = drivers.get(entries);
  if (known) return known;
  const rank = (path: string) => (FIRST.includes(path) ? FIRST.indexOf(path) : FIRST.length);
  const found = entries
    .filter(({ path }) => path.startsWith(DEVICES))
    .toSorted((a, b) => rank(a.path) - rank(b.path) || (a.path < b.path ? -1 : 1));
  drivers.set(entries, found);
  return found;
}

/** A cache by the list of all devices, which is replaced when a device is added or removed. */
const drivers = new WeakMap<readonly DeviceEntry[], readonly DeviceEntry[]>();

/** The names of all model drivers. */
export function driverNames(look: Devices): string[] {
  return driversOf(look).map(driverName);
}

export function driverName({ path }: DeviceEntry): string {
  return path.slice(DEVICES.length);
}

export function deviceOf({ driver }: { driver: string }, { devices }: Devices): DeviceEntry | undefined {
  return devices.entries().find(({ path }) => path === `${DEVICES}${driver}`);
}

/** The facts of the preset of this name, else those that the driver's plugin declares. */
export function defaultsOf(provider: Pick<Provider, "name" | "driver">, look: Devices): ProviderDefaults {
  return presetOf(provider) ?? deviceOf(provider, look)?.device.provider ?? {};
}

/** The variables that may hold its key. */
function keyEnvsOf(provider: Provider, look: Devices): readonly string[] {
  return provider.keyEnvs ?? defaultsOf(provider, look).keyEnvs ?? [];
}

/** Every variable that holds a key of some provider: no tool gets it. */
export function keyNames({ providers, devices }: Entries): string[] {
  const ofEntries = [...providers.byName.values()].flatMap((provider) => provider.keyEnvs ?? []);
  return [...ofEntries, ...driversOf({ devices }).flatMap(({ device }) => device.provider?.keyEnvs ?? [])];
}

export function needsKey(provider: Provider, look: Devices): boolean {
  return provider.needsKey ?? defaultsOf(provider, look).needsKey ?? false;
}

/** The key, when a variable holds it. Never runs a key command. */
export function keyOf(provider: Provider, look: Environments): string | undefined {
  const { env, userEnv } = look;
  const variable = keyVariable(provider, look);
  return variable === undefined ? undefined : env[variable] || userEnv[variable] || undefined;
}

/** The variable that holds the key. When none is set, the one that the user should set. */
export function keyVariable(provider: Provider, look: Environments): string | undefined {
  const { env, userEnv } = look;
  const keyEnvs = keyEnvsOf(provider, look);
  return keyEnvs.find((name) => env[name]) ?? keyEnvs.find((name) => userEnv[name]) ?? keyEnvs[0];
}

/** The provider's address. A file counts before the variable that the driver's own SDK reads. */
export function baseUrl(provider: Provider, look: Environments): string | undefined {
  const { env, userEnv } = look;
  if (provider.baseUrl !== undefined) return provider.baseUrl;
  const { baseUrlEnv, urlOf, baseUrl: usual } = defaultsOf(provider, look);
  const said = baseUrlEnv === undefined ? undefined : env[baseUrlEnv] || userEnv[baseUrlEnv];
  if (!said) return usual;
  return urlOf === undefined ? said : urlOf(said);
}

/** Why the provider cannot be used; null when it can. */
export function whyUnusable(provider: Provider, look: Lookup): SyscallError | null {
  const why = lackOf(provider, look);
  return why === null ? null : new SyscallError("UNAVAILABLE", why);
}

function lackOf(provider: Provider, look: Lookup): string | null {
  const { name, driver, source } = provider;
  if (provider.withheld)
    return `The provider ${name} is defined by ${source}, and the project is not trusted: look at it, then run \`rnix trust\`, or give --trust for this run.`;
  const device = deviceOf(provider, look)?.device;
  if (!device)
    return `The provider ${name} needs the driver ${driver}, and no plugin has it.${suggestion(driver, driverNames(look))} \`rnix plugins\` shows what was loaded.`;
  if (device.provider?.unconfined && !provider.allowUnconfined)
    return `The provider ${name} is unconfined: its program works with tools of its own, which the rights of a run do not bind. To allow that, write \`providers: {${name}: {allow_unconfined: true}}\` into ~/.config/rnix/providers.yaml.`;
  const { needsBaseUrl, baseUrlEnv } = defaultsOf(provider, look);
  const url = baseUrl(provider, look);
  if (needsBaseUrl && url === undefined) {
    const variable = baseUrlEnv === undefined ? "" : `, or set ${baseUrlEnv}`;
    return `The provider ${name} needs its server's address: write base_url for it into ~/.config/rnix/providers.yaml${variable}.`;
  }
  const problem = addressProblem(url ?? "");
  if (problem !== undefined) return `${baseUrlEnv}: expected an address without ${problem}.`;
  const hasKey = provider.keyCommand !== undefined || keyOf(provider, look) !== undefined;
  return needsKey(provider, look) && !hasKey ? noKey(provider, look) : null;
}

export function noKey(provider: Provider, look: Devices & Pick<Lookup, "withoutShell">): string {
  const { name, source } = provider;
  const [keyEnv] = keyEnvsOf(provider, look);
  if (keyEnv === undefined) {
    return `The provider ${name} has no key: name its variable as api_key_env in ${source}, and set it.`;
  }
  if (look.withoutShell) {
    return `The provider ${name} needs a key, and a job takes none from your shell: write ${keyEnv}=… into ~/.config/rnix/env (chmod 600).`;
  }
  return `The provider ${name} needs a key: set ${keyEnv}, or write ${keyEnv}=… into ~/.config/rnix/env (chmod 600).`;
}
