/** /dev/memory/review: a person decides on entries that wait. */

import { type OpenContext, SyscallError } from "rnix/plugin";
import type { Answers } from "../_lib/answer-file.ts";
import { checkedInput } from "../_lib/checked-input.ts";
import { jsonObject } from "../_lib/json.ts";
import { FOREIGN, Memory, type MemoryEntry } from "./memory.ts";
import { own } from "./ownership.ts";
import { decide, type Waiting, waitingOf } from "./review-list.ts";
import { type MemoryScope, SCOPES, TARGETS } from "./scopes.ts";
import { reviewText, shortUuid, type Waits } from "./texts.ts";

export const REVIEW = "/dev/memory/review";

const REQUEST = {
  type: "object",
  properties: { approve: { type: "string" }, reject: { type: "string" }, as: { type: "string" } },
} as const;

/** An entry in a file of memory that is held back, or one that waits outside of it. */
type Item = Waits & { scope: MemoryScope; entry?: MemoryEntry; waiting?: Waiting };

export function review(context: OpenContext): Answers {
  requirePerson(context);
  const memory = new Memory(context);
  const list = async (signal: AbortSignal): Promise<string> =>
    reviewText(await itemsOf(memory, context, signal));
  return {
    device: REVIEW,
    content: list,
    async answer(text, signal) {
      const request = checkedInput({ name: REVIEW, input: REQUEST }, jsonObject(REVIEW, text));
      const isText = request.as === "text";
      const items = await itemsOf(memory, context, signal);
      const approve = chosen(items, request.approve);
      const reject = chosen(items, request.reject);
      if (approve.length + reject.length > 0) {
        // Outside of its file an entry is added now; in it, the approval alone counts.
        for (const { waiting, scope } of approve) if (waiting) await memory.approve(scope, waiting, signal);
        for (const { entry, scope, text } of reject) if (entry) await memory.removeText(scope, text, signal);
        const ids = [...approve, ...reject].map(({ id }) => id);
        const texts = approve.filter(({ waiting }) => !waiting?.removes).map(({ text }) => text);
        await decide(memory.store, { approve: texts, ids }, signal);
        // All that came with the project is decided: what is written from now on needs no review.
        const isOwn = (await itemsOf(memory, context, signal)).every(({ why }) => why !== FOREIGN);
        const wasForeign = [...approve, ...reject].some(({ why }) => why === FOREIGN);
        if (wasForeign && isOwn) await own(memory.store, context.project.dir, signal);
        if (!isText)
          return JSON.stringify({ approved: approve.map(idOf), rejected: reject.map(idOf) }, null, 1);
        return `Approved ${approve.length}, removed ${reject.length}.`;
      }
      return isText ? list(signal) : JSON.stringify(items.map(documentOf), null, 1);
    },
  };
}

async function itemsOf(memory: Memory, { project }: OpenContext, signal: AbortSignal): Promise<Item[]> {
  const items: Item[] = [];
  for (const waiting of await waitingOf(memory.store)) {
    const scope = SCOPES[waiting.target];
    // The memory of another project is decided on there.
    if (scope.storage === "project" && waiting.project !== project.dir) continue;
    const by = waiting.agent === "" ? "you" : `${waiting.agent} (${shortUuid(waiting.run)})`;
    const from = `, by ${by}, ${waiting.at.slice(0, 10)}, in ${waiting.project}`;
    const { id, why, text, old, removes } = waiting;
    items.push({ id, what: scope.what, why, from, text, old, removes, scope, waiting });
  }
  for (const target of TARGETS) {
    const scope = SCOPES[target];
    for (const entry of (await memory.read(scope, signal)).held) {
      const from = `, in ${await memory.pathOf(scope)}`;
      const { id, held, text } = entry;
      items.push({ id, what: scope.what, why: held ?? "", from, text, scope, entry });
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

function documentOf({ id, scope, why, text, waiting }: Item): object {
  return {
    id,
    target: scope.target,
    why,
    text,
    old: waiting?.old ?? null,
    removes: waiting?.removes ?? false,
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
