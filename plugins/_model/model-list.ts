/** Asks a service for the models that it offers. */

import { APICallError } from "@ai-sdk/provider";
import { type ListedModel, type OpenContext, SyscallError, type TokenPrice } from "rnix/plugin";
import { z } from "zod";
import { type Blame, failure } from "./failure.ts";
import { type ListRequest, requestFetch } from "./open.ts";

/** Returns what the service lists. Fails as a model call does, and with NOT_FOUND where the service has no list. */
export async function listModels(
  { url, headers, talks }: ListRequest,
  blame: Blame,
  env: OpenContext["env"],
  signal: AbortSignal,
): Promise<ListedModel[]> {
  const request = requestFetch(false, blame, env, () => undefined);
  const response = await request(url, { headers, signal });
  const body = await response.text();
  if (!response.ok) throw refused(response, url, body, blame);
  const listed = List.safeParse(json(body));
  if (!listed.success) throw noList(url, blame, listed.error);
  const entries = "data" in listed.data ? listed.data.data : listed.data.models;
  const models = entries.filter(answersConversations).map(listedModel);
  return models.filter(({ id }) => talks?.(id) ?? true);
}

/** Servers without a list answer with these. */
const ABSENT = [404, 405, 501];

function refused(response: Response, url: string, body: string, blame: Blame): SyscallError {
  if (ABSENT.includes(response.status)) return noList(url, blame);
  const error = new APICallError({
    message: response.statusText,
    url,
    requestBodyValues: {},
    statusCode: response.status,
    responseHeaders: Object.fromEntries(response.headers.entries()),
    responseBody: body,
  });
  return failure(error, blame);
}

function noList(url: string, { provider }: Blame, cause?: unknown): SyscallError {
  const message = `${provider} has no list of models at ${url}: name the model yourself`;
  return new SyscallError("NOT_FOUND", message, { cause });
}

function json(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

const tokens = z.number().int().positive().nullish().catch(null);
/** OpenRouter's prices are texts, in USD per token. */
const perToken = z.coerce.number().min(0).nullish().catch(null);

const Entry = z.lazy(() =>
  z.object({
    // Google's is `models/NAME`.
    id: z.string().min(1).optional(),
    name: z.string().min(1).optional(),
    context_length: tokens,
    max_model_len: tokens,
    max_input_tokens: tokens,
    inputTokenLimit: tokens,
    outputTokenLimit: tokens,
    max_tokens: tokens,
    top_provider: z.object({ max_completion_tokens: tokens }).nullish().catch(null),
    supportedGenerationMethods: z.array(z.string()).nullish().catch(null),
    pricing: z
      .object({ prompt: perToken, completion: perToken, input_cache_read: perToken })
      .nullish()
      .catch(null),
  }),
);
type Entry = z.infer<typeof Entry>;

const List = z.lazy(() =>
  z.union([z.object({ data: z.array(Entry) }), z.object({ models: z.array(Entry) })]),
);

function answersConversations({ supportedGenerationMethods: methods }: Entry): boolean {
  return methods?.includes("generateContent") ?? true;
}

function listedModel(entry: Entry): ListedModel {
  const { context_length, max_model_len, max_input_tokens, inputTokenLimit, outputTokenLimit } = entry;
  const contextWindow = context_length ?? max_model_len ?? max_input_tokens ?? inputTokenLimit;
  const maxOutput = outputTokenLimit ?? entry.max_tokens ?? entry.top_provider?.max_completion_tokens;
  const price = priceOf(entry);
  return {
    id: (entry.id ?? entry.name ?? "").replace(/^models\//, ""),
    ...(contextWindow && { contextWindow }),
    ...(maxOutput && { maxOutput }),
    ...(price && { price }),
  };
}

const MILLION = 1_000_000;

function priceOf({ pricing }: Entry): TokenPrice | undefined {
  if (typeof pricing?.prompt !== "number" || typeof pricing.completion !== "number") return undefined;
  const perMillion = (usd: number): number => Number((usd * MILLION).toPrecision(6));
  const input = perMillion(pricing.prompt);
  const cached = perMillion(pricing.input_cache_read ?? pricing.prompt);
  return { input, cached, output: perMillion(pricing.completion) };
}
