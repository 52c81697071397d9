/**
 * What waits for a person, what a person has approved, and whether the memory in a project's data was written here, or came
 * with the project's files. In the user's data, where no repository writes.
 */

import { type Store, SyscallError } from "rnix/plugin";
import { changeJson, changeStored, hashOf, idOf, readJson, readStored } from "./entry-file.ts";
import type { Target } from "./scopes.ts";

const REVIEW = { storage: "user", doc: "review.json" } as const;
/** A run that is refused again and again must not fill the disk. */
const MAX_WAITING = 200;
const MAX_APPROVED = 10_000;

/** An entry that waits, outside of the memory that it is for. */
export interface Waiting {
  id: string;
  target: Target;
  text: string;
  /** The entry that it takes the place of. */
  old?: string | undefined;
  removes?: true | undefined;
  why: string;
  /** The folder of the project, and the run that wrote it. */
  project: string;
  agent: string;
  run: string;
  at: string;
}

interface Review {
  v: 1;
  /** The hashes of approved texts. */
  approved: string[];
  waiting: Waiting[];
}

const NONE: Review = { v: 1, approved: [], waiting: [] };

/** Whether a person has approved a text. */
export async function approvals(store: Store): Promise<(text: string) => boolean> {
  const hashes = new Set((await readJson(store, REVIEW, NONE)).approved);
  return (text) => hashes.has(hashOf(text));
}

export async function waitingOf(store: Store): Promise<Waiting[]> {
  return (await readJson(store, REVIEW, NONE)).waiting;
}

export async function quarantine(
  store: Store,
  one: Omit<Waiting, "id" | "at">,
  signal: AbortSignal,
): Promise<string> {
  const id = idOf(one.removes ? `remove ${one.text}` : one.text);
  const added = (review: Review): Review | null => {
    if (review.waiting.some((there) => there.id === id && there.target === one.target)) return null;
    if (review.waiting.length >= MAX_WAITING) {
      const message = `${MAX_WAITING} entries wait for a review already, so this one was not stored. A person decides on them: rnix memory review.`;
      throw new SyscallError("EXHAUSTED", message);
    }
    return { ...review, waiting: [...review.waiting, { id, ...one, at: new Date().toISOString() }] };
  };
  await changeJson(store, REVIEW, NONE, added, signal);
  return id;
}

/** Takes texts off the list, and approves those that `approve` names. */
export async function decide(
  store: Store,
  { approve, ids }: { approve: readonly string[]; ids: readonly string[] },
  signal: AbortSignal,
): Promise<void> {
  const hashes = approve.map(hashOf);
  const decided = ({ v, approved, waiting }: Review): Review => ({
    v,
    approved: [...approved.filter((hash) => !hashes.includes(hash)), ...hashes].slice(-MAX_APPROVED),
    waiting: waiting.filter(({ id }) => !ids.includes(id)),
  });
  await changeJson(store, REVIEW, NONE, decided, signal);
}

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

const NO_TOKENS: Owned = { v: 1, tokens: [] };

export async function isOwned(store: Store): Promise<boolean> {
  const token = (await readStored(store, OWNER)).text.trim();
  if (token === "") return false;
  const { tokens } = await readJson(store, OWNED, NO_TOKENS);
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
  await changeJson(store, OWNED, NO_TOKENS, listed, signal);
  await changeStored(store, OWNER, () => `${token}\n`, { signal });
}
