/** Whether the memory in a project's data was written here, or came with the project's files. */

import type { Store } from "rnix/plugin";
import { changeJson, changeStored, readJson, readStored } from "./entry-file.ts";

/** Beside the project's memory. A repository can bring the file, but no token that this user's list has. */
const OWNER = { storage: "project", doc: ".owner" } as const;
/** In the user's data. */
const OWNED = { storage: "user", doc: "owned.json" } as const;
/** The oldest are dropped: their memory has to be approved again. */
const MAX_OWNED = 10_000;

interface Owned {
  v: 1;
  tokens: { token: string; project: string; since: string }[];
}

const NONE: Owned = { v: 1, tokens: [] };

export async function isOwned(store: Store): Promise<boolean> {
  const token = (await readStored(store, OWNER)).text.trim();
  if (token === "") return false;
  const { tokens } = await readJson(store, OWNED, NONE);
  return tokens.some((one) => one.token === token);
}

/** Makes the memory of this project the user's own. The list has the token before the project does. */
export async function own(store: Store, project: string, signal: AbortSignal): Promise<void> {
  if (await isOwned(store)) return;
  const token = crypto.randomUUID();
  const since = new Date().toISOString();
  const listed = ({ tokens }: Owned): Owned => {
    return { v: 1, tokens: [...tokens, { token, project, since }].slice(-MAX_OWNED) };
  };
  await changeJson(store, OWNED, NONE, listed, signal);
  await changeStored(store, OWNER, () => `${token}\n`, { signal });
}
