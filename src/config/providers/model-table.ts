/** What the services state about their own models: price, context window and output limit. `providers.yaml` overrides it. */

import type { DriverModel, ModelPrice, TokenPrice } from "../../plugin/index.ts";

/** One model of a service. What no source states completely is absent. */
export interface StockModel extends DriverModel {
  /** The date of the source that states the price, which is that of standard processing. */
  asOf: string;
  contextWindow: number;
  /** An announced change of the price: `from` is the first day in UTC. */
  later?: { from: string; price: ModelPrice };
}

/** A service that sells its own models at its own address. */
export interface ModelService {
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
  ...asOf("2026-09-30", {
    "gpt-6.1-sol": model(GPT_WINDOW, 128_000, gpt(2, 0.1, 2.5, 10)),
  }),
  ...asOf("2026-10-27", {
    "gpt-6.1-terra": model(GPT_WINDOW, 128_000, gpt(1, 0.05, 1.25, 5)),
  }),
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
  ...asOf("2026-10-07", {
    "gemini-3.8-flash": introductory(GEMINI_WINDOW, 65_536),
  }),
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
    aliases: {
      sonnet: "claude-sonnet-5-5",
      opus: "claude-opus-5-5",
      haiku: "claude-haiku-5-5",
    },
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
