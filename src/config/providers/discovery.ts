/** Searches this machine for model providers. */

import { z } from "zod";
import type { Clock } from "../../lib/clock.ts";
import { formatDuration } from "../../lib/duration.ts";
import { messageOf } from "../../lib/error-detail.ts";
import { type ListedModel, SyscallError } from "../../plugin/index.ts";
import type { DeviceEntry } from "../../vfs/namespace.ts";
import {
  baseUrl,
  defaultsOf,
  deviceOf,
  driverName,
  driversOf,
  keyOf,
  keyVariable,
  type Lookup,
  providerNamed,
  whyUnusable,
} from "./provider-needs.ts";
import type { Provider } from "./providers.ts";

/** What a search for providers on this machine needs. */
export interface Search extends Lookup {
  clock: Pick<Clock, "timer">;
  /** Logs a driver whose `detect` failed. The search continues with the other drivers. */
  warn(text: string): void;
  /** The models that the provider's service lists. Absent: no service is asked. */
  ownModels?(provider: Provider): Promise<readonly ListedModel[]>;
}

interface DiscoveredProvider {
  provider: Provider;
  model: string;
  because: string;
}

/**
 * Chooses the provider of a run when no flag, variable or file names one. First a driver whose key is
 * set, then an entry with a key and a model, then a driver that needs no key, such as a program on the PATH. A model
 * server on this machine is asked last.
 */
export async function discover(search: Search): Promise<DiscoveredProvider | null> {
  const drivers = driversOf(search);
  const withKey = drivers.filter(hasKeyOfItsOwn);
  const others = drivers.filter((entry) => !hasKeyOfItsOwn(entry));
  return (
    (await firstOf(withKey, search)) ??
    (await entryWithKey(search)) ??
    (await firstOf(others, search)) ??
    (await onThisMachine(search))
  );
}

/** Whether a key is all that the provider needs. */
function hasKeyOfItsOwn({ device }: DeviceEntry): boolean {
  return device.provider?.needsKey === true && !device.provider.isProgram;
}

/** The model that the provider's driver, the user's own server or one on this machine offers; null when none has one. */
export async function offeredModel(provider: Provider, search: Search): Promise<string | null> {
  const offer = (await detect(provider, search))?.model;
  return (
    (await ownModel(provider, search, offer)) ?? offer ?? (await localModels(provider, search))?.[0] ?? null
  );
}

/** Models of a server that answer no conversation. */
const SILENT = /embed|rerank|whisper|tts/i;

/**
 * The default model of a server of the user's own: the driver's (`usual`) if the server lists it, else the first model.
 * null for a server without a list, and for the service that the driver is for.
 */
async function ownModel(provider: Provider, search: Search, usual?: string): Promise<string | null> {
  const { baseUrl: stock, service, listsModels } = defaultsOf(provider, search);
  const url = baseUrl(provider, search);
  if (!listsModels || url === undefined || url === stock || URL.parse(url)?.origin === service) return null;
  if (!search.ownModels || whyUnusable(provider, search)) return null;
  try {
    const ids = (await search.ownModels(provider)).map(({ id }) => id);
    return ids.find((id) => id === usual) ?? ids.find((id) => !SILENT.test(id)) ?? null;
  } catch (error) {
    if (!(error instanceof SyscallError)) throw error;
    search.warn(`The default model of ${provider.name} is not known: ${error.message}`);
    return null;
  }
}

/** For a provider that runs on this machine: the models it has, or why it can't be used. */
export async function probeLocal(
  provider: Provider,
  search: Search,
): Promise<{ models?: string[]; problem?: string }> {
  const { isLocal, isProgram } = defaultsOf(provider, search);
  if (isProgram && !(await detect(provider, search)))
    return { problem: `Its program is not found: install it, and have it on the PATH.` };
  if (!isLocal) return {};
  const models = await localModels(provider, search);
  return models
    ? { models }
    : { problem: `No server of it answers at ${baseUrl(provider, search)}: start it, or say where it is.` };
}

async function firstOf(drivers: readonly DeviceEntry[], search: Search): Promise<DiscoveredProvider | null> {
  const candidates = drivers
    .filter(({ device }) => device.provider)
    .map((entry) => providerNamed(driverName(entry), search));
  const offers = await Promise.all(candidates.map((provider) => detect(provider, search)));
  for (const [index, provider] of candidates.entries()) {
    const offer = offers[index];
    if (whyUnusable(provider, search)) continue;
    const model = provider.defaultModel ?? (await ownModel(provider, search, offer?.model)) ?? offer?.model;
    if (model === undefined || (!offer && !defaultsOf(provider, search).needsBaseUrl)) continue;
    return { provider, model, because: foundBy(provider, search) };
  }
  return null;
}

