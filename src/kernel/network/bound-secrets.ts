/** What the programs of a process get in place of secrets that are bound to hosts. */

import { type BoundSecret, placeholderOf } from "../../proxy/bound-secret.ts";
import { deniesByDefault } from "../../proxy/host-rules.ts";
import type { SpawnOpts } from "../types.ts";

type Bound = Pick<SpawnOpts, "env" | "network" | "boundSecrets">;

/** Placeholders, where a list of hosts limits the network; else nothing: a program could send them anywhere. */
export function secretVariables({ env, network, boundSecrets = [] }: Bound): Record<string, string> {
  const isSent = deniesByDefault(network);
  const names = new Set(boundSecrets.map(({ name }) => name));
  const others = Object.entries(env).filter(([name]) => !names.has(name));
  return {
    ...Object.fromEntries(others),
    ...(isSent && Object.fromEntries(boundSecrets.map((secret) => [secret.name, placeholderOf(secret)]))),
  };
}

/** What is shown in place of each secret. */
export function secretLabels(boundSecrets: readonly BoundSecret[] = []): ReadonlyMap<string, string> {
  return new Map(boundSecrets.map((secret) => [secret.value, placeholderOf(secret)]));
}

/** Notices of a process whose network is not limited to a list. */
export function withheldSecrets({ network, boundSecrets = [] }: Bound): string[] {
  if (boundSecrets.length === 0 || deniesByDefault(network)) return [];
  const names = boundSecrets.map(({ name }) => name).join(", ");
  return [
    `not given to programs: ${names}. Secrets need a list of hosts as the network of the run (--network HOST)`,
  ];
}
