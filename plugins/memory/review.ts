/** /dev/memory/review: a person decides on entries that wait. */

import { type OpenContext, SyscallError } from "rnix/plugin";
import { FOREIGN, Memory, type Note } from "./memory.ts";
import { own } from "./ownership.ts";
import type { Answers } from "./request-file.ts";
import { decide, type Waiting, waitingOf } from "./review-list.ts";
import { PLACES, type Place, TARGETS } from "./scopes.ts";
import { reviewText, shortUuid, type Waits } from "./texts.ts";

export const REVIEW = "/dev/memory/review";

/** An entry in a file of memory that is held back, or one that waits outside of it. */
type Item = Waits & { place: Place; note?: Note; waiting?: Waiting };

export function review(context: OpenContext): Answers {
  requirePerson(context);
  const memory = new Memory(context);
  const list = async (signal: AbortSignal): Promise<string> =>
    reviewText(await itemsOf(memory, context, signal));
  return {
    device: REVIEW,
    shown: list,
    async answer(request, signal) {
      const items = await itemsOf(memory, context, signal);
      const approve = chosen(items, request.text("approve"));
      const reject = chosen(items, request.text("reject"));
      if (approve.length + reject.length > 0) {
        for (const item of approve) await keep(memory, item, signal);
        for (const { note, place } of reject) if (note) await memory.removeText(place, note.text, signal);
        const ids = [...approve, ...reject].map(({ id }) => id);
        await decide(memory.store, { approve: approve.map(({ text }) => text), ids }, signal);
        // All that came with the project is decided: what is written from now on needs no review.
        const isOwn = (await itemsOf(memory, context, signal)).every(({ why }) => why !== FOREIGN);
        const wasForeign = [...approve, ...reject].some(({ why }) => why === FOREIGN);
        if (wasForeign && isOwn) await own(memory.store, context.project.dir, signal);
        if (request.text("as") !== "text")
          return JSON.stringify({ approved: approve.map(idOf), rejected: reject.map(idOf) }, null, 1);
        return `Approved ${approve.length}, removed ${reject.length}.`;
      }
      return request.text("as") === "text" ? list(signal) : JSON.stringify(items.map(documentOf), null, 1);
    },
  };
}

/** Outside of its file an entry is added now; in it, the approval alone counts. */
async function keep(memory: Memory, { waiting, place, text }: Item, signal: AbortSignal): Promise<void> {
  if (waiting) await memory.addApproved(place, text, signal);
}

async function itemsOf(memory: Memory, { project }: OpenContext, signal: AbortSignal): Promise<Item[]> {
  const items: Item[] = [];
  for (const waiting of await waitingOf(memory.store)) {
    const place = PLACES[waiting.target];
    // The memory of another project is decided on there.
    if (place.scope === "project" && waiting.project !== project.dir) continue;
    const by = waiting.agent === "" ? "you" : `${waiting.agent} (${shortUuid(waiting.run)})`;
    const from = `, by ${by}, ${waiting.at.slice(0, 10)}, in ${waiting.project}`;
    items.push({
      id: waiting.id,
      what: place.what,
      why: waiting.why,
      from,
      text: waiting.text,
      place,
      waiting,
    });
  }
  for (const target of TARGETS) {
    const place = PLACES[target];
    for (const note of (await memory.read(place, signal)).held) {
      const from = `, in ${await memory.pathOf(place)}`;
      items.push({ id: note.id, what: place.what, why: note.held ?? "", from, text: note.text, place, note });
    }
  }
  return items;
}

/** The items of an id, or of "all". */
function chosen(items: readonly Item[], word: string | undefined): Item[] {
  if (word === undefined) return [];
  if (word === "all") return [...items];
  const found = items.filter(({ id }) => id === word);
  if (found.length > 0) return found;
  const ids = items.map(({ id }) => id).join(", ");
  throw new SyscallError(
    "NOT_FOUND",
    `No entry ${word} waits for a review: ${ids === "" ? "none does" : `expected all or one of ${ids}`}.`,
  );
}

function idOf({ id }: Item): string {
  return id;
}

function documentOf({ id, place, why, text, waiting }: Item): object {
  return {
    id,
    target: place.target,
    why,
    text,
    agent: waiting?.agent ?? null,
    run: waiting?.run ?? null,
    project: waiting?.project ?? null,
    at: waiting?.at ?? null,
  };
}

/** An entry that waits may be there to mislead a model, so no run reads it or decides on it. */
function requirePerson({ process }: OpenContext): void {
  if (process.operator) return;
  throw new SyscallError(
    "PERMISSION",
    "Only a person decides on entries that wait: run `rnix memory review` outside of a run.",
  );
}
