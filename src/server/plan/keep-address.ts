/** Keeps the conversation of a resumed run at its server. */

import { defaultsOf } from "../../config/providers/provider-needs.ts";
import type { ProcInfo, ProviderChoice } from "../../kernel/types.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Namespace } from "../../vfs/namespace.ts";
import type { SpawnPlan } from "./plan-spawn.ts";

/**
 * Checks the plan of a run that resumes without a caller's environment: its conversation must not go to another server
 * without consent. Fails with UNAVAILABLE, and releases the plan, when the address of its provider is lost.
 */
export function keepAddress(info: ProcInfo, plan: SpawnPlan): SpawnPlan {
  const { opts } = plan;
  const { namespace } = opts.devices;
  const lost = lostAddress(info, opts.provider, namespace);
  if (lost !== undefined) {
    opts.devices.release();
    const message = `its model's address came by ${lost}, which this daemon does not have: write it into ~/.config/rnix/env, or run rnix resume where it is set`;
    throw new SyscallError("UNAVAILABLE", message);
  }
  return { ...plan, opts: { ...opts, provider: withoutLost(info, opts.provider, namespace) } };
}

/** The variable that its provider's address came from, if its value is lost. */
function lostAddress(
  { env }: ProcInfo,
  provider: ProviderChoice | null,
  devices: Namespace,
): string | undefined {
  if (provider === null) return undefined;
  const variable = addressVariable(provider, devices);
  return env.names.find((name) => name === variable);
}

/** The variable that would give the provider's address; undefined if it has one. */
export function addressVariable(provider: ProviderChoice, devices: Namespace): string | undefined {
  if (provider.config.base_url !== undefined) return undefined;
  const driver = provider.device.slice(provider.device.lastIndexOf("/") + 1);
  return defaultsOf({ name: provider.name, driver }, { devices }).baseUrlEnv;
}

/** It does not fall back to a server that it did not have before either. */
function withoutLost(
  info: ProcInfo,
  provider: ProviderChoice | null,
  devices: Namespace,
): ProviderChoice | null {
  const fallbacks = provider?.fallbacks?.filter((choice) => lostAddress(info, choice, devices) === undefined);
  return provider && { ...provider, fallbacks };
}
