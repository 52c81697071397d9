/** Reads and changes the list of a process tree on disk. */

import { type OpenContext, type Store, SyscallError } from "rnix/plugin";
import { EMPTY, type TaskDocument } from "./list.ts";

const DOCUMENT = "tasks.json";
/** Attempts of one change, while other agents of the tree change the list. */
const MAX_ATTEMPTS = 50;

/** Changes of one tree by this thread, one after the other: two of them would only make each other try again. */
const turns = new Map<string, Promise<unknown>>();

export async function readList({ store }: OpenContext): Promise<TaskDocument> {
  return (await read(storeOf(store))).list;
}

/** Makes a change, and stores it durably. Retried where another agent has changed the list meanwhile, so no change is lost. */
export async function changeList<T extends { list: TaskDocument }>(
  { store, process: { tree } }: OpenContext,
  change: (list: TaskDocument) => T,
): Promise<T> {
  const before = turns.get(tree) ?? Promise.resolve();
  const turn = before.then(() => changed(storeOf(store), change));
  const ended = turn.catch(() => undefined);
  turns.set(tree, ended);
  try {
    return await turn;
  } finally {
    if (turns.get(tree) === ended) turns.delete(tree);
  }
}

async function changed<T extends { list: TaskDocument }>(
  store: Store,
  change: (list: TaskDocument) => T,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    const { list, version } = await read(store);
    const made = change(list);
    if (made.list === list) return made;
    try {
      await store.replace("tree", DOCUMENT, JSON.stringify(made.list), version);
      return made;
    } catch (error) {
      const isStale = error instanceof SyscallError && error.retryable === true;
      if (!isStale || attempt === MAX_ATTEMPTS) throw error;
    }
  }
}

async function read(store: Store): Promise<{ list: TaskDocument; version: string | null }> {
  const found = await store.read("tree", DOCUMENT);
  if (found === null) return { list: EMPTY, version: null };
  return { list: parsed(found.text), version: found.version };
}

function parsed(text: string): TaskDocument {
  const list: Partial<TaskDocument> | null = JSON.parse(text);
  if (list?.v === 1 && Array.isArray(list.tasks) && typeof list.next_id === "number")
    return { v: 1, next_id: list.next_id, tasks: list.tasks };
  throw new SyscallError("INVALID", `${DOCUMENT} of this run's tree is no task list of this version.`);
}

function storeOf(store: Store | undefined): Store {
  if (store) return store;
  throw new SyscallError("UNAVAILABLE", "The service store is not available.");
}
