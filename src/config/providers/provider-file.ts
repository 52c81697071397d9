/** The schema of providers.yaml. */

import { z } from "zod";
import type { ModelPrice, TokenPrice } from "../../plugin/index.ts";
import {
  addressProblem,
  expecting,
  flag,
  mapping,
  modelNames,
  number,
  strict,
  text,
  variable,
} from "../files/values.ts";
import type { Checked } from "../files/yaml.ts";

const name = () =>
  z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, { error: 'expected a name of letters, digits, ".", "_" and "-"' });

const tokens = () => number({ measure: "count" });
const dollars = () => z.number(expecting("USD per million tokens")).min(0, { error: "expected at least 0" });

const prices = () => ({
  input: dollars(),
  output: dollars(),
  cached: dollars().optional(),
  cache_write: dollars().optional(),
});

const Price = z.lazy(() =>
  strict({ ...prices(), long: strict({ above: tokens(), ...prices() }).optional() }),
);
type Price = z.infer<typeof Price>;

const Model = z.lazy(() =>
  strict({
    context_window: tokens().optional(),
    max_output: tokens().optional(),
    price: Price.optional(),
  }),
);

const ProviderEntry = z.lazy(() =>
  strict({
    driver: text("a driver's name").optional(),
    base_url: z
      .url({ protocol: /^https?$/, ...expecting("a URL of http or https") })
      .refine((url) => addressProblem(url) === undefined, {
        error: ({ input }) => `expected an address without ${addressProblem(String(input))}`,
      })
      .optional(),
    api_key_env: variable("expected a variable's name, never the key itself").optional(),
    api_key_command: text("a command that prints the key").optional(),
    default_model: text("a model's name").optional(),
    fallback: modelNames().optional(),
    models: mapping("model names", Model).optional(),
    concurrency: number({ measure: "count", max: 10_000 }).optional(),
    requests_per_minute: number({ measure: "count", max: 1_000_000 }).optional(),
    extra: z.record(z.string(), z.unknown(), { error: "expected a mapping" }).optional(),
    allow_unconfined: flag().optional(),
  }),
);
export type ProviderEntry = z.infer<typeof ProviderEntry>;

export const ProvidersFile = z.lazy(() =>
  strict({
    default_provider: text("a provider's name").optional(),
    providers: mapping("provider names", ProviderEntry, name()).optional(),
  }),
);
export type ProvidersFile = Checked<typeof ProvidersFile>;

export function priceOf({ long, ...price }: Price): ModelPrice {
  return { ...tokenPrice(price), ...(long && { long: { above: long.above, ...tokenPrice(long) } }) };
}

function tokenPrice({ input, output, cached = input, cache_write }: Omit<Price, "long">): TokenPrice {
  return { input, output, cached, ...(cache_write !== undefined && { cacheWrite: cache_write }) };
}
