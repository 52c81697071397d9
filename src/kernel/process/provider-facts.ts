/** The facts of a provider that a record keeps. */

import type { ProviderFacts } from "../../store/runs/schema.ts";
import type { ProviderChoice } from "../types.ts";

/** The recorded facts of a run's provider, so that a resume can report changes. They contain no key. */
export function providerFacts({ device, config, contextWindow, maxOutput }: ProviderChoice): ProviderFacts {
  return {
    driver: device.slice(device.lastIndexOf("/") + 1),
    base_url: config.base_url === undefined ? null : withoutSecrets(config.base_url),
    context_window: contextWindow ?? null,
    max_output: maxOutput ?? null,
  };
}

/** Without user, password and query, which may be secret; null for an invalid URL. */
function withoutSecrets(address: string): string | null {
  if (!URL.canParse(address)) return null;
  const { protocol, host, pathname } = new URL(address);
  return `${protocol}//${host}${pathname}`;
}
