/** What is known of a model at its address: its price, context window and output limit. */

import type { DriverFacts, DriverModel, ModelPrice } from "../../plugin/index.ts";
import { MODEL_SERVICES, type ModelService, type StockModel } from "./model-table.ts";

/** What is known of a model: of `providers.yaml`, and of the table where the file says nothing. */
export interface ModelFacts {
  contextWindow?: number;
  /** The limit that a file sets for each answer: every request contains it. */
  maxOutput?: number;
  /** From the table: the longest answer of the model. Requests do not have it as their limit. */
  outputLimit?: number;
  price?: ModelPrice;
}

/** How a provider calls a model. */
export interface ModelAddress {
  model: string;
  /** The address. Absent: the driver's own. */
  url?: string;
  /** The driver's facts. The context window and the output limit of a program are its own. */
  driver?: Pick<DriverFacts, "service" | "baseUrl" | "models" | "isProgram">;
  /** The options of the provider's entry. */
  extra?: Readonly<Record<string, unknown>>;
  /** `context_window` of config.yaml, if a file has it. It counts before the table. */
  contextWindow?: number;
}

/**
 * The file's facts, completed from the table of the service at the address, or from the driver's. Another address is
 * another service: it gets none of these facts. `now` is in Unix ms.
 */
export function modelFacts(file: ModelFacts = {}, at: ModelAddress, now: number): ModelFacts {
  const isProgram = at.driver?.isProgram === true;
  const service = serviceAt(at);
  const stock =
    (service && stockModel(service, isProgram ? withoutAlias(at.model, service) : at.model)) ??
    driverModel(at);
  const { contextWindow, maxOutput, price } = file;
  return {
    contextWindow: contextWindow ?? at.contextWindow ?? (isProgram ? undefined : stock?.contextWindow),
    maxOutput,
    outputLimit: isProgram ? undefined : stock?.maxOutput,
    price: price ?? (changesPrice(at.extra) ? undefined : priceOn(stock, now)),
  };
}

/** Anthropic's own name of a model that a program calls `opus`, `sonnet` or the like. */
export function anthropicModel(name: string): string {
  const service = MODEL_SERVICES.find(({ aliases }) => aliases !== undefined && Object.hasOwn(aliases, name));
  return service ? withoutAlias(name, service) : name;
}

/** The names of the models that are known at an address, and those that a program has for them. */
export function knownModels(at: Omit<ModelAddress, "model">): string[] {
  const service = serviceAt(at);
  const { models = {}, baseUrl, isProgram } = at.driver ?? {};
  if (isProgram) return Object.keys(service?.aliases ?? {});
  const isDefault = at.url === undefined || at.url === baseUrl;
  return [...Object.keys(service?.models ?? {}), ...(isDefault ? Object.keys(models) : [])];
}

function serviceAt({ url, driver }: Pick<ModelAddress, "url" | "driver">): ModelService | undefined {
  const origin = url !== undefined && URL.canParse(url) ? new URL(url).origin : url;
  return MODEL_SERVICES.find((one) => one.origin === (origin ?? driver?.service));
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

/** What the driver says of the model, for its default address only. */
function driverModel({ model, url, driver }: ModelAddress): DriverModel | undefined {
  const { models = {}, baseUrl } = driver ?? {};
  const isDefault = url === undefined || url === baseUrl;
  return isDefault && Object.hasOwn(models, model) ? models[model] : undefined;
}

function priceOn(
  { price, later }: Pick<StockModel, "price" | "later"> = {},
  now: number,
): ModelPrice | undefined {
  return later !== undefined && now >= Date.parse(later.from) ? later.price : price;
}

/** Options of the providers that select a service tier, a speed or a region with another price. */
const PRICED_OPTIONS = ["serviceTier", "service_tier", "speed", "inferenceGeo", "inference_geo"];

function changesPrice(extra: ModelAddress["extra"] = {}): boolean {
  return PRICED_OPTIONS.some((name) => extra[name] !== undefined);
}
