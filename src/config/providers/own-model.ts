/** Asks a server of the user's own for its default model. */

import { SyscallError } from "../../plugin/index.ts";
import type { Search } from "./discovery.ts";
import { whyUnusable } from "./provider-needs.ts";
import type { Provider } from "./providers.ts";

/** Models of a server that answer no conversation. */
const SILENT = /embed|rerank|whisper|tts/i;

/** The driver's default if the server's list has it, otherwise the first model; null for a server without a list. */
export async function ownModel(provider: Provider, search: Search, usual?: string): Promise<string | null> {
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
