/** Lists the models of providers: from their services, the table of known models and the files. */

import { offeredModel, probeLocal } from "../../config/providers/discovery.ts";
import { type ProviderRequest, resolveProvider, searchOf } from "../../config/providers/provider-choice.ts";
import { type ModelLine, modelLines } from "../../config/providers/provider-list.ts";
import {
  defaultsOf,
  deviceOf,
  keyOf,
  providerNamed,
  providerNames,
  whyUnusable,
} from "../../config/providers/provider-needs.ts";
import type { Provider } from "../../config/providers/providers.ts";
import type { ProviderChoice } from "../../kernel/types.ts";
import { expected } from "../../lib/error-detail.ts";
import type { Code, ListedModel } from "../../plugin/index.ts";
import type { Diagnostic, ModelWire } from "../../protocol/methods.ts";
import { choiceOf } from "./list-providers.ts";

export interface ModelsAsked {
  /** Absent: every usable provider. */
  provider?: string;
  entry?: Readonly<Record<string, unknown>>;
  waitMs: number;
}

export interface ModelsAnswer {
  models: ModelWire[];
  /** The model that a run gets here without a flag, and why. null: there is no provider. */
  chosen: { provider: string; model: string; because: string } | null;
  /** Why a service's own list is missing. */
  diagnostics: ModelsProblem[];
}

/** `code`: why the service did not list its models. */
type ModelsProblem = Diagnostic & { code: Code };

type Ask = (choice: ProviderChoice) => Promise<ListedModel[]>;

/** Stands for a model in a choice that is made to ask for the list. */
const NO_MODEL = "none";

/** Fails only where the user named the provider: NOT_FOUND, and what its service answered. */
export async function listModels(
  request: ProviderRequest,
  { provider, waitMs }: ModelsAsked,
  ask: Ask,
): Promise<ModelsAnswer> {
  const chosen = await choiceOf(request);
  const diagnostics: ModelsProblem[] = [];
  const all = providerNames(request).filter((name) => !plays(name, request));
  const names = provider === undefined ? all : [provider];
  const found = await Promise.all(
    names.map(async (name) => {
      const one = providerNamed(name, request);
      const isReady = whyUnusable(one, request) === null;
      const { models, problem } = isReady ? await probeLocal(one, request) : {};
      return { name, one, models, problem, isUsable: isReady && problem === undefined };
    }),
  );
  // A user without a provider looks for one.
  const isAny = provider !== undefined || !found.some(({ isUsable }) => isUsable);
  const lists = await Promise.all(
    found.map(async ({ name, one, models, problem, isUsable }) => {
      if (!isUsable && !isAny) return [];
      if (problem !== undefined && provider !== undefined)
        diagnostics.push({ path: name, message: problem, code: "UNAVAILABLE" });
      const local = models?.map((id) => ({ id }));
      const listed =
        local ?? (isUsable ? await listOf(one, request, waitMs, ask).catch(failed(name)) : undefined);
      const usual =
        one.defaultModel ?? (isUsable ? await offeredModel(one, searchOf(request)) : null) ?? undefined;
      const defaultModel = chosen?.name === name ? chosen.model : usual;
      const lines = modelLines(one, request, { listed, defaultModel, now: request.clock.now() });
      return lines.map((line) => modelWire(name, line, { chosen, usual }));
    }),
  );
  function failed(name: string): (error: unknown) => undefined {
    return (error) => {
      const { message, code } = expected(error);
      diagnostics.push({ path: name, message, code });
    };
  }
  return {
    models: lists.flat(),
    chosen: chosen && { provider: chosen.name, model: chosen.model, because: chosen.because },
    diagnostics,
  };
}

/** It plays a recording and has no models. */
function plays(name: string, request: ProviderRequest): boolean {
  return defaultsOf(providerNamed(name, request), request).plays === true;
}

/** undefined where no service can be asked: it has no list, or there is no key for it. */
async function listOf(
  provider: Provider,
  request: ProviderRequest,
  waitMs: number,
  ask: Ask,
): Promise<ListedModel[] | undefined> {
  const facts = deviceOf(provider, request)?.device.provider;
  if (waitMs === 0 || facts?.listsModels !== true) return undefined;
  const hasKey = provider.keyCommand !== undefined || keyOf(provider, request) !== undefined;
  if (!hasKey && facts.needsKey === true) return undefined;
  const choice = await resolveProvider({ ...request, flags: { provider: provider.name, model: NO_MODEL } });
  return ask(choice);
}

function modelWire(
  provider: string,
  line: ModelLine,
  { chosen, usual }: { chosen: ProviderChoice | null; usual: string | undefined },
): ModelWire {
  const { model, contextWindow, maxOutput, price, from } = line;
  return {
    provider,
    model,
    context_window: contextWindow ?? null,
    max_output: maxOutput ?? null,
    price: price ?? null,
    from,
    is_default: model === usual,
    chosen: chosen?.name === provider && chosen.model === model,
  };
}
