import { describe, expect, test } from "bun:test";
import {
  created,
  EMPTY,
  type NewTask,
  type TaskChange,
  type TaskDocument,
  updated,
} from "../../plugins/tasks/list.ts";
import { checklistOf, listText } from "../../plugins/tasks/operations.ts";
import { type Code, type Store, SyscallError } from "../../src/plugin/index.ts";
import { describePlugin } from "../support/conformance/plugin.ts";

const ME = { agent: "coder", uuid: "me", now: "2026-01-01T00:00:00.000Z" };
const OTHER = { ...ME, agent: "tester", uuid: "other" };

function listOf(...tasks: NewTask[]): TaskDocument {
  return tasks.reduce((list, task) => created(list, task, ME).list, EMPTY);
}

function change(list: TaskDocument, ...changes: TaskChange[]): TaskDocument {
  return changes.reduce((before, one) => updated(before, one, ME).list, list);
}

function codeOf(run: () => unknown): Code | "none" {
  try {
    run();
  } catch (error) {
    if (error instanceof SyscallError) return error.code;
    throw error;
  }
  return "none";
}

const [A, B, C] = [{ subject: "a" }, { subject: "b" }, { subject: "c" }];

describe("a task list", () => {
  test("gives each task an id of its own, also after one was deleted", () => {
    const list = change(listOf(A, B), { id: 2, status: "deleted" });
    expect(created(list, C, ME).task.id).toBe(3);
  });

  test("adds a task once for the same call", () => {
    const by = { ...ME, key: "run:1:call" };
    const first = created(EMPTY, A, by);
    expect(created(first.list, A, by)).toEqual(first);
    expect(created(first.list, A, { ...by, key: "run:1:other" }).task.id).toBe(2);
  });

  test("goes through the states, and names who works on a task", () => {
    const list = change(listOf(A), { id: 1, status: "in_progress" });
    expect(list.tasks[0]).toMatchObject({ status: "in_progress", owner: "coder", owner_uuid: "me" });
    expect(change(list, { id: 1, status: "completed" }).tasks[0]).toMatchObject({
      status: "completed",
      owner: "coder",
    });
    expect(change(list, { id: 1, status: "deleted" }).tasks).toEqual([]);
    // The same call, repeated after a crash.
    expect(
      updated(change(list, { id: 1, status: "deleted" }), { id: 1, status: "deleted" }, ME).task,
    ).toBeNull();
  });

  test("does not give a task that one agent works on to another, unless it names the owner", () => {
    const list = change(listOf(A), { id: 1, status: "in_progress" });
    expect(() => updated(list, { id: 1, status: "in_progress" }, OTHER)).toThrow(
      "coder works on task 1 already",
    );
    expect(updated(list, { id: 1, status: "in_progress", owner: "tester" }, OTHER).task?.owner).toBe(
      "tester",
    );
    expect(updated(list, { id: 1, status: "completed" }, OTHER).task?.status).toBe("completed");
  });

  test("links tasks both ways, and loses the links of a deleted one", () => {
    const list = listOf(A, { ...B, blocked_by: [1] }, { ...C, blocks: [1] });
    expect(list.tasks.map(({ blocked_by }) => blocked_by)).toEqual([[3], [1], []]);
    const less = change(list, { id: 1, remove_blocked_by: [3] });
    expect(less.tasks[0]?.blocked_by).toEqual([]);
    expect(change(list, { id: 1, status: "deleted" }).tasks.map(({ blocked_by }) => blocked_by)).toEqual([
      [],
      [],
    ]);
  });

  test.each<[string, TaskChange]>([
    ["itself", { id: 1, add_blocked_by: [1] }],
    ["itself, by blocks", { id: 1, add_blocks: [1] }],
    ["a task that waits for it", { id: 1, add_blocked_by: [2] }],
    ["a task that waits for it over another", { id: 1, add_blocked_by: [3] }],
    ["the same, from the other side", { id: 3, add_blocks: [1] }],
  ])("refuses that a task waits for %s, and changes nothing", (_title, cycle) => {
    const list = listOf(A, { ...B, blocked_by: [1] }, { ...C, blocked_by: [2] });
    const before = JSON.stringify(list);
    expect(codeOf(() => change(list, cycle))).toBe("INVALID");
    expect(JSON.stringify(list)).toBe(before);
  });

  test("names the whole cycle", () => {
    const list = listOf(A, { ...B, blocked_by: [1] }, { ...C, blocked_by: [2] });
    expect(() => change(list, { id: 1, add_blocked_by: [3] })).toThrow(
      "1 waits for 3 waits for 2 waits for 1",
    );
  });

  test.each<[Code, () => unknown]>([
    ["NOT_FOUND", () => change(listOf(A), { id: 2, status: "completed" })],
    ["NOT_FOUND", () => change(listOf(A), { id: 2, status: "deleted" })],
    ["NOT_FOUND", () => listOf({ ...A, blocked_by: [7] })],
    ["INVALID", () => listOf({ subject: " " })],
    ["INVALID", () => listOf({ subject: "x".repeat(201) })],
    ["INVALID", () => listOf({ ...A, description: "x".repeat(2_001) })],
    ["EXHAUSTED", () => listOf(...Array<NewTask>(201).fill(A))],
  ])("fails with %s for what does not fit: %#", (code, run) => expect(codeOf(run)).toBe(code));

  test("is a text for the model, and a list for people", () => {
    const list = change(
      listOf(A, { ...B, blocked_by: [1] }, C, { subject: "d" }),
      { id: 1, status: "in_progress" },
      { id: 3, status: "completed" },
      { id: 4, status: "cancelled" },
    );
    expect(listText(list)).toBe(
      "4 tasks: 1 completed, 1 in progress, 1 pending, 1 cancelled\n[>] 1 a  (coder)\n[ ] 2 b  (blocked by 1)\n[x] 3 c\n[-] 4 d",
    );
    expect(checklistOf(list)).toEqual([
      { text: "a", state: "active", note: "coder" },
      { text: "b", state: "open", note: "blocked by 1" },
      { text: "c", state: "done" },
      { text: "d", state: "dropped" },
    ]);
  });
});

