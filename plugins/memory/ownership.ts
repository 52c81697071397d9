/** Whether the memory in a project's data was written here, or came with the project's files. */

import type { Store } from "rnix/plugin";
import { changeStored, parsedOr, readStored } from "./document.ts";

/** Beside the project's memory. A repository can bring the file, but no token that this user's list has. */
const OWNER = ".owner";
/** In the user's data. */
const OWNED = "owned.json";
/** The oldest are dropped: their memory has to be approved again. */
const MAX_OWNED = 10_000;

interface Owned {
  v: 1;
  tokens: { token: string; project: string; since: string }[];
}

export async function isOwned(store: Store): Promise<boolean> {
  const { text } = await readStored(store, "project", OWNER);
  if (text === "") return false;
  const token = text.trim();
  return (await ownedOf(store)).tokens.some((one) => one.token === token);
}

/** Makes the memory of this project the user's own. The list has the token before the project does. */
export async function own(store: Store, project: string, signal: AbortSignal): Promise<void> {
  if (await isOwned(store)) return;
  const token = crypto.randomUUID();
  await changeStored(store, { scope: "user", doc: OWNED }, (text) => listed(text, token, project), {
    signal,
  });
  await changeStored(store, { scope: "project", doc: OWNER }, () => `${token}\n`, { signal });
}

function listed(text: string, token: string, project: string): string {
  const { tokens } = parsedOr<Owned>(text, { v: 1, tokens: [] });
  const since = new Date().toISOString();
  const all = [...tokens, { token, project, since }].slice(-MAX_OWNED);
  return `${JSON.stringify({ v: 1, tokens: all }, null, 1)}\n`;
}

async function ownedOf(store: Store): Promise<Owned> {
  const { text } = await readStored(store, "user", OWNED);
  const owned = parsedOr<Owned>(text, { v: 1, tokens: [] });
  return Array.isArray(owned.tokens) ? owned : { v: 1, tokens: [] };
}
