/** The models of a provider, with what is known of each. */

import type { ListedModel, ModelPrice } from "../../plugin/index.ts";
import { knownModels, modelFacts } from "./model-facts.ts";
import { baseUrl, deviceOf, type Lookup } from "./provider-needs.ts";
import type { Provider } from "./providers.ts";

/** One line of `rnix models`. */
export interface ModelLine {
  model: string;
  /** Tokens of a request and its answer together. */
  contextWindow?: number;
  maxOutput?: number;
  price?: ModelPrice;
  /** Where its name comes from: the service's own list, the table of known models, or a file. */
  from: "service" | "table" | "file";
}

/**
 * The models that `listed`, the service's own list, has; without it, the known models of the provider's address and its
 * default model. Models of the files are always among them. Known ones come first, in the table's order.
 */
export function modelLines(
  provider: Provider,
  look: Lookup,
  { listed, defaultModel, now }: { listed?: readonly ListedModel[]; defaultModel?: string; now: number },
): ModelLine[] {
  const driver = deviceOf(provider, look)?.device.provider;
  const at = { url: baseUrl(provider, look), driver, extra: provider.extra };
  const known = knownModels(at);
  const names = new Map<string, ModelLine["from"]>();
  for (const name of Object.keys(provider.models)) names.set(name, "file");
  if (defaultModel !== undefined && listed === undefined && !names.has(defaultModel)) {
    names.set(defaultModel, known.includes(defaultModel) ? "table" : "file");
  }
  for (const { id } of listed ?? []) names.set(id, "service");
  if (listed === undefined) for (const name of known) if (!names.has(name)) names.set(name, "table");
  const lines = [...names].map(([model, from]): ModelLine => {
    const said = listed?.find(({ id }) => id === model);
    const facts = modelFacts(provider.models[model], { ...at, model }, now);
    return {
      model,
      contextWindow: facts.contextWindow ?? said?.contextWindow,
      maxOutput: facts.maxOutput ?? facts.outputLimit ?? said?.maxOutput,
      price: facts.price ?? said?.price,
      from,
    };
  });
  const rank = ({ model }: ModelLine): number => {
    const place = known.indexOf(model);
    return place < 0 ? known.length : place;
  };
  return lines.toSorted((a, b) => rank(a) - rank(b) || (a.model < b.model ? -1 : 1));
}
