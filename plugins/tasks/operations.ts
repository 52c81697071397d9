/** The operations that are written to /dev/tasks. A read without a write returns the tasks as JSON. */

import { type ChecklistItem, type FromSchema, type OpenContext, type Store, SyscallError } from "rnix/plugin";
import { AnswerFile } from "../_lib/answer-file.ts";
import { answerRequest, type Operation, operation } from "../_lib/operations.ts";
import {
  type Author,
  blocks,
  created,
  EMPTY,
  found,
  openBlockers,
  type Status,
  type Task,
  type TaskChange,
  type TaskDocument,
  updated,
} from "./list.ts";
import { TASK_CREATE, TASK_GET, TASK_LIST, TASK_UPDATE } from "./tools.ts";

/** Opens /dev/tasks, or one task below it. */
export function openTasks(subpath: string, context: OpenContext): AnswerFile {
  return new AnswerFile({
    device: `/dev/tasks${subpath}`,
    content: () => documentOf(subpath, context),
    answer: async (text) =>
      text.trim() === "" || text.trim() === "{}"
        ? documentOf(subpath, context)
        : answerRequest("/dev/tasks", text, operationsOf(context)),
  });
}

function operationsOf(context: OpenContext): Operation[] {
  return [
    operation(TASK_CREATE, async ({ blocked_by, blocks, ...given }) => {
      const wanted = { ...given, blocked_by: numbers(blocked_by), blocks: numbers(blocks) };
      const { list, task } = await changeList(context, (before) =>
        created(before, wanted, authorOf(context)),
      );
      context.checklist(checklistOf(list));
      return `Created: ${taskLine(list, task)}`;
    }),
    operation(TASK_UPDATE, async (input) => {
      const change = taskChange(input);
      const { list, task } = await changeList(context, (before) =>
        updated(before, change, authorOf(context)),
      );
      context.checklist(checklistOf(list));
      return task === null ? `Task ${change.id} is deleted.` : updatedText(list, task.id);
    }),
    operation(TASK_LIST, async ({ status }) => {
      const list = await readList(context);
      return listText(
        list,
        list.tasks.filter((task) => status === undefined || task.status === status),
      );
    }),
    operation(TASK_GET, async ({ id }) => {
      const list = await readList(context);
      return taskText(list, found(list, Number(id)));
    }),
  ];
}

function taskChange(input: FromSchema<(typeof TASK_UPDATE)["input"]>): TaskChange {
  const { id, add_blocked_by, remove_blocked_by, add_blocks, remove_blocks, ...given } = input;
  return {
    ...given,
    id: Number(id),
    add_blocked_by: numbers(add_blocked_by),
    remove_blocked_by: numbers(remove_blocked_by),
    add_blocks: numbers(add_blocks),
    remove_blocks: numbers(remove_blocks),
  };
}

/** Ids may be written as text. */
function numbers(ids: readonly unknown[] | undefined): number[] | undefined {
  return ids?.map(Number);
}

async function documentOf(subpath: string, context: OpenContext): Promise<string> {
  const list = await readList(context);
  if (subpath === "" || subpath === "/") return JSON.stringify(rowsOf(list));
  const id = Number(subpath.slice(1));
  const row = rowsOf(list)[list.tasks.findIndex((task) => task.id === id)];
  if (row) return JSON.stringify(row);
  throw new SyscallError("NOT_FOUND", `There is no task at /dev/tasks${subpath}.`);
}

function authorOf({ process, call }: OpenContext): Author {
  const now = new Date().toISOString();
  return { agent: process.agent, uuid: process.uuid, now, ...(call && { key: call.key }) };
}

function updatedText(list: TaskDocument, id: number): string {
  const task = found(list, id);
  const open = task.status === "in_progress" ? openBlockers(list, task) : [];
  const note = open.length === 0 ? "" : `\nNote: it is blocked by ${open.join(", ")}, not completed yet.`;
  return `Updated: ${taskLine(list, task)}${note}`;
}

const DOCUMENT = "tasks.json";
/** Attempts of one change, while other agents of the tree change the list. */
const MAX_ATTEMPTS = 50;

/** Changes of one tree by this thread, one after the other: two of them would only make each other try again. */
const turns = new Map<string, Promise<unknown>>();

async function readList({ store }: OpenContext): Promise<TaskDocument> {
  return (await read(storeOf(store))).list;
}

/** Makes a change, and stores it durably. Retried where another agent has changed the list meanwhile, so no change is lost. */
async function changeList<T extends { list: TaskDocument }>(
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

const MARKS: Readonly<Record<Status, string>> = {
  pending: "[ ]",
  in_progress: "[>]",
  completed: "[x]",
  cancelled: "[-]",
};
const STATES: Readonly<Record<Status, ChecklistItem["state"]>> = {
  pending: "open",
  in_progress: "active",
  completed: "done",
  cancelled: "dropped",
};

/** "[ ] 3 Release it  (coder)  blocked by 2". */
function taskLine(list: TaskDocument, task: Task): string {
  const { id, subject, status } = task;
  const note = noteOf(list, task);
  return `${MARKS[status]} ${id} ${subject}${note === undefined ? "" : `  (${note})`}`;
}

export function listText(list: TaskDocument, tasks: readonly Task[] = list.tasks): string {
  if (list.tasks.length === 0) return "There are no tasks.";
  const count = (wanted: Status): number => list.tasks.filter(({ status }) => status === wanted).length;
  const counts = (["completed", "in_progress", "pending", "cancelled"] as const)
    .map((status) => `${count(status)} ${status.replace("_", " ")}`)
    .filter((text) => !text.startsWith("0 "));
  return [
    `${list.tasks.length} tasks: ${counts.join(", ")}`,
    ...tasks.map((task) => taskLine(list, task)),
  ].join("\n");
}

function taskText(list: TaskDocument, task: Task): string {
  const waiting = blocks(list, task.id);
  return [
    taskLine(list, task),
    ...(task.description === "" ? [] : [task.description]),
    ...(task.blocked_by.length === 0 ? [] : [`blocked_by: ${task.blocked_by.join(", ")}`]),
    ...(waiting.length === 0 ? [] : [`blocks: ${waiting.join(", ")}`]),
    `status: ${task.status}, created ${task.created_at}, updated ${task.updated_at}`,
  ].join("\n");
}

/** The list for people and programs. */
function rowsOf(list: TaskDocument): object[] {
  return list.tasks.map((task) => {
    const { key: _key, ...row } = task;
    return { ...row, blocks: blocks(list, task.id), waits_for: openBlockers(list, task) };
  });
}

export function checklistOf(list: TaskDocument): ChecklistItem[] {
  return list.tasks.map((task) => {
    const note = noteOf(list, task);
    return { text: task.subject, state: STATES[task.status], ...(note !== undefined && { note }) };
  });
}

function noteOf(list: TaskDocument, task: Task): string | undefined {
  const open = task.status === "pending" ? openBlockers(list, task) : [];
  const parts = [
    ...(task.owner === null ? [] : [task.owner]),
    ...(open.length === 0 ? [] : [`blocked by ${open.join(", ")}`]),
  ];
  return parts.length === 0 ? undefined : parts.join("; ");
}
