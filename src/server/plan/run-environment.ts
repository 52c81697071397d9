/** What the tools of a run get of an environment, and which values they must not see. */

import { namedKeys, providerKeys, toolEnvironment } from "../../config/environment/environment.ts";
import type { Env } from "../../config/environment/paths.ts";
import { readText } from "../../config/files/file.ts";
import { keyNames } from "../../config/providers/provider-needs.ts";
import type { Providers } from "../../config/providers/providers.ts";
import type { Settings } from "../../config/settings/settings.ts";
import { messageOf } from "../../lib/error-detail.ts";
import type { HostLease } from "../../plugin/host/lease.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { BoundSecret } from "../../proxy/bound-secret.ts";
import { deniesByDefault } from "../../proxy/host-rules.ts";

interface EnvironmentSources {
  providers: Providers;
  devices: HostLease;
  /** The user's file with keys. */
  userEnv: Env;
  /** The keys that commands have printed. */
  fetched: readonly string[];
  /** Where the keys of plugins are looked up, before the user's file; by default the environment itself. */
  pluginEnv?: Env;
}

interface RunEnvironment {
  /** The environment of the tools, without keys. */
  env: Record<string, string>;
  /** Values that are redacted. */
  secrets: string[];
  pluginKeys: Record<string, string>;
}

/** Names in the user's file with keys that hold secrets, not addresses or other settings. */
const SECRET_NAME = /KEY|TOKEN|SECRET|PASS|CREDENTIAL/i;

export function runEnvironment(
  env: Env,
  { providers, devices, userEnv, fetched, pluginEnv = env }: EnvironmentSources,
): RunEnvironment {
  const own = devices.secrets ?? [];
  const names = [...keyNames({ providers, devices: devices.namespace }), ...own];
  const more = Object.keys(userEnv).filter((name) => SECRET_NAME.test(name));
  const secrets = providerKeys([env, userEnv], [...names, ...more]);
  return {
    env: toolEnvironment(env, names, [...secrets, ...fetched]),
    secrets,
    pluginKeys: namedKeys(own, [pluginEnv, userEnv]),
  };
}

/** A shorter text can't be hidden. */
const MIN_SECRET = 8;

/** The values of the user's secrets. One that is not there is left out, with a notice. */
export function boundSecretsOf(
  settings: NonNullable<Settings["own"]["secrets"]>,
  envs: readonly Env[],
  notices: string[],
): BoundSecret[] | undefined {
  const found = Object.entries(settings).flatMap(([name, { from, hosts }]) => {
    requireHosts(name, hosts);
    const value = from === "env" ? namedKeys([name], envs)[name] : secretIn(from, envs);
    if (value !== undefined && value.length >= MIN_SECRET) return [{ name, value, hosts }];
    const where = from === "env" ? "the variable is not set" : `${from} holds none`;
    notices.push(`the secret ${name} is left out: ${where}; expected at least ${MIN_SECRET} characters`);
    return [];
  });
  return found.length === 0 ? undefined : found;
}

/** The first line of a file. */
function secretIn(file: string, [env]: readonly Env[]): string | undefined {
  const path = file.replace(/^~(?=\/)/, env?.HOME ?? "");
  try {
    return readText(path)?.split("\n")[0]?.trim();
  } catch (thrown) {
    if (thrown instanceof SyscallError) return undefined;
    throw thrown;
  }
}

/** Fails with INVALID for what is no host, and for `*`. */
function requireHosts(name: string, hosts: readonly string[]): void {
  let why = "expected hosts by their names, not every one";
  try {
    if (deniesByDefault(hosts)) return;
  } catch (thrown) {
    why = messageOf(thrown);
  }
  throw new SyscallError("INVALID", `secrets.${name}.hosts in ~/.config/rnix/config.yaml: ${why}`);
}
