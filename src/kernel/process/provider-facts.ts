import type { ProviderFacts } from "../../store/runs/schema.ts";
import type { ProviderChoice } from "../types.ts";

/** What a record keeps of where a run's model is, so that it can be told when that has changed. No key is in it. */
export function providerFacts({ device, config, contextWindow, maxOutput }: ProviderChoice): ProviderFacts {
  return {
    driver: device.slice(device.lastIndexOf("/") + 1),
    base_url: config.base_url === undefined ? null : withoutSecrets(config.base_url),
    context_window: contextWindow ?? null,
    max_output: maxOutput ?? null,
  };
}

/** An address may have a name, a password or a key in it. What is no URL is not kept at all. */
function withoutSecrets(address: string): string | null {
  if (!URL.canParse(address)) return null;
  const { protocol, host, pathname } = new URL(address);
  return `${protocol}//${host}${pathname}`;
}
