import type { ModelPrice } from "../kernel/types.ts";
import { MODEL_SERVICES, type ModelService, type StockModel } from "./model-table.ts";

/** What is known of a model: of `providers.yaml`, and of the table where the file says nothing. */
export interface ModelFacts {
  contextWindow?: number;
  /** From a file. Every request has it as its limit. */
  maxOutput?: number;
  /** From the table: the longest answer of the model. Requests do not have it as their limit. */
  outputLimit?: number;
  price?: ModelPrice;
}

/** How a provider calls a model. */
export interface ModelAddress {
  driver: string;
  model: string;
  /** Absent: the driver's own. */
  url?: string;
  /** The options of the provider's entry. */
  extra?: Readonly<Record<string, unknown>>;
  /** `context_window` of config.yaml, if a file has it. It counts before the table. */
  contextWindow?: number;
}

/**
 * The file's facts, completed from the table of the service at the address. Another address is another service: it gets
 * none of the table's facts. `now` is in Unix ms.
 */
export function modelFacts(file: ModelFacts = {}, at: ModelAddress, now: number): ModelFacts {
  const service = MODEL_SERVICES.find((one) => isAt(one, at));
  const isProgram = service?.programs?.includes(at.driver) === true;
  const stock = service && stockModel(service, isProgram ? withoutAlias(at.model, service) : at.model);
  const { contextWindow, maxOutput, price } = file;
  return {
    contextWindow: contextWindow ?? at.contextWindow ?? (isProgram ? undefined : stock?.contextWindow),
    maxOutput,
    outputLimit: isProgram ? undefined : stock?.maxOutput,
    price: price ?? (changesPrice(at.extra) ? undefined : priceOn(stock, now)),
  };
}

function isAt({ origin, drivers }: ModelService, { driver, url }: ModelAddress): boolean {
  if (url === undefined) return drivers.includes(driver);
  return URL.canParse(url) && new URL(url).origin === origin;
}

/** A program has its own names for the models, such as `opus` and `opus[1m]`. */
function withoutAlias(model: string, { aliases = {} }: ModelService): string {
  const name = model.replace(/\[1m\]$/, "");
  return Object.hasOwn(aliases, name) ? (aliases[name] ?? name) : name;
}

function stockModel({ models, version }: ModelService, name: string): StockModel | undefined {
  const id = [name, name.replace(version, "")].find((one) => Object.hasOwn(models, one));
  return id === undefined ? undefined : models[id];
}

function priceOn({ price, later }: Partial<StockModel> = {}, now: number): ModelPrice | undefined {
  return later !== undefined && now >= Date.parse(later.from) ? later.price : price;
}

/** Options of the providers that select a service tier, a speed or a region with another price. */
const PRICED_OPTIONS = ["serviceTier", "service_tier", "speed", "inferenceGeo", "inference_geo"];

function changesPrice(extra: ModelAddress["extra"] = {}): boolean {
  return PRICED_OPTIONS.some((name) => extra[name] !== undefined);
}
