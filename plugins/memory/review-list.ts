/** What waits for a person, and what a person has approved. In the user's data, where no repository writes. */

import { type Store, SyscallError } from "rnix/plugin";
import { changeJson, hashOf, idOf, readJson } from "./entry-file.ts";
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
  /** The entry is to be removed. */
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
