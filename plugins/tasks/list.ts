/** The task list of a process tree: its changes and their rules. Pure data. */

import { SyscallError } from "rnix/plugin";

export const STATUSES = ["pending", "in_progress", "completed", "cancelled"] as const;
export type Status = (typeof STATUSES)[number];

const MAX_TASKS = 200;
const MAX_BLOCKERS = 50;
const MAX_CHARS = { subject: 200, description: 2_000, owner: 100 };

export interface Task {
  id: number;
  subject: string;
  description: string;
  status: Status;
  /** Who works on it, such as "coder". */
  owner: string | null;
  /** The run that took it; null: an owner that an agent named. */
  owner_uuid: string | null;
  /** Tasks to be completed before. */
  blocked_by: number[];
  created_at: string;
  updated_at: string;
  /** The call that created it, so that the same call, when it is repeated, creates no second one. */
  key?: string;
}

export interface TaskDocument {
  v: 1;
  next_id: number;
  tasks: Task[];
}

/** Who changes the list, and when. */
export interface Author {
  agent: string;
  uuid: string;
  now: string;
  key?: string;
}

export interface NewTask {
  subject: string;
  description?: string;
  owner?: string;
  blocked_by?: number[];
  blocks?: number[];
}

export interface TaskChange {
  id: number;
  status?: Status | "deleted";
  subject?: string;
  description?: string;
  /** "": none. */
  owner?: string;
  add_blocked_by?: number[];
  remove_blocked_by?: number[];
  add_blocks?: number[];
  remove_blocks?: number[];
}

export const EMPTY: TaskDocument = { v: 1, next_id: 1, tasks: [] };

/** Adds a task. Returns the list unchanged when the same call has added it before. */
export function created(list: TaskDocument, wanted: NewTask, by: Author): { list: TaskDocument; task: Task } {
  const before = by.key === undefined ? undefined : list.tasks.find(({ key }) => key === by.key);
  if (before) return { list, task: before };
  if (list.tasks.length >= MAX_TASKS) {
    const message = `The list has ${MAX_TASKS} tasks. Delete finished ones with TaskUpdate (status "deleted") first.`;
    throw new SyscallError("EXHAUSTED", message);
  }
  const task: Task = {
    id: list.next_id,
    subject: checked("subject", wanted.subject, 1),
    description: checked("description", wanted.description ?? ""),
    status: "pending",
    owner: checked("owner", wanted.owner ?? "") || null,
    owner_uuid: null,
    blocked_by: [],
    created_at: by.now,
    updated_at: by.now,
    ...(by.key !== undefined && { key: by.key }),
  };
  const { blocked_by: add_blocked_by, blocks: add_blocks } = wanted;
  const grown = { ...list, next_id: list.next_id + 1, tasks: [...list.tasks, task] };
  const linked = linkedTasks(grown, { id: task.id, add_blocked_by, add_blocks }, by);
  return { list: linked, task: found(linked, task.id) };
}

export function updated(
  list: TaskDocument,
  change: TaskChange,
  by: Author,
): { list: TaskDocument; task: Task | null } {
  const before = list.tasks.find(({ id }) => id === change.id);
  // The same call, repeated.
  if (!before && change.status === "deleted" && change.id < list.next_id) return { list, task: null };
  const task = found(list, change.id);
  if (change.status === "deleted") return { list: without(list, task.id), task: null };
  requireFree(task, change, by);
  const next: Task = {
    ...task,
    ...(change.status && { status: change.status }),
    ...(change.subject !== undefined && { subject: checked("subject", change.subject, 1) }),
    ...(change.description !== undefined && { description: checked("description", change.description) }),
    ...ownerOf(task, change, by),
    updated_at: by.now,
  };
  const linked = linkedTasks(replaced(list, next), change, by);
  return { list: linked, task: found(linked, task.id) };
}

export function openBlockers({ tasks }: TaskDocument, { blocked_by }: Task): number[] {
  return blocked_by.filter((id) => tasks.some((one) => one.id === id && isOpen(one)));
}

export function blocks({ tasks }: TaskDocument, id: number): number[] {
  return tasks.filter(({ blocked_by }) => blocked_by.includes(id)).map((task) => task.id);
}

export function isOpen({ status }: Task): boolean {
  return status === "pending" || status === "in_progress";
}

