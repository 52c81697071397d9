/** The operations that are written to /dev/tasks. A read without a write returns the tasks as JSON. */

import { type OpenContext, SyscallError } from "rnix/plugin";
import { AnswerFile } from "../_lib/answer-file.ts";
import { jsonObject } from "../_lib/json-object.ts";
import { changeList, readList } from "./document.ts";
import {
  type Author,
  created,
  found,
  type NewTask,
  openBlockers,
  STATUSES,
  type TaskChange,
  type TaskDocument,
  updated,
} from "./list.ts";
import { checklistOf, listText, rowsOf, taskLine, taskText } from "./text.ts";

/** Opens /dev/tasks, or one task below it. */
export function openTasks(subpath: string, context: OpenContext): AnswerFile {
  return new AnswerFile({
    device: `/dev/tasks${subpath}`,
    content: () => documentOf(subpath, context),
    async answer(text) {
      const { op, ...input } = text.trim() === "" ? {} : jsonObject("/dev/tasks", text);
      return op === undefined ? documentOf(subpath, context) : run(op, input, context);
    },
  });
}

async function run(op: unknown, input: Record<string, unknown>, context: OpenContext): Promise<string> {
  switch (op) {
    case "task_create": {
      const wanted = newTask(input);
      const { list, task } = await changeList(context, (before) =>
        created(before, wanted, authorOf(context)),
      );
      context.checklist(checklistOf(list));
      return `Created: ${taskLine(list, task)}`;
    }
    case "task_update": {
      const change = taskChange(input);
      const { list, task } = await changeList(context, (before) =>
        updated(before, change, authorOf(context)),
      );
      context.checklist(checklistOf(list));
      return task === null ? `Task ${change.id} is deleted.` : updatedText(list, task.id);
    }
    case "task_list": {
      const list = await readList(context);
      const { status } = input;
      return listText(
        list,
        list.tasks.filter((task) => status === undefined || task.status === status),
      );
    }
    case "task_get": {
      const list = await readList(context);
      return taskText(list, found(list, idOf(input.id, "id")));
    }
  }
  throw new SyscallError(
    "INVALID",
    `/dev/tasks: expected op task_create, task_update, task_list or task_get, got ${JSON.stringify(op)}.`,
  );
}

/** The list, or one task, as JSON. */
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

/** A write to the device itself is not checked against a tool's schema. */
function newTask(input: Record<string, unknown>): NewTask {
  const { subject, description, owner, blocked_by, blocks } = input;
  if (typeof subject !== "string") throw wrong("subject", "a text");
  return {
    subject,
    description: textOf(description, "description"),
    owner: textOf(owner, "owner"),
    blocked_by: idsOf(blocked_by, "blocked_by"),
    blocks: idsOf(blocks, "blocks"),
  };
}

function taskChange(input: Record<string, unknown>): TaskChange {
  const status = [...STATUSES, "deleted" as const].find((one) => one === input.status);
  if (input.status !== undefined && status === undefined)
    throw wrong("status", `one of ${STATUSES.join(", ")}, deleted`);
  return {
    id: idOf(input.id, "id"),
    status,
    subject: textOf(input.subject, "subject"),
    description: textOf(input.description, "description"),
    owner: textOf(input.owner, "owner"),
    add_blocked_by: idsOf(input.add_blocked_by, "add_blocked_by"),
    remove_blocked_by: idsOf(input.remove_blocked_by, "remove_blocked_by"),
    add_blocks: idsOf(input.add_blocks, "add_blocks"),
    remove_blocks: idsOf(input.remove_blocks, "remove_blocks"),
  };
}

function textOf(value: unknown, field: string): string | undefined {
  if (value === undefined || typeof value === "string") return value;
  throw wrong(field, "a text");
}

function idsOf(value: unknown, field: string): number[] | undefined {
  if (value === undefined) return undefined;
  if (Array.isArray(value)) return value.map((one) => idOf(one, field));
  throw wrong(field, "a list of ids");
}

function idOf(value: unknown, field: string): number {
  const id = typeof value === "string" && /^[1-9][0-9]{0,8}$/.test(value) ? Number(value) : value;
  if (typeof id === "number" && Number.isInteger(id)) return id;
  throw wrong(field, "the id of a task");
}

function wrong(field: string, expected: string): SyscallError {
  return new SyscallError("INVALID", `/dev/tasks: ${field}: expected ${expected}.`);
}
