/** Adds up and subtracts the usage of model calls. */

import type { Usage } from "../plugin/index.ts";

export function addUsage(sum: Usage, more: Usage): void {
  sum.input_tokens += more.input_tokens;
  sum.output_tokens += more.output_tokens;
  sum.cached_tokens += more.cached_tokens;
  if (more.cache_write_tokens !== undefined)
    sum.cache_write_tokens = (sum.cache_write_tokens ?? 0) + more.cache_write_tokens;
  if (more.cost_usd !== undefined) sum.cost_usd = (sum.cost_usd ?? 0) + more.cost_usd;
}

/** `sum` less `before`. The cost is at least 0: `before` may have been estimated from a price. */
export function subtractUsage(sum: Usage, before: Usage): Usage {
  return {
    input_tokens: sum.input_tokens - before.input_tokens,
    output_tokens: sum.output_tokens - before.output_tokens,
    cached_tokens: sum.cached_tokens - before.cached_tokens,
    ...(sum.cache_write_tokens !== undefined && {
      cache_write_tokens: sum.cache_write_tokens - (before.cache_write_tokens ?? 0),
    }),
    ...(sum.cost_usd !== undefined && { cost_usd: Math.max(0, sum.cost_usd - (before.cost_usd ?? 0)) }),
  };
}

export function noUsage(): Usage {
  return { input_tokens: 0, output_tokens: 0, cached_tokens: 0 };
}
