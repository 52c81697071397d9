/** /dev/memory/review: a person decides on entries that wait. */

import { type OpenContext, SyscallError } from "rnix/plugin";
import type { Answers } from "../_lib/answer-file.ts";
import { checkedInput } from "../_lib/checked-input.ts";
import { jsonObject } from "../_lib/json.ts";
import { FOREIGN, Memory, type MemoryEntry } from "./memory.ts";
import { decide, own, type Waiting, waitingOf } from "./review-list.ts";
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
  const { project } = context;
  return {
    device: REVIEW,
    content: async (signal) => reviewText(await itemsOf(new Memory(context, signal), project.dir)),
    async answer(text, signal) {
      const memory = new Memory(context, signal);
      const request = checkedInput({ name: REVIEW, input: REQUEST }, jsonObject(REVIEW, text));
      const isText = request.as === "text";
      const items = await itemsOf(memory, project.dir);
      const approve = chosen(items, request.approve);
      const reject = chosen(items, request.reject);
      if (approve.length + reject.length > 0) {
        // Outside of its file an entry is added now; in it, the approval alone counts.
        for (const { waiting, scope } of approve) if (waiting) await memory.approve(scope, waiting);
        for (const { entry, scope, text } of reject) if (entry) await memory.removeText(scope, text);
        const ids = idsOf([...approve, ...reject]);
        const texts = approve.filter(({ waiting }) => !waiting?.removes).map(({ text }) => text);
        await decide(memory.store, { approve: texts, ids }, signal);
        // All that came with the project is decided: what is written from now on needs no review.
        const isOwn = (await itemsOf(memory, project.dir)).every(({ why }) => why !== FOREIGN);
        const wasForeign = [...approve, ...reject].some(({ why }) => why === FOREIGN);
        if (wasForeign && isOwn) await own(memory.store, project.dir, signal);
        if (isText) return `Approved ${approve.length}, removed ${reject.length}.`;
        return JSON.stringify({ approved: idsOf(approve), rejected: idsOf(reject) }, null, 1);
      }
      return isText ? reviewText(items) : JSON.stringify(items.map(documentOf), null, 1);
    },
  };
}

async function itemsOf(memory: Memory, project: string): Promise<Item[]> {
  const items: Item[] = [];
  for (const waiting of await waitingOf(memory.store)) {
    const scope = SCOPES[waiting.target];
    // The memory of another project is decided on there.
    if (scope.storage === "project" && waiting.project !== project) continue;
    const by = waiting.agent === "" ? "you" : `${waiting.agent} (${shortUuid(waiting.run)})`;
    const from = `, by ${by}, ${waiting.at.slice(0, 10)}, in ${waiting.project}`;
    const { id, why, text, old, removes } = waiting;
    items.push({ id, what: scope.what, why, from, text, old, removes, scope, waiting });
  }
  for (const target of TARGETS) {
    const scope = SCOPES[target];
    for (const entry of (await memory.read(scope)).held) {
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
  const ids = idsOf(items).join(", ");
  const message = `No entry ${word} waits for a review: ${ids === "" ? "none does" : `expected all or one of ${ids}`}.`;
  throw new SyscallError("NOT_FOUND", message);
}

function idsOf(items: readonly Item[]): string[] {
  return items.map(({ id }) => id);
}

function documentOf({ id, scope, why, text, waiting }: Item): object {
  const { old = null, removes = false, agent = null, run = null, project = null, at = null } = waiting ?? {};
  return { id, target: scope.target, why, text, old, removes, agent, run, project, at };
}

/** An entry that waits may be there to mislead a model, so no run reads it or decides on it. */
function requirePerson({ process }: OpenContext): void {
  if (process.operator) return;
  const message = "Only a person decides on entries that wait: run `rnix memory review` outside of a run.";
  throw new SyscallError("PERMISSION", message);
}
