/** Lists the providers of a project, and probes them if that is asked for. */

import { type ProviderRequest, resolveProvider } from "../../config/providers/provider-choice.ts";
import { describeProviders, type ProviderLine } from "../../config/providers/provider-list.ts";
import type { ProviderChoice } from "../../kernel/types.ts";
import type { Clock } from "../../lib/clock.ts";
import { expected } from "../../lib/error-detail.ts";
import type { ProviderWire } from "../../protocol/methods.ts";

interface ProbeOptions {
  /** Asks the model; fails as a run would. null: probes nothing. */
  probe: ((choice: ProviderChoice) => Promise<unknown>) | null;
  clock: Clock;
  /** Why none is chosen, although one can be used. */
  warn(message: string): void;
}

/** The providers, the chosen one marked. Each usable one is probed. */
export async function listProviders(request: ProviderRequest, o: ProbeOptions): Promise<ProviderWire[]> {
  let why = "";
  const chosen = await choiceOf(request, (message) => {
    why = message;
  });
  const lines = await describeProviders(request);
  if (why !== "" && lines.some(({ problem, plays }) => problem === null && !plays)) o.warn(why);
  return Promise.all(
    lines.map(async (line) => {
      const wire = providerWire(line, chosen);
      return wire.usable && !line.plays ? { ...wire, ...(await probed(line.name, request, o)) } : wire;
    }),
  );
}

async function probed(
  provider: string,
  request: ProviderRequest,
  { probe, clock }: ProbeOptions,
): Promise<Pick<ProviderWire, "probe"> & { model?: string }> {
  if (probe === null) return {};
  const started = clock.monotonic();
  const took = (): number => Math.round(clock.monotonic() - started);
  let model: string | undefined;
  try {
    const choice = await resolveProvider({ ...request, flags: { provider } });
    model = choice.model;
    await probe(choice);
    return { model, probe: { ok: true, ms: took(), message: `${model} answers` } };
  } catch (error) {
    const { code, message } = expected(error);
    return { ...(model !== undefined && { model }), probe: { ok: false, ms: took(), code, message } };
  }
}

/** null: a spawn without a provider would fail, for the reason that `failed` gets. */
export async function choiceOf(
  request: ProviderRequest,
  failed?: (message: string) => void,
): Promise<ProviderChoice | null> {
  return resolveProvider(request).catch((error) => {
    failed?.(expected(error).message);
    return null;
  });
}

function providerWire(line: ProviderLine, chosen: ProviderChoice | null): ProviderWire {
  const { name, driver, base_url, key_env, key, default_model, models, source, problem } = line;
  const choice = chosen?.name === name ? chosen : undefined;
  return {
    name,
    device: `/dev/llm/${driver}`,
    model: choice?.model ?? default_model,
    models,
    base_url,
    key: keyShown(key_env, key),
    usable: problem === null,
    because: problem ?? choice?.because ?? source,
    chosen: choice !== undefined,
  };
}

function keyShown(variable: string | null, key: ProviderLine["key"]): string {
  if (key === "command") return "api_key_command";
  if (variable === null) return "not needed";
  return key === "set" ? variable : `${variable} (${key})`;
}
