/** What the tools of a run get of an environment, and which values they must not see. */

import { namedKeys, providerKeys, toolEnvironment } from "../../config/environment/environment.ts";
import type { Env } from "../../config/environment/paths.ts";
import { keyNames } from "../../config/providers/provider-needs.ts";
import type { Providers } from "../../config/providers/providers.ts";
import type { HostLease } from "../../plugin/host/lease.ts";

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
