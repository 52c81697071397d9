/** What waits for a person, and what a person has approved. In the user's data, where no repository writes. */

import { type Store, SyscallError } from "rnix/plugin";
import { changeStored, parsedOr, readStored } from "./document.ts";
import { hashOf, idOf } from "./entry-file.ts";
import type { Target } from "./scopes.ts";

const REVIEW = "review.json";
/** A run that is refused again and again must not fill the disk. */
const MAX_WAITING = 200;
const MAX_APPROVED = 10_000;

/** An entry that waits, outside of the memory that it is for. */
export interface Waiting {
  id: string;
  target: Target;
  text: string;
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

export interface Approved {
  has(text: string): boolean;
}

export async function approvedOf(store: Store): Promise<Approved> {
  const hashes = new Set((await reviewOf(store)).approved);
  return { has: (text) => hashes.has(hashOf(text)) };
}

export async function waitingOf(store: Store): Promise<Waiting[]> {
  return (await reviewOf(store)).waiting;
}

export async function quarantine(
  store: Store,
  one: Omit<Waiting, "id" | "at">,
  signal: AbortSignal,
): Promise<string> {
  const id = idOf(one.text);
  await changeReview(store, signal, (review) => {
    if (review.waiting.some((there) => there.id === id && there.target === one.target)) return null;
    if (review.waiting.length >= MAX_WAITING) {
      throw new SyscallError(
        "EXHAUSTED",
        `${MAX_WAITING} entries wait for a review already, so this one was not stored. A person decides on them: rnix memory review.`,
      );
    }
    return { ...review, waiting: [...review.waiting, { id, ...one, at: new Date().toISOString() }] };
  });
  return id;
}

/** Takes texts off the list, and approves those that `approve` names. */
export async function decide(
  store: Store,
  { approve, ids }: { approve: readonly string[]; ids: readonly string[] },
  signal: AbortSignal,
): Promise<void> {
  const hashes = approve.map(hashOf);
  await changeReview(store, signal, (review) => ({
    ...review,
    approved: [...review.approved.filter((hash) => !hashes.includes(hash)), ...hashes].slice(-MAX_APPROVED),
    waiting: review.waiting.filter(({ id }) => !ids.includes(id)),
  }));
}

async function reviewOf(store: Store): Promise<Review> {
  return readReview((await readStored(store, "user", REVIEW)).text);
}

function readReview(text: string): Review {
  const review = parsedOr<Review>(text, { v: 1, approved: [], waiting: [] });
  const isWhole = Array.isArray(review.approved) && Array.isArray(review.waiting);
  return isWhole ? review : { v: 1, approved: [], waiting: [] };
}

async function changeReview(
  store: Store,
  signal: AbortSignal,
  change: (review: Review) => Review | null,
): Promise<void> {
  const edit = (text: string): string | null => {
    const changed = change(readReview(text));
    return changed && `${JSON.stringify(changed, null, 1)}\n`;
  };
  await changeStored(store, { scope: "user", doc: REVIEW }, edit, { signal });
}