/** Fails with NOT_FOUND, and names the tasks that exist. */
export function found({ tasks }: TaskDocument, id: number): Task {
  const task = tasks.find((one) => one.id === id);
  if (task) return task;
  const ids = tasks.map((one) => one.id).join(", ");
  throw new SyscallError("NOT_FOUND", `There is no task ${id}. Tasks: ${ids || "none"}.`);
}

/** Two agents must not work on one task without knowing. */
function requireFree(task: Task, { status, owner }: TaskChange, by: Author): void {
  const isTaken = task.status === "in_progress" && task.owner_uuid !== null && task.owner_uuid !== by.uuid;
  if (status !== "in_progress" || !isTaken || owner !== undefined) return;
  const message = `${task.owner} works on task ${task.id} already. Take another one, or give owner to take it over.`;
  throw new SyscallError("INVALID", message);
}

/** An agent that starts a task becomes its owner, unless it names one. */
function ownerOf(task: Task, { status, owner }: TaskChange, by: Author): Pick<Task, "owner" | "owner_uuid"> {
  if (owner !== undefined) return { owner: checked("owner", owner) || null, owner_uuid: null };
  if (status !== "in_progress" || task.owner_uuid === by.uuid)
    return { owner: task.owner, owner_uuid: task.owner_uuid };
  return { owner: task.owner ?? by.agent, owner_uuid: by.uuid };
}

/** Adds and removes links. Fails with INVALID, and changes nothing, where a task would wait for itself. */
function linkedTasks(list: TaskDocument, change: Omit<TaskChange, "status">, by: Author): TaskDocument {
  const { id, add_blocked_by = [], remove_blocked_by = [], add_blocks = [], remove_blocks = [] } = change;
  const links = [
    ...add_blocked_by.map((blocker) => ({ task: id, blocker, adds: true })),
    ...add_blocks.map((task) => ({ task, blocker: id, adds: true })),
    ...remove_blocked_by.map((blocker) => ({ task: id, blocker, adds: false })),
    ...remove_blocks.map((task) => ({ task, blocker: id, adds: false })),
  ];
  let linked = list;
  for (const { task: of, blocker, adds } of links) {
    const task = found(linked, of);
    if (adds) requireNoCycle(linked, task, found(linked, blocker).id);
    const others = task.blocked_by.filter((one) => one !== blocker);
    const blocked_by = adds ? [...others, blocker].sort((a, b) => a - b) : others;
    if (blocked_by.length > MAX_BLOCKERS)
      throw new SyscallError("EXHAUSTED", `Task ${of} is blocked by ${MAX_BLOCKERS} tasks already.`);
    linked = replaced(linked, { ...task, blocked_by, updated_at: by.now });
  }
  return linked;
}

function requireNoCycle(list: TaskDocument, task: Task, blocker: number): void {
  const path = waitsFor(list, blocker, task.id, new Set());
  if (path === null) return;
  const message = `Task ${task.id} can't be blocked by task ${blocker}: that would be a cycle, ${[task.id, ...path].join(" waits for ")}.`;
  throw new SyscallError("INVALID", message);
}

/** The tasks from `from` to `to`, each of which waits for the next one; null: there is no such way. */
function waitsFor(list: TaskDocument, from: number, to: number, seen: Set<number>): number[] | null {
  if (from === to) return [from];
  seen.add(from);
  for (const next of list.tasks.find(({ id }) => id === from)?.blocked_by ?? []) {
    const rest = seen.has(next) ? null : waitsFor(list, next, to, seen);
    if (rest !== null) return [from, ...rest];
  }
  return null;
}

function replaced(list: TaskDocument, task: Task): TaskDocument {
  return { ...list, tasks: list.tasks.map((one) => (one.id === task.id ? task : one)) };
}

function without(list: TaskDocument, id: number): TaskDocument {
  const others = list.tasks.filter((task) => task.id !== id);
  return {
    ...list,
    tasks: others.map((task) => ({ ...task, blocked_by: task.blocked_by.filter((one) => one !== id) })),
  };
}

function checked(field: keyof typeof MAX_CHARS, text: string, min = 0): string {
  const clean = text.trim();
  const max = MAX_CHARS[field];
  if (clean.length >= min && clean.length <= max) return clean;
  throw new SyscallError("INVALID", `${field}: expected ${min} to ${max} characters, got ${clean.length}.`);
}
