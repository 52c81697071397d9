/** The driver of /dev/daemons: the background units of a run, and the tool Monitor, which starts one. */

import {
  DAEMON_KINDS,
  type DaemonSnapshot,
  definePlugin,
  type OpenContext,
  SyscallError,
  type ToolDef,
  type Units,
} from "rnix/plugin";
import { AnswerFile } from "./_lib/answer-file.ts";
import { answerRequest, type Operation, operation } from "./_lib/operations.ts";

const ID = { type: "string", minLength: 1, description: "Such as b0k3x9q2a." } as const;

const DAEMON_LIST = {
  name: "DaemonList",
  op: "daemon_list",
  description: "List your background units: commands, agents, monitors, language servers.",
  input: {
    type: "object",
    properties: {
      kind: { type: "string", enum: DAEMON_KINDS },
      include_terminal: { type: "boolean", description: "Also those that have ended." },
    },
    additionalProperties: false,
  },
  defer: true,
  annotations: { readOnlyHint: true, idempotentHint: true },
} as const satisfies ToolDef;

const DAEMON_STOP = {
  name: "DaemonStop",
  op: "daemon_stop",
  description: "End a background unit. A message follows when it has ended.",
  input: {
    type: "object",
    properties: { daemon_id: ID },
    required: ["daemon_id"],
    additionalProperties: false,
  },
  defer: true,
  annotations: { idempotentHint: true },
} as const satisfies ToolDef;

const DAEMON_OUTPUT = {
  name: "DaemonOutput",
  op: "daemon_output",
  description: "Read the output of a background unit, also after its end.",
  input: {
    type: "object",
    properties: { daemon_id: ID, tail: { type: "integer", minimum: 1, description: "Only its last lines." } },
    required: ["daemon_id"],
    additionalProperties: false,
  },
  maxResult: 70_000,
  defer: true,
  annotations: { readOnlyHint: true, idempotentHint: true },
} as const satisfies ToolDef;

/** Seed `daemon`: a write of `{op, …}` is one operation, a read lists the units as JSON. */
export default definePlugin({
  name: "daemons",
  api: 1,
  needs: ["units"],
  devices: {
    "/dev/daemons": {
      tools: [DAEMON_LIST, DAEMON_STOP, DAEMON_OUTPUT],
      factory: (_subpath, _flags, context) =>
        new AnswerFile({
          device: "/dev/daemons",
          answer: async (text) => answerRequest("/dev/daemons", text, operationsOf(unitsOf(context))),
          content: async () =>
            `${JSON.stringify(await unitsOf(context).list({ terminal: true }), null, 2)}\n`,
        }),
    },
  },
});

function operationsOf(units: Units): Operation[] {
  return [
    operation(DAEMON_LIST, async ({ kind, include_terminal = false }) => {
      const found = await units.list({ kind, terminal: include_terminal });
      return found.length === 0 ? "no daemons" : found.map(listed).join("\n");
    }),
    operation(DAEMON_STOP, ({ daemon_id }) => stop(daemon_id, units)),
    operation(DAEMON_OUTPUT, async ({ daemon_id, tail }) => {
      const { snapshot, text } = await units.output(daemon_id);
      return `${listed(snapshot)}\n---\n${tail === undefined ? text : lastLines(text, tail)}`;
    }),
  ];
}

/** A unit that has ended already is no error: it is what was wanted. */
async function stop(id: string, units: Units): Promise<string> {
  try {
    await units.stop(id);
  } catch (thrown) {
    if (thrown instanceof SyscallError && thrown.code === "CLOSED")
      return `${thrown.message} Nothing was done.`;
    throw thrown;
  }
  return `Unit ${id} is terminating; you will receive its end when it has ended.`;
}

function listed(snapshot: DaemonSnapshot): string {
  const { id, kind, status, description, started_at } = snapshot;
  return `- ${id} [${kind}/${status}] ${description} started=${started_at}${extras(snapshot)}`;
}

function extras(snapshot: DaemonSnapshot): string {
  switch (snapshot.kind) {
    case "local_bash":
      return snapshot.metadata.exit_code === null ? "" : ` exit=${snapshot.metadata.exit_code}`;
    case "local_agent":
      return ` type=${snapshot.metadata.agent_type}${snapshot.metadata.async ? " async" : ""}`;
    case "monitor":
      return ` events=${snapshot.metadata.event_count}`;
    case "lsp":
      return ` server=${snapshot.metadata.server_name} state=${snapshot.metadata.state}`;
    default:
      return "";
  }
}

function lastLines(text: string, count: number): string {
  return text.replace(/\n$/, "").split("\n").slice(-count).join("\n");
}

function unitsOf({ units }: OpenContext): Units {
  if (units) return units;
  throw new SyscallError("UNAVAILABLE", "/dev/daemons: only a run has background units.");
}
