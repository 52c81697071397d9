/** The tools of `rnix mcp serve`: each is a request of the protocol, made for an MCP client. */

import { z } from "zod";
import { fromWire, type Stream } from "../../client/client.ts";
import { SIGINT, SIGKILL, SIGTERM } from "../../lib/signals.ts";
import { objectOf, optionOf } from "../../options/option-list.ts";
import { optionSchemas } from "../../options/option-schemas.ts";
import { SyscallError } from "../../plugin/index.ts";
import { Listing } from "../../protocol/fields.ts";
import type { ListedProc, Receipt, StreamEvent } from "../../protocol/methods.ts";
import { AskAnswer } from "../../run/ask-schema.ts";
import { cronRequest } from "../cron/call.ts";
import { usageError } from "../exit.ts";
import { type Io, project, type Session } from "../io.ts";
import { oneLine } from "../output/format.ts";
import { target } from "../processes/target.ts";

/** What a tool answers: its text, and the same as data. */
export interface Served {
  text?: string;
  data: object;
  failed?: boolean;
}

interface ServedCall extends RunPorts {
  io: Io;
}

interface Tool<I> {
  description: string;
  input: z.ZodType<I>;
  readOnly?: true;
  /** Only with `--answers`. */
  answers?: true;
  run(input: I, call: ServedCall): Promise<Served>;
}

export type ServedTool = Tool<unknown>;

/** The options of a run that a client can set. What a project brings is trusted by a person alone. */
const OPTIONS = [
  ...([
    "agent",
    "provider",
    "model",
    "effort",
    "max_steps",
    "context_budget",
    "max_cost",
    "timeout_ms",
  ] as const),
  ...(["allow", "deny", "ask", "on_ask", "mcp", "skill", "check", "output_schema"] as const),
];

/** Lines of a log, and rows of a list, by default. */
const LINES = 200;
const ROWS = 50;
const INTENT_CHARS = 300;
const SIGNALS = { TERM: SIGTERM, KILL: SIGKILL, INT: SIGINT };