/** The first preset or entry of a file that has a key and a model: its default, or one of the user's own server. */
async function entryWithKey(search: Search): Promise<DiscoveredProvider | null> {
  for (const provider of search.providers.byName.values()) {
    const hasKey = provider.keyCommand !== undefined || keyOf(provider, search) !== undefined;
    // A program that is not there has a key all the same: it is tried last.
    if (!hasKey || defaultsOf(provider, search).isProgram || whyUnusable(provider, search)) continue;
    const model = provider.defaultModel ?? (await ownModel(provider, search));
    if (model !== null) return { provider, model, because: foundBy(provider, search) };
  }
  return null;
}

async function onThisMachine(search: Search): Promise<DiscoveredProvider | null> {
  const usable = [...search.providers.byName.values()].filter((provider) => !whyUnusable(provider, search));
  const models = await Promise.all(usable.map((provider) => localModels(provider, search)));
  for (const [index, provider] of usable.entries()) {
    const offer = models[index]?.[0];
    const because = `found a server of ${provider.name} on this machine`;
    if (offer) return { provider, model: provider.defaultModel ?? offer, because };
  }
  return null;
}

/** The models of a local server at its well-known address; null for any other provider. */
async function localModels(provider: Provider, search: Search): Promise<string[] | null> {
  const url = defaultsOf(provider, search).isLocal ? baseUrl(provider, search) : undefined;
  return url === undefined ? null : ollamaModels(url, search.clock);
}

/** The deadline of a driver's `detect`. */
const DETECT_MS = 2000;

/** null when the driver cannot be used here. A driver that fails or exceeds the deadline is logged. */
async function detect(provider: Provider, search: Search): Promise<{ model: string } | null> {
  const entry = deviceOf(provider, search);
  if (!entry?.device.provider) return null;
  const late = Promise.withResolvers<never>();
  const timer = search.clock.timer(DETECT_MS, () =>
    late.reject(new SyscallError("TIMEOUT", `no answer within ${formatDuration(DETECT_MS)}`)),
  );
  try {
    return await Promise.race([entry.device.provider.detect(environment(provider, search)), late.promise]);
  } catch (error) {
    const what = `The driver ${provider.driver} of plugin ${entry.plugin}`;
    search.warn(`${what} could not be asked for a model: ${messageOf(error)}`);
    return null;
  } finally {
    timer.cancel();
  }
}

/**
 * The environment for `detect`: the spawner's over the user's file, without empty values. A key from another variable
 * stands under the name that the driver expects. For a key command, only a placeholder stands there.
 */
function environment(provider: Provider, search: Search): Record<string, string> {
  const set = [...Object.entries(search.userEnv), ...Object.entries(search.env)].filter(
    (entry): entry is [string, string] => Boolean(entry[1]),
  );
  const [usual] = deviceOf(provider, search)?.device.provider?.keyEnvs ?? [];
  const key = keyOf(provider, search) ?? (provider.keyCommand && "api_key_command");
  return Object.fromEntries(usual === undefined || key === undefined ? set : [...set, [usual, key]]);
}

function foundBy(provider: Provider, look: Lookup): string {
  const variable = keyVariable(provider, look);
  if (variable !== undefined && look.env[variable]) return `found ${variable}`;
  if (variable !== undefined && look.userEnv[variable]) return `found ${variable} in ~/.config/rnix/env`;
  const { needsBaseUrl, baseUrlEnv } = defaultsOf(provider, look);
  if (needsBaseUrl && baseUrlEnv !== undefined && provider.baseUrl === undefined)
    return `found ${baseUrlEnv}`;
  if (provider.keyCommand) return `api_key_command of ${provider.keyCommand.file}`;
  return `found ${provider.name} on this machine`;
}

/** A local server answers at once or is not running. */
const ANSWER_MS = 500;

/** The chat models of an Ollama server, the last used first. null when none answers at the address within half a second. */
async function ollamaModels(baseUrl: string, clock: Pick<Clock, "timer">): Promise<string[] | null> {
  const late = new AbortController();
  const timer = clock.timer(ANSWER_MS, () => late.abort());
  try {
    const response = await fetch(new URL("../api/tags", `${baseUrl.replace(/\/+$/, "")}/`), {
      signal: late.signal,
      redirect: "error",
    });
    if (!response.ok) return null;
    const { models } = Tags.parse(await response.json());
    // Models of the bert families only make embeddings.
    return models.filter(({ details }) => !/bert/.test(details?.family ?? "")).map(({ name }) => name);
  } catch {
    // No server, another program or a slow answer: for the search there is no Ollama.
    return null;
  } finally {
    timer.cancel();
  }
}

const Tags = z.lazy(() => {
  const details = z.object({ family: z.string().optional() }).nullish();
  return z.object({ models: z.array(z.object({ name: z.string().min(1), details })) });
});
