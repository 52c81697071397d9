/** The task list as texts for the model, as rows for people, and as the list that clients show. */

import type { ChecklistItem } from "rnix/plugin";
import { blocks, openBlockers, type Status, type Task, type TaskDocument } from "./list.ts";

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
export function taskLine(list: TaskDocument, task: Task): string {
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

/** Everything about one task. */
export function taskText(list: TaskDocument, task: Task): string {
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
export function rowsOf(list: TaskDocument): object[] {
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
