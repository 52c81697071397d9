/** What is known of a model at its address: its price, context window and output limit. */

import type { DriverFacts, DriverModel, ModelPrice, TokenPrice } from "../../plugin/index.ts";

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
  const changesPrice = PRICED_OPTIONS.some((name) => at.extra?.[name] !== undefined);
  return {
    contextWindow: contextWindow ?? at.contextWindow ?? (isProgram ? undefined : stock?.contextWindow),
    maxOutput,
    outputLimit: isProgram ? undefined : stock?.maxOutput,
    price: price ?? (changesPrice ? undefined : priceOn(stock, now)),
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

function priceOn(stock: Partial<StockModel> = {}, now: number): ModelPrice | undefined {
  const { price, later } = stock;
  return later !== undefined && now >= Date.parse(later.from) ? later.price : price;
}

/** Options of the providers that select a service tier, a speed or a region with another price. */
const PRICED_OPTIONS = ["serviceTier", "service_tier", "speed", "inferenceGeo", "inference_geo"];

/** One model of a service. What no source states completely is absent. */
interface StockModel extends DriverModel {
  /** The date of the source that states the price, which is that of standard processing. */
  asOf: string;
  contextWindow: number;
  /** An announced change of the price: `from` is the first day in UTC. */
  later?: { from: string; price: ModelPrice };
}

/** A service that sells its own models at its own address. */
interface ModelService {
  name: string;
  /** The origin of its address. A driver names it as its `service`. */
  origin: string;
  /** The pages that state the figures, and public tables that quote them. */
  sources: readonly string[];
  /** The ending that makes a model's name the name of a dated version of it, at the same price. */
  version: RegExp;
  models: Readonly<Record<string, StockModel>>;
  /** Names that programs have for the models. */
  aliases?: Readonly<Record<string, string>>;
}

type Undated = Omit<StockModel, "asOf">;

const MILLION = 1_000_000;
const GPT_WINDOW = 1_050_000;
const GEMINI_WINDOW = 1_048_576;

const CLAUDE = asOf("2026-10-24", {
  "claude-fable-5-1": model(MILLION, 128_000, usd(10, 0.25, 12.5, 50)),
  "claude-fable-5": model(MILLION, 128_000, usd(10, 1, 12.5, 50)),
  "claude-opus-5-5": model(MILLION, 128_000, usd(4, 0.2, 5, 20)),
  "claude-opus-5": model(MILLION, 128_000, usd(5, 0.5, 6.25, 25)),
  "claude-opus-4-8": model(MILLION, 128_000, usd(5, 0.5, 6.25, 25)),
  "claude-opus-4-7": model(MILLION, 128_000, usd(5, 0.5, 6.25, 25)),
  "claude-opus-4-6": model(MILLION, 128_000, usd(5, 0.5, 6.25, 25)),
  "claude-opus-4-5": model(200_000, 64_000, usd(5, 0.5, 6.25, 25)),
  "claude-sonnet-5-5": model(MILLION, 128_000, usd(2, 0.1, 2.5, 10)),
  "claude-sonnet-5": model(MILLION, 128_000, usd(2, 0.2, 2.5, 10)),
  "claude-sonnet-4-6": model(MILLION, 64_000, usd(3, 0.3, 3.75, 15)),
  "claude-sonnet-4-5": model(200_000, 64_000, usd(3, 0.3, 3.75, 15)),
  "claude-haiku-5-5": model(MILLION, 128_000, {
    ...usd(0.1, 0.01, 0.125, 0.5),
    long: { above: 100_000, ...usd(0.5, 0.05, 0.625, 2.5) },
  }),
  "claude-haiku-4-5": model(200_000, 64_000, usd(1, 0.1, 1.25, 5)),
});

const GPT = {
  ...asOf("2026-11-18", {
    // No source states the price of its cached input and of its long requests.
    "gpt-6.2-astra": model(GPT_WINDOW, 128_000),
    "gpt-6.2-sol": model(GPT_WINDOW, 128_000, gpt(2, 0.1, 2.5, 10)),
  }),
  ...asOf("2026-09-30", { "gpt-6.1-sol": model(GPT_WINDOW, 128_000, gpt(2, 0.1, 2.5, 10)) }),
  ...asOf("2026-10-27", { "gpt-6.1-terra": model(GPT_WINDOW, 128_000, gpt(1, 0.05, 1.25, 5)) }),
  ...asOf("2026-09-22", {
    "gpt-6-astra": model(GPT_WINDOW, 128_000, gpt(10, 1, 12.5, 50)),
    "gpt-6-sol": model(GPT_WINDOW, 128_000, gpt(2, 0.2, 2.5, 10)),
    "gpt-6-luna": model(GPT_WINDOW, 128_000, gpt(0.1, 0.01, 0.125, 0.5)),
    "gpt-5.6-sol": model(GPT_WINDOW, 128_000, gpt(4, 0.4, 5, 20)),
    "gpt-5.6-terra": model(GPT_WINDOW, 128_000, gpt(2, 0.2, 2.5, 12)),
    "gpt-5.6-luna": model(GPT_WINDOW, 128_000, gpt(0.2, 0.02, 0.25, 1.2)),
  }),
  ...asOf("2026-07-24", {
    "gpt-5.5": model(GPT_WINDOW, 128_000, gpt(5, 0.5, undefined, 30)),
    "gpt-5.4": model(GPT_WINDOW, 128_000, gpt(2.5, 0.25, undefined, 15)),
    "gpt-5.4-mini": model(400_000, 128_000, usd(0.75, 0.075, undefined, 4.5)),
    "gpt-5.4-nano": model(400_000, 128_000, usd(0.2, 0.02, undefined, 1.25)),
    "gpt-5.3-codex": model(400_000, 128_000, usd(1.75, 0.175, undefined, 14)),
    "gpt-5.2": model(400_000, 128_000, usd(1.75, 0.175, undefined, 14)),
    "gpt-5.1": model(400_000, 128_000, usd(1.25, 0.125, undefined, 10)),
    "gpt-5": model(400_000, 128_000, usd(1.25, 0.125, undefined, 10)),
    "gpt-5-mini": model(400_000, 128_000, usd(0.25, 0.025, undefined, 2)),
    "gpt-5-nano": model(400_000, 128_000, usd(0.05, 0.005, undefined, 0.4)),
    "gpt-4.1": model(1_047_576, 32_768, usd(2, 0.5, undefined, 8)),
    "gpt-4.1-mini": model(1_047_576, 32_768, usd(0.4, 0.1, undefined, 1.6)),
    "gpt-4.1-nano": model(1_047_576, 32_768, usd(0.1, 0.025, undefined, 0.4)),
  }),
};

const GEMINI = {
  ...asOf("2026-10-13", {
    "gemini-4-argon": {
      ...model(GEMINI_WINDOW, 65_536, usd(2, 0.1, undefined, 10)),
      later: { from: "2026-12-01", price: usd(4, 0.2, undefined, 20) },
    },
  }),
  ...asOf("2026-10-07", { "gemini-3.8-flash": introductory(GEMINI_WINDOW, 65_536) }),
  ...asOf("2026-08-13", {
    "gemini-3.7-flash": introductory(MILLION),
    "gemini-3.6-flash": introductory(MILLION),
  }),
  ...asOf("2026-07-24", {
    "gemini-3.5-flash": model(GEMINI_WINDOW, 65_536, usd(1.5, 0.15, undefined, 9)),
    "gemini-3.5-flash-lite": model(MILLION, undefined, usd(0.3, 0.03, undefined, 2.5)),
    "gemini-3.1-pro-preview": model(GEMINI_WINDOW, 65_536, {
      ...usd(2, 0.2, undefined, 12),
      long: { above: 200_000, ...usd(4, 0.4, undefined, 18) },
    }),
    "gemini-3.1-flash-lite": model(GEMINI_WINDOW, 65_536, usd(0.25, 0.025, undefined, 1.5)),
    "gemini-2.5-pro": model(GEMINI_WINDOW, 65_536, {
      ...usd(1.25, 0.125, undefined, 10),
      long: { above: 200_000, ...usd(2.5, 0.25, undefined, 15) },
    }),
    "gemini-2.5-flash": model(GEMINI_WINDOW, 65_536, usd(0.3, 0.03, undefined, 2.5)),
    "gemini-2.5-flash-lite": model(GEMINI_WINDOW, 65_536, usd(0.1, 0.01, undefined, 0.4)),
  }),
};

/** Public tables that quote the services' pages with their dates. */
const QUOTED = [
  "https://github.com/BerriAI/litellm/blob/main/model_prices_and_context_window.json",
  "https://github.com/pydantic/genai-prices",
  "https://models.dev",
];

/**
 * To renew the table: read the sources of a service, change its models and their dates, and run
 * `UPDATE_DOCS=1 bun test test/docs/providers.test.ts`. Leave out a price that no source states.
 */
export const MODEL_SERVICES: readonly ModelService[] = [
  {
    name: "Anthropic",
    origin: "https://api.anthropic.com",
    sources: [
      "https://platform.claude.com/docs/en/about-claude/pricing",
      "https://platform.claude.com/docs/en/models/overview",
      ...QUOTED,
    ],
    version: /-\d{8}$/,
    models: CLAUDE,
    // As Claude Code 2.1.293 resolves them at Anthropic.
    aliases: { sonnet: "claude-sonnet-5-5", opus: "claude-opus-5-5", haiku: "claude-haiku-5-5" },
  },
  {
    name: "OpenAI",
    origin: "https://api.openai.com",
    sources: [
      "https://developers.openai.com/api/docs/pricing",
      "https://developers.openai.com/api/docs/models",
      ...QUOTED,
    ],
    version: /-\d{4}-\d{2}-\d{2}$/,
    models: GPT,
  },
  {
    name: "Google",
    origin: "https://generativelanguage.googleapis.com",
    sources: [
      "https://ai.google.dev/gemini-api/docs/pricing",
      "https://ai.google.dev/gemini-api/docs/models",
      ...QUOTED,
    ],
    version: /-\d{3}$/,
    models: GEMINI,
  },
];

function asOf(date: string, models: Record<string, Undated>): Record<string, StockModel> {
  return Object.fromEntries(Object.entries(models).map(([id, one]) => [id, { ...one, asOf: date }]));
}

function model(contextWindow: number, maxOutput: number | undefined, price?: ModelPrice): Undated {
  return { contextWindow, ...(maxOutput !== undefined && { maxOutput }), ...(price && { price }) };
}

/** `cacheWrite` is undefined where the service charges nothing more for it. */
function usd(input: number, cached: number, cacheWrite: number | undefined, output: number): TokenPrice {
  return { input, cached, ...(cacheWrite !== undefined && { cacheWrite }), output };
}

/** A request of more than 272,000 input tokens costs twice as much, its output one and a half times. */
function gpt(input: number, cached: number, cacheWrite: number | undefined, output: number): ModelPrice {
  const write = cacheWrite === undefined ? undefined : 2 * cacheWrite;
  return {
    ...usd(input, cached, cacheWrite, output),
    long: { above: 272_000, ...usd(2 * input, 2 * cached, write, 1.5 * output) },
  };
}

/** The Flash models since 3.6 have this price until the end of 2026, and then twice this price. */
function introductory(contextWindow: number, maxOutput?: number): Undated {
  return {
    ...model(contextWindow, maxOutput, usd(0.75, 0.075, undefined, 3.75)),
    later: { from: "2027-01-01", price: usd(1.5, 0.15, undefined, 7.5) },
  };
}