/** Documents in memory, with versions. */
function memoryStore(): Store {
  const texts = new Map<string, string>();
  return {
    read: async (_scope, doc) => {
      const text = texts.get(doc);
      return text === undefined ? null : { text, version: text };
    },
    remove: async () => undefined,
    replace: async (_scope, doc, text, ifVersion) => {
      if ((texts.get(doc) ?? null) !== ifVersion)
        throw new SyscallError("INVALID", "It has changed.", { retryable: true });
      texts.set(doc, text);
      return text;
    },
    path: async (_scope, doc) => `/${doc}`,
    append: async () => {},
    lines: async () => [],
  };
}

describePlugin("tasks", () => import("../../plugins/tasks/index.ts"), {
  setup: () => ({ store: memoryStore() }),
  operations: [
    {
      title: "an empty list says so",
      device: "/dev/tasks",
      input: { op: "task_list" },
      answer: (answer) => expect(answer).toBe("There are no tasks."),
    },
    {
      title: "creates",
      device: "/dev/tasks",
      input: { op: "task_create", subject: "write it", description: "in C" },
      answer: (answer) => expect(answer).toBe("Created: [ ] 1 write it"),
    },
    {
      title: "creates one that is blocked",
      device: "/dev/tasks",
      input: { op: "task_create", subject: "test it", blocked_by: [1] },
      answer: (answer) => expect(answer).toBe("Created: [ ] 2 test it  (blocked by 1)"),
    },
    {
      title: "updates, and says what still blocks",
      device: "/dev/tasks",
      input: { op: "task_update", id: 2, status: "in_progress" },
      answer: (answer) =>
        expect(answer).toStartWith("Updated: [>] 2 test it  (test)\nNote: it is blocked by 1"),
    },
    {
      title: "takes an id that is written as text",
      device: "/dev/tasks",
      input: { op: "task_get", id: "1" },
      answer: (answer) => expect(answer).toContain("in C\n"),
    },
    {
      title: "gets",
      device: "/dev/tasks",
      input: { op: "task_get", id: 1 },
      answer: (answer) => expect(answer).toContain("in C\nblocks: 2\n"),
    },
    {
      title: "is read as JSON",
      device: "/dev/tasks",
      input: null,
      answer: (answer) =>
        expect(JSON.parse(answer)).toMatchObject([
          { id: 1, status: "pending", blocks: [2] },
          { id: 2, status: "in_progress", owner: "test", waits_for: [1] },
        ]),
    },
    {
      title: "one task is read as JSON",
      device: "/dev/tasks/2",
      input: null,
      answer: (answer) => expect(JSON.parse(answer)).toMatchObject({ id: 2 }),
    },
    ...[
      { op: "task_create" },
      { op: "task_create", subject: "a", blocked_by: ["one"] },
      { op: "task_update", id: "one" },
      { op: "task_update", id: 1, status: "done" },
      { op: "task_update", id: 1, add_blocked_by: [2] },
      { op: "task_delete" },
    ].map((input, i) => ({
      title: `refuses what does not fit: ${i}`,
      device: "/dev/tasks",
      input,
      error: "INVALID" as const,
    })),
    {
      title: "names a missing task",
      device: "/dev/tasks",
      input: { op: "task_get", id: 9 },
      error: "NOT_FOUND",
    },
  ],
  unknown: "/dev/tasks/99",
});
