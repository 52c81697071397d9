/** The definitions of the task tools: TaskCreate, TaskUpdate, TaskList and TaskGet. */

import type { ToolDef } from "rnix/plugin";
import { STATUSES } from "./list.ts";

/** A number. Models also write it as text. */
const ID = { type: ["integer", "string"], minimum: 1, pattern: "^[1-9][0-9]{0,8}$" } as const;
const CHANGES = [...STATUSES, "deleted"] as const;
const IDS = { type: "array", items: ID, maxItems: 50 } as const;

export const TASK_CREATE = {
  name: "TaskCreate",
  op: "task_create",
  defer: true,
  description:
    "Add a task to the list that you share with your sub-agents; the user sees it. Use it for work of three steps or more.",
  input: {
    type: "object",
    properties: {
      subject: { type: "string", minLength: 1, description: "What is to be done, in a few words." },
      description: { type: "string" },
      owner: { type: "string", description: "Who should do it." },
      blocked_by: { ...IDS, description: "Tasks to be completed before it." },
      blocks: { ...IDS, description: "Tasks that wait for it." },
    },
    required: ["subject"],
    additionalProperties: false,
  },
  annotations: { destructiveHint: false, idempotentHint: true, openWorldHint: false },
} as const satisfies ToolDef;

export const TASK_UPDATE = {
  name: "TaskUpdate",
  op: "task_update",
  defer: true,
  description:
    "Change a task: set it in_progress when you start it, and completed as soon as it is done. `deleted` removes it.",
  input: {
    type: "object",
    properties: {
      id: ID,
      status: { type: "string", enum: CHANGES },
      subject: { type: "string", minLength: 1 },
      description: { type: "string" },
      owner: { type: "string", description: '"" removes the owner.' },
      add_blocked_by: IDS,
      remove_blocked_by: IDS,
      add_blocks: IDS,
      remove_blocks: IDS,
    },
    required: ["id"],
    additionalProperties: false,
  },
  annotations: { destructiveHint: false, idempotentHint: true, openWorldHint: false },
} as const satisfies ToolDef;

export const TASK_LIST = {
  name: "TaskList",
  op: "task_list",
  defer: true,
  description: "List the tasks of you and your sub-agents, with status, owner and what blocks them.",
  input: {
    type: "object",
    properties: { status: { type: "string", enum: STATUSES } },
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true, idempotentHint: true },
} as const satisfies ToolDef;

export const TASK_GET = {
  name: "TaskGet",
  op: "task_get",
  defer: true,
  description: "Read one task with its description and its links.",
  input: { type: "object", properties: { id: ID }, required: ["id"], additionalProperties: false },
  annotations: { readOnlyHint: true, idempotentHint: true },
} as const satisfies ToolDef;
