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
import { isObject } from "./_lib/json.ts";

const ID = { type: "string", minLength: 1, description: "Such as b0k3x9q2a." };

const TOOLS: ToolDef[] = [
  {
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
  },
  {
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
  },
  {
    name: "DaemonOutput",
    op: "daemon_output",
    description: "Read the output of a background unit, also after its end.",
    input: {
      type: "object",
      properties: {
        daemon_id: ID,
        tail: { type: "integer", minimum: 1, description: "Only its last lines." },
      },
      required: ["daemon_id"],
      additionalProperties: false,
    },
    maxResult: 70_000,
    defer: true,
    annotations: { readOnlyHint: true, idempotentHint: true },
  },
];

/** Seed `daemon`: a write of `{op, …}` is one operation, a read lists the units as JSON. */
export default definePlugin({
  name: "daemons",
  api: 1,
  needs: ["units"],
  devices: {
    "/dev/daemons": {
      tools: TOOLS,
      factory: (_subpath, _flags, context) =>
        new AnswerFile({
          device: "/dev/daemons",
          answer: (request) => answer(request, unitsOf(context)),
          content: async () =>
            `${JSON.stringify(await unitsOf(context).list({ terminal: true }), null, 2)}\n`,
        }),
    },
  },
});

async function answer(text: string, units: Units): Promise<string> {
  const request = parse(text);
  switch (request.op) {
    case "daemon_list": {
      const kind = DAEMON_KINDS.find((one) => one === request.kind);
      if (request.kind !== undefined && kind === undefined) {
        throw invalid(`kind must be one of ${DAEMON_KINDS.join(", ")}, not ${JSON.stringify(request.kind)}`);
      }
      const found = await units.list({ kind, terminal: request.include_terminal === true });
      return found.length === 0 ? "no daemons" : found.map(listed).join("\n");
    }
    case "daemon_stop":
      return stop(idOf(request), units);
    case "daemon_output": {
      const { snapshot, text: output } = await units.output(idOf(request));
      return `${listed(snapshot)}\n---\n${lastLines(output, request.tail)}`;
    }
    default:
      throw invalid(
        `op must be daemon_list, daemon_stop or daemon_output, not ${JSON.stringify(request.op)}`,
      );
  }
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

function lastLines(text: string, tail: unknown): string {
  if (tail === undefined) return text;
  if (typeof tail !== "number" || !Number.isInteger(tail) || tail < 1)
    throw invalid(`tail must be a whole number of at least 1, not ${JSON.stringify(tail)}`);
  return text.replace(/\n$/, "").split("\n").slice(-tail).join("\n");
}

function idOf({ daemon_id: id }: Record<string, unknown>): string {
  if (typeof id === "string" && id !== "") return id;
  throw invalid("expected the id of a unit in daemon_id");
}

function parse(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new SyscallError("INVALID", '/dev/daemons: expected JSON such as {"op": "daemon_list"}.', {
      cause,
    });
  }
  if (isObject(value)) return value;
  throw invalid("expected a JSON object");
}

function invalid(what: string): SyscallError {
  return new SyscallError("INVALID", `/dev/daemons: ${what}.`);
}

function unitsOf({ units }: OpenContext): Units {
  if (units) return units;
  throw new SyscallError("UNAVAILABLE", "/dev/daemons: only a run has background units.");
}