/** Made when the server starts: schemas take time to build. */
export function servedTools(): Record<string, ServedTool> {
  const run = z.string().describe("A PID, a UUID or the beginning of one.");
  const cwd = z.string().optional().describe("The project's folder; by default the folder of this server.");
  const options = runOptions();
  const job = z.string().min(1).describe("The job's name.");
  return {
    spawn: tool({
      description:
        "Run an agent on a task. Waits for its end and returns its answer and receipt; cancelling the call ends the run. With wait: false returns its PID at once, and the run goes on by itself.",
      input: z.object({
        intent: z.string().min(1).describe("The task, complete in itself."),
        wait: z.boolean().default(true),
        cwd,
        ...options,
      }),
      async run({ wait, ...request }, call) {
        const wire = await call.session.connect();
        const { cwd: folder, env } = project(call.io);
        const payload = { ...request, cwd: request.cwd ?? folder, env };
        const stream = await wire.open("spawn", wait ? payload : { ...payload, detach: true });
        return wait ? ended(await runToEnd(stream, call)) : { data: stream.answer };
      },
    }),
    wait: tool({
      description: "Wait for the end of a run and return its answer. Cancelling the call ends only the wait.",
      input: z.object({ run, timeout_ms: z.int().positive().optional() }),
      readOnly: true,
      async run(input, { io, session, signal }) {
        const wire = await session.connect();
        signal.addEventListener("abort", () => wire.close(), { once: true });
        const payload = { ...target(io, input.run), timeout_ms: input.timeout_ms };
        return ended(await wire.request("wait", payload, { timeoutMs: null }));
      },
    }),
    ps: tool({
      description:
        "List the newest runs of this project: live ones, with all: true also ended and suspended ones.",
      input: Listing()
        .pick({ agent: true, status: true, all_projects: true, limit: true, since_ms: true })
        .extend({ all: z.boolean().optional(), cwd }),
      readOnly: true,
      async run({ all, ...query }, { io, session }) {
        const wire = await session.connect();
        const payload = { limit: ROWS, ...query, cwd: query.cwd ?? io.cwd, newest: true };
        const { processes } = all
          ? await wire.request("list_all_procs", payload)
          : await wire.request("list_procs", { ...payload, waiting: true });
        return { data: { processes: processes.map(row) } };
      },
    }),
    log: tool({
      description: "Read what a run has done: the last lines of its texts, tool calls and results.",
      input: z.object({ run, lines: z.int().positive().max(5_000).default(LINES) }),
      readOnly: true,
      async run({ run: named, lines }, { io, session }) {
        const wire = await session.connect();
        const entries: string[] = [];
        for await (const event of await wire.open("attach_log", { ...target(io, named), follow: false })) {
          if (event.type !== "log_entry") continue;
          const { step, kind, text } = event.payload;
          entries.push(...`[${step}] ${kind}: ${text}`.split("\n"));
          entries.splice(0, entries.length - lines);
        }
        return { text: entries.join("\n"), data: { lines: entries } };
      },
    }),
    kill: tool({
      description: "End a run and everything that it has spawned.",
      input: z.object({ run, signal: z.enum(["TERM", "KILL", "INT"]).default("TERM") }),
      async run(input, { io, session }) {
        const payload = { ...target(io, input.run), signal: SIGNALS[input.signal] };
        return { data: await (await session.connect()).request("signal_tree", payload) };
      },
    }),
    asks: tool({
      description: "List the questions of runs that wait for the user's answer. The user answers them.",
      input: z.object({}),
      readOnly: true,
      run: async (_, { session }) => ({ data: await (await session.connect()).request("list_asks", {}) }),
    }),
    answer: tool({
      description: "Give the user's answer to a question that asks lists. Ask the user first.",
      input: z.object({ request_id: z.string().min(1), answers: z.array(AskAnswer).min(1).max(20) }),
      answers: true,
      async run(input, { io, session }) {
        const payload = { ...input, via: "MCP client", env: project(io).env };
        return { data: await (await session.connect()).request("answer_user", payload) };
      },
    }),
    memory_recall: tool({
      description: "Search what agents remember of this project, and the conversations of its past runs.",
      input: z.object({ query: z.string().min(1), max_results: z.int().positive().max(100).optional(), cwd }),
      readOnly: true,
      run: ({ cwd: folder, ...input }, call) => device(call, { tool: "MemoryRecall", input }, folder),
    }),
    memory_read: tool({
      description:
        "Read the entries that agents remember: of this project, of all projects, or the user's profile.",
      input: z.object({ scope: z.enum(["project", "global", "profile"]).default("project"), cwd }),
      readOnly: true,
      run: ({ scope, cwd: folder }, call) => {
        const input = { action: "show", as: "text", ...(scope !== "project" && { [scope]: true }) };
        return device(call, { path: "/dev/memory/commit", input: JSON.stringify(input) }, folder);
      },
    }),
    cron_list: tool({
      description: "List the scheduled jobs of this project: when each runs next, how its last run ended.",
      input: z.object({ all_projects: z.boolean().optional(), cwd }),
      readOnly: true,
      run: ({ cwd: folder, ...input }, call) => cron(call, "list", input, folder),
    }),
    cron_add: tool({
      description: "Schedule a job: a run of an agent at each of its times.",
      input: z.object({
        name: job,
        intent: z.string().min(1).describe("What each run should do, complete in itself."),
        trigger: z
          .union([
            z.object({ cron: z.string(), tz: z.string().optional() }),
            z.object({ every: z.string() }),
            z.object({ at: z.string(), tz: z.string().optional() }),
            z.object({ on_change: z.array(z.string()) }),
            z.object({ after: z.string() }),
          ])
          .describe('Such as {"cron": "0 9 * * 1-5"}, {"every": "2h"} or {"at": "2027-01-05T09:00"}.'),
        ...options,
        expires_at: z.string().optional(),
        replace: z.boolean().optional(),
        cwd,
      }),
      run: ({ name, intent, trigger, expires_at, replace, cwd: folder, ...given }, call) =>
        cron(call, "add", { job: { name, intent, trigger, expires_at, replace, run: given } }, folder),
    }),
    cron_remove: tool({
      description: "Remove a scheduled job; its history stays.",
      input: z.object({ name: job, cwd }),
      run: ({ name, cwd: folder }, call) => cron(call, "remove", { name }, folder),
    }),
    cron_run: tool({
      description: "Run a scheduled job once now.",
      input: z.object({ name: job, cwd }),
      run: ({ name, cwd: folder }, call) => cron(call, "run", { name }, folder),
    }),
  };
}

