/** The table of the server's methods, and the call of one by a request's frame. */

import { lazy } from "../../lib/caches.ts";
import { messageOf, stackOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Frame } from "../../protocol/frame.ts";
import { MAX_REQUEST_BYTES, Request, type WireError } from "../../protocol/methods.ts";
import type { Caller, Next, Peer, UnitOf } from "../connection/connection.ts";
import type { Services } from "../services.ts";
import { type Call, describeIssue, type PlainDefinition, type StreamDefinition } from "./method.ts";

/**
 * All methods by their names in the protocol. Each has its own file with payload, answer and handler, which is loaded at
 * its first call: most servers answer a few methods only.
 */
export const METHODS = {
  ping: async () => (await import("./ping.ts")).ping,
  spawn: lazy(async () => (await import("./spawn.ts")).spawn),
  list_procs: async () => (await import("./list-procs.ts")).listProcs,
  list_all_procs: async () => (await import("./list-all-procs.ts")).listAllProcs,
  last_run: async () => (await import("./last-run.ts")).lastRun,
  kill: async () => (await import("./kill.ts")).kill,
  signal_tree: async () => (await import("./signal-tree.ts")).signalTree,
  suspend: async () => (await import("./suspend.ts")).suspend,
  compact: async () => (await import("./compact.ts")).compact,
  resume: async () => (await import("./resume.ts")).resume,
  replay: async () => (await import("./replay.ts")).replay,
  compare_runs: async () => (await import("./compare-runs.ts")).compareRuns,
  export_script: async () => (await import("./export-script.ts")).exportScript,
  export_html: async () => (await import("./export-html.ts")).exportHtml,
  background_call: async () => (await import("./background-call.ts")).backgroundCall,
  stop_unit: async () => (await import("./stop-unit.ts")).stopUnit,
  unit_output: async () => (await import("./unit-output.ts")).unitOutput,
  allow: async () => (await import("./allow.ts")).allow,
  deny: async () => (await import("./deny.ts")).deny,
  list_asks: async () => (await import("./list-asks.ts")).listAsks,
  morning: async () => (await import("./morning.ts")).morning,
  answer_user: async () => (await import("./answer-user.ts")).answerUser,
  watch_procs: async () => (await import("./watch-procs.ts")).watchProcs,
  wait: async () => (await import("./wait.ts")).wait,
  send_message: async () => (await import("./send-message.ts")).sendMessage,
  take_back_message: async () => (await import("./take-back-message.ts")).takeBackMessage,
  interrupt: async () => (await import("./interrupt.ts")).interrupt,
  set_model: async () => (await import("./set-model.ts")).setModel,
  set_mode: async () => (await import("./set-mode.ts")).setMode,
  end_chat: async () => (await import("./end-chat.ts")).endChat,
  attach: async () => (await import("./attach.ts")).attach,
  attach_debug: async () => (await import("./attach-debug.ts")).attachDebug,
  attach_log: async () => (await import("./attach-log.ts")).attachLog,
  run_events: async () => (await import("./run-events.ts")).runEvents,
  list_events: async () => (await import("./list-events.ts")).listEvents,
  list_steps: async () => (await import("./list-steps.ts")).listSteps,
  get_step_detail: async () => (await import("./get-step-detail.ts")).getStepDetail,
  get_step_prompt: async () => (await import("./get-step-prompt.ts")).getStepPrompt,
  get_proc_detail: async () => (await import("./get-proc-detail.ts")).getProcDetail,
  show: async () => (await import("./show.ts")).show,
  show_workflow: async () => (await import("./show-workflow.ts")).showWorkflow,
  diff: async () => (await import("./diff.ts")).diff,
  take: async () => (await import("./take.ts")).take,
  undo: async () => (await import("./undo.ts")).undo,
  require_person: async () => (await import("./require-person.ts")).requirePerson,
  require_files: async () => (await import("./require-files.ts")).requireFiles,
  call: async () => (await import("./call.ts")).call,
  login_mcp: async () => (await import("./login-mcp.ts")).loginMcp,
  test_mcp: async () => (await import("./test-mcp.ts")).testMcp,
  list_plugins: async () => (await import("./list-plugins.ts")).listPlugins,
  list_commands: async () => (await import("./list-commands.ts")).listCommands,
  list_tools: async () => (await import("./list-tools.ts")).listTools,
  list_agents: async () => (await import("./list-agents.ts")).listAgents,
  list_skills: async () => (await import("./list-skills.ts")).listSkills,
  list_providers: async () => (await import("./list-providers.ts")).listProviders,
  list_models: async () => (await import("./list-models.ts")).listModels,
  try_model: async () => (await import("./try-model.ts")).tryModel,
  gc: async () => (await import("./gc.ts")).gc,
  daemon_status: async () => (await import("./daemon-status.ts")).daemonStatus,
  open_dashboard: async () => (await import("./open-dashboard.ts")).openDashboard,
  shutdown: async () => (await import("./shutdown.ts")).shutdown,
};

type Methods = { [M in keyof typeof METHODS]: Awaited<ReturnType<(typeof METHODS)[M]>> };

export type Method = keyof Methods;

/** What a request of the method brings. */
export type Payload<M extends Method> = Parameters<Methods[M]["handle"]>[0];

