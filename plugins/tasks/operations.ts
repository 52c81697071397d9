/** The operations that are written to /dev/tasks. A read without a write returns the tasks as JSON. */

import { type OpenContext, SyscallError } from "rnix/plugin";
import { AnswerFile } from "../_lib/answer-file.ts";
import { checkedInput } from "../_lib/checked-input.ts";
import { jsonObject } from "../_lib/json-object.ts";
import { changeList, readList } from "./document.ts";
import {
  type Author,
  created,
  found,
  openBlockers,
  type TaskChange,
  type TaskDocument,
  updated,
} from "./list.ts";
import { checklistOf, listText, rowsOf, taskLine, taskText } from "./text.ts";
import { TASK_CREATE, TASK_GET, TASK_LIST, TASK_UPDATE } from "./tools.ts";

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
    case TASK_CREATE.op: {
      const { blocked_by, blocks, ...given } = checkedInput(TASK_CREATE, input);
      const wanted = { ...given, blocked_by: numbers(blocked_by), blocks: numbers(blocks) };
      const { list, task } = await changeList(context, (before) =>
        created(before, wanted, authorOf(context)),
      );
      context.checklist(checklistOf(list));
      return `Created: ${taskLine(list, task)}`;
    }
    case TASK_UPDATE.op: {
      const change = taskChange(input);
      const { list, task } = await changeList(context, (before) =>
        updated(before, change, authorOf(context)),
      );
      context.checklist(checklistOf(list));
      return task === null ? `Task ${change.id} is deleted.` : updatedText(list, task.id);
    }
    case TASK_LIST.op: {
      const { status } = checkedInput(TASK_LIST, input);
      const list = await readList(context);
      return listText(
        list,
        list.tasks.filter((task) => status === undefined || task.status === status),
      );
    }
    case TASK_GET.op: {
      const { id } = checkedInput(TASK_GET, input);
      const list = await readList(context);
      return taskText(list, found(list, Number(id)));
    }
  }
  throw new SyscallError(
    "INVALID",
    `/dev/tasks: expected op task_create, task_update, task_list or task_get, got ${JSON.stringify(op)}.`,
  );
}

function taskChange(input: Record<string, unknown>): TaskChange {
  const { id, add_blocked_by, remove_blocked_by, add_blocks, remove_blocks, ...given } = checkedInput(
    TASK_UPDATE,
    input,
  );
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