/** The options with their help as descriptions. */
function runOptions() {
  const schemas = optionSchemas(OPTIONS);
  return objectOf<typeof schemas>(
    OPTIONS.map((name) => {
      const help = name === "timeout_ms" ? "maximum running time in milliseconds" : optionOf(name).help.spawn;
      return [name, schemas[name].describe(help ?? "")];
    }),
  );
}

/** Checks the input of a call by the tool's schema. */
function tool<I>({ run, ...rest }: Tool<I>): ServedTool {
  return {
    ...rest,
    async run(input, call) {
      const parsed = rest.input.safeParse(input);
      if (!parsed.success) throw usageError(z.prettifyError(parsed.error));
      return run(parsed.data, call);
    },
  };
}

/** A run that did not succeed is a failed call, whose text says how it ended. */
function ended(receipt: Receipt): Served {
  const { result, error, exit_code, exit_reason, pid } = receipt;
  if (exit_code === 0) return { text: result ?? "", data: receipt };
  const why = [`Process ${pid}: ${exit_reason} (exit ${exit_code}).`, error?.message, result];
  return { text: why.filter(Boolean).join("\n"), data: receipt, failed: true };
}

function row({ pid, uuid, agent, model, status, intent, doing, tokens_used, exit_reason }: ListedProc) {
  const texts = { intent: oneLine(intent, INTENT_CHARS), doing: doing?.text };
  return { pid, uuid, agent, model, status, ...texts, tokens_used, exit_reason };
}

/** Calls a tool or a path without a model, as `rnix call` does. */
async function device(
  { io, session }: ServedCall,
  wanted: { tool: string; input: Record<string, unknown> } | { path: string; input: string },
  cwd: string | undefined,
): Promise<Served> {
  const wire = await session.connect();
  const payload = { ...project(io), ...(cwd !== undefined && { cwd }), ...wanted };
  const { result, error, error_code } = await wire.request("call", payload, { timeoutMs: null });
  if (error !== null) throw new SyscallError(error_code ?? "DRIVER", error);
  return { text: result ?? "", data: { text: result ?? "" } };
}

/** An operation of /dev/cron. The secrets of hooks are for the user. */
async function cron(
  { io, session }: ServedCall,
  op: string,
  input: Record<string, unknown>,
  cwd = io.cwd,
): Promise<Served> {
  const wire = await session.connect();
  const result = await cronRequest<unknown>(wire, { ...project(io), cwd }, { op, ...input });
  const open = JSON.stringify(result, (key, value) => (key === "hook" ? undefined : value));
  return { data: { result: JSON.parse(open) } };
}

/** Clients take silence for the end of a call: they get what the run does at least this often. */
const PROGRESS_MS = 15_000;

export interface RunPorts {
  session: Session;
  /** The client has cancelled the call, or is gone. */
  signal: AbortSignal;
  progress(message: string): void;
}

/** Returns the receipt at the run's end. Cancelling the call ends the run, with all that it has spawned. */
export async function runToEnd(stream: Stream<"spawn">, ports: RunPorts): Promise<Receipt> {
  const { uuid, pid } = stream.answer;
  const { signal, session } = ports;
  const killed = Promise.withResolvers<unknown>();
  const kill = async (): Promise<unknown> =>
    (await session.connect()).request("signal_tree", { uuid, signal: SIGTERM });
  const cancel = (): void => void kill().then(killed.resolve, killed.reject);
  signal.addEventListener("abort", cancel, { once: true });
  if (signal.aborted) cancel();
  let doing = `process ${pid}`;
  const timer = setInterval(() => ports.progress(doing), PROGRESS_MS);
  try {
    for await (const event of stream) {
      if (event.type === "complete") return event.payload;
      if (event.type === "error")
        throw fromWire({ code: event.payload.code, message: event.payload.error_message });
      const text = progressText(event);
      if (text === undefined) continue;
      doing = text;
      ports.progress(doing);
    }
    throw new SyscallError("UNAVAILABLE", `Process ${pid} has no end: the daemon closed its stream.`);
  } finally {
    clearInterval(timer);
    signal.removeEventListener("abort", cancel);
    if (signal.aborted) await killed.promise;
  }
}

function progressText({ type, payload }: StreamEvent): string | undefined {
  if (type !== "progress") return undefined;
  if (payload.event === "step") return `step ${payload.step}`;
  if (payload.event === "activity") return payload.activity.text;
  return payload.event === "notice" ? payload.text : undefined;
}