export type StreamingMethod = {
  [M in Method]: Methods[M]["streaming"] extends true ? M : never;
}[Method];

export type PlainMethod = Exclude<Method, StreamingMethod>;

/** What each method answers in `payload`. A streaming method answers this first, then its events. */
export type Answers = {
  [M in Method]: Methods[M] extends
    | PlainDefinition<Payload<M>, infer A>
    | StreamDefinition<Payload<M>, infer A>
    ? A
    : never;
};

/** Maximum levels of nesting in a request. */
const MAX_LEVELS = 1_000;

/**
 * Handles one request line. An invalid line or a failed method is answered with the error, and the connection stays
 * open. Only a disconnect of the client ends it early.
 */
export async function dispatch(
  frame: Frame,
  { peer, unitOf, service }: { peer: Peer; unitOf: UnitOf; service: Caller["service"] },
  services: Services,
  take: () => void,
): Promise<Next> {
  const request = read(frame);
  if ("code" in request) return answer(peer, { ok: false, error: request });
  const { method, id } = request;
  const unit = () => unitOf(request.unit);
  const call: Call = {
    payload: request.payload ?? {},
    services: Object.create(services, { viewer: { value: unit } }),
    caller: { unit, service, gone: peer.gone },
    peer,
    id,
    take,
    accepted: false,
  };
  try {
    if (!isMethod(method)) {
      return await answer(peer, { ok: false, error: unknownMethod(method), ...(id !== undefined && { id }) });
    }
    const { run, closes } = await METHODS[method]();
    await run(call);
    return call.accepted || closes ? "close" : "next";
  } catch (error) {
    if (peer.gone.aborted) return "close";
    const failure = toWire(error, services);
    if (!call.accepted)
      return await answer(peer, { ok: false, error: failure, ...(id !== undefined && { id }) });
    // The stream ends incomplete: the client sees that, and the log has the reason.
    services.logger.warn("server", `the stream of ${method} was cut: ${failure.code} ${failure.message}`);
    return "close";
  }
}

async function answer(
  peer: Peer,
  line: { ok: false; error: WireError; id?: string | number },
): Promise<Next> {
  if (peer.gone.aborted) return "close";
  await peer.send(line).catch((error: unknown) => {
    if (!peer.gone.aborted) throw error;
  });
  return peer.gone.aborted ? "close" : "next";
}

function read(frame: Frame): Request | WireError {
  if (frame.kind === "too_large") {
    return {
      code: "TOO_LARGE",
      message: `A request line may hold ${MAX_REQUEST_BYTES} bytes; this one is longer. Put large input into a file and name it.`,
    };
  }
  if (frame.kind === "no_room") {
    return {
      code: "EXHAUSTED",
      message: "The unfinished requests of all clients exceed the memory limit. Try again in a moment.",
    };
  }
  if (frame.kind === "not_utf8") return badRequest("The line is not valid UTF-8.");
  if (isDeeper(frame.text, MAX_LEVELS))
    return badRequest(`The line has more than ${MAX_LEVELS} levels of lists and objects.`);
  let value: unknown;
  try {
    value = JSON.parse(frame.text);
  } catch (error) {
    return badRequest(`The line is not JSON: ${messageOf(error)}.`);
  }
  const request = Request.safeParse(value);
  return request.success ? request.data : badRequest(describeIssue(request.error, value));
}

function badRequest(what: string): WireError {
  return {
    code: "BAD_REQUEST",
    message: `${what} Expected one JSON object per line: {"method": "ping", "payload": {…}}.`,
  };
}

function unknownMethod(method: string): WireError {
  return {
    code: "UNKNOWN_METHOD",
    message: `Unknown method "${method}". Expected one of: ${Object.keys(METHODS).join(", ")}.`,
  };
}

function isMethod(name: string): name is Method {
  return Object.hasOwn(METHODS, name);
}

function toWire(error: unknown, services: Services): WireError {
  if (error instanceof SyscallError) {
    const { code, message, syscall, device } = error;
    return { code, message, ...(syscall && { syscall }), ...(device && { device }) };
  }
  services.logger.warn("server", `a fault of rnix itself: ${stackOf(error)}`);
  return {
    code: "INTERNAL",
    message: `A fault of rnix itself: ${messageOf(error)}. \`rnix daemon logs\` has more.`,
  };
}

const QUOTE = 34;
const BACKSLASH = 92;
const OPEN_LIST = 91;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/** Whether the JSON has more than `most` levels. Parsing and checking a value of 100,000 levels blocks for a second. */
export function isDeeper(json: string, most: number): boolean {
  // Each level has two brackets.
  if (json.length <= 2 * most) return false;
  let levels = 0;
  let inString = false;
  for (let at = 0; at < json.length; at++) {
    const char = json.charCodeAt(at);
    if (inString) {
      if (char === BACKSLASH) at++;
      else if (char === QUOTE) inString = false;
    } else if (char === QUOTE) inString = true;
    else if (char === OPEN_LIST || char === OPEN_OBJECT) {
      if (++levels > most) return true;
    } else if (char === CLOSE_LIST || char === CLOSE_OBJECT) levels--;
  }
  return false;
}
