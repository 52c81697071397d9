/** Checks whether a provider has its key, address or program. */

import { SyscallError } from "../plugin/index.ts";
import type { Namespace } from "../vfs/namespace.ts";
import type { DeviceEntry } from "../vfs/registry.ts";
import { addressProblem } from "./address.ts";
import type { Env } from "./paths.ts";
import { type Provider, type Providers, stockProvider } from "./providers.ts";
import { DRIVERS, defaultsOf } from "./stock-providers.ts";
import { suggestion } from "./suggestion.ts";

/** What is needed to find a provider and its key. */
export interface Lookup {
  providers: Providers;
  /** The devices of the run. A provider can be used when its driver's device is among them. */
  devices: Pick<Namespace, "entries">;
  /** The spawner's. */
  env: Env;
  /** `~/.config/rnix/env`, for variables that are not in `env`. */
  userEnv: Env;
}

type Environments = Pick<Lookup, "env" | "userEnv">;

export const DEVICES = "/dev/llm/";

/** The entry of this name, or a plain one for a plugin's driver of this name. NOT_FOUND suggests the nearest name. */
export function providerNamed(name: string, look: Pick<Lookup, "providers" | "devices">): Provider {
  const provider = findProvider(name, look);
  if (provider) return provider;
  throw new SyscallError(
    "NOT_FOUND",
    `There is no provider "${name}".${suggestion(name, providerNames(look))}`,
  );
}

export function findProvider(
  name: string,
  { providers, devices }: Pick<Lookup, "providers" | "devices">,
): Provider | undefined {
  const provider = providers.byName.get(name);
  if (provider) return provider;
  const bare = stockProvider(name);
  return deviceOf(bare, { devices }) && bare;
}

export function providerNames(look: Pick<Lookup, "providers" | "devices">): string[] {
  const drivers = driversOf(look).map(driverName);
  return [...new Set([...look.providers.byName.keys(), ...drivers])].toSorted();
}

/** Model devices: the stock drivers in the order of DRIVERS, then the others by name. */
export function driversOf({ devices }: Pick<Lookup, "devices">): DeviceEntry[] {
  const order = Object.keys(DRIVERS).map((driver) => `${DEVICES}${driver}`);
  const rank = (path: string) => (order.includes(path) ? order.indexOf(path) : order.length);
  return devices
    .entries()
    .filter(({ path }) => path.startsWith(DEVICES))
    .toSorted((a, b) => rank(a.path) - rank(b.path) || (a.path < b.path ? -1 : 1));
}

export function driverName({ path }: DeviceEntry): string {
  return path.slice(DEVICES.length);
}

export function deviceOf(
  { driver }: Pick<Provider, "driver">,
  { devices }: Pick<Lookup, "devices">,
): DeviceEntry | undefined {
  return devices.entries().find(({ path }) => path === `${DEVICES}${driver}`);
}

/** The key, when a variable holds it. Never runs a key command. */
export function keyOf(provider: Provider, { env, userEnv }: Environments): string | undefined {
  const variable = keyVariable(provider, { env, userEnv });
  return variable === undefined ? undefined : env[variable] || userEnv[variable] || undefined;
}

/** The variable that holds the key. When none is set, the one that the user should set. */
export function keyVariable({ keyEnvs }: Provider, { env, userEnv }: Environments): string | undefined {
  return keyEnvs.find((name) => env[name]) ?? keyEnvs.find((name) => userEnv[name]) ?? keyEnvs[0];
}

/** The provider's address. A file counts before the variable that the driver's own SDK reads. */
export function baseUrl(provider: Provider, { env, userEnv }: Environments): string | undefined {
  if (provider.baseUrl !== undefined) return provider.baseUrl;
  const { baseUrlEnv, urlOf, baseUrl: usual } = defaultsOf(provider);
  const said = baseUrlEnv === undefined ? undefined : env[baseUrlEnv] || userEnv[baseUrlEnv];
  if (!said) return usual;
  return urlOf === undefined ? said : urlOf(said);
}

/** Why the provider cannot be used; null when it can. */
export function whyUnusable(provider: Provider, look: Lookup): SyscallError | null {
  if (provider.withheld) {
    return new SyscallError(
      "UNAVAILABLE",
      `The provider ${provider.name} is defined by ${provider.source}, and the project is not trusted: look at it, then run \`rnix trust\`, or give --trust for this run.`,
    );
  }
  const device = deviceOf(provider, look)?.device;
  if (!device) {
    const drivers = driversOf(look).map(driverName);
    return new SyscallError(
      "UNAVAILABLE",
      `The provider ${provider.name} needs the driver ${provider.driver}, and no plugin has it.${suggestion(provider.driver, drivers)} \`rnix plugins\` shows what was loaded.`,
    );
  }
  if (device.provider?.unconfined && !provider.allowUnconfined) {
    return new SyscallError(
      "UNAVAILABLE",
      `The provider ${provider.name} is unconfined: its program works with tools of its own, which the rights of a run do not bind. To allow that, write \`providers: {${provider.name}: {allow_unconfined: true}}\` into ~/.config/rnix/providers.yaml.`,
    );
  }
  if (defaultsOf(provider).needsBaseUrl && baseUrl(provider, look) === undefined) {
    return new SyscallError(
      "UNAVAILABLE",
      `The provider ${provider.name} needs its server's address: write base_url for it into ~/.config/rnix/providers.yaml, or set OPENAI_BASE_URL.`,
    );
  }
  const problem = addressProblem(baseUrl(provider, look) ?? "");
  if (problem !== undefined) {
    const { baseUrlEnv } = defaultsOf(provider);
    return new SyscallError("UNAVAILABLE", `${baseUrlEnv}: expected an address without ${problem}.`);
  }
  if (provider.needsKey && provider.keyCommand === undefined && keyOf(provider, look) === undefined) {
    return new SyscallError("UNAVAILABLE", noKey(provider));
  }
  return null;
}

export function noKey({ name, keyEnvs: [keyEnv], source }: Provider): string {
  if (keyEnv === undefined) {
    return `The provider ${name} has no key: name its variable as api_key_env in ${source}, and set it.`;
  }
  return `The provider ${name} needs a key: set ${keyEnv}, or write ${keyEnv}=… into ~/.config/rnix/env (chmod 600).`;
}
