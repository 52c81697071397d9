/** `/dev/tasks`: the task list of a process tree, which its agents share. `/dev/tasks/3` is one task. */

import { definePlugin } from "rnix/plugin";
import { TASK_CREATE, TASK_GET, TASK_LIST, TASK_UPDATE } from "./tools.ts";

export default definePlugin({
  name: "tasks",
  needs: ["store"],
  devices: {
    "/dev/tasks": {
      match: "prefix",
      tools: [TASK_CREATE, TASK_UPDATE, TASK_LIST, TASK_GET],
      factory: async (subpath, _flags, context) => {
        const { openTasks } = await import("./operations.ts");
        return openTasks(subpath, context);
      },
    },
  },
  commands: [
    {
      name: "tasks",
      summary: "Show the tasks of a run and its sub-agents",
      default: "list",
      actions: {
        list: {
          summary: "The tasks of a live or ended run, as its agents see them",
          example: "rnix tasks 3",
          example_about: "every task of process 3, with its state and who works on it",
          args: [{ name: "PID", type: "run", summary: "the run; the project's last one by default" }],
          call: { path: "/dev/tasks" },
          output: {
            columns: [
              { title: "ID", field: "id" },
              { title: "STATUS", field: "status" },
              { title: "OWNER", field: "owner" },
              { title: "WAITS FOR", field: "waits_for" },
              { title: "CHANGED", field: "updated_at", as: "age" },
              { title: "TASK", field: "subject" },
            ],
            empty: "the run has no tasks",
          },
        },
      },
    },
  ],
});
