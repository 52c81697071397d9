import type { z } from "zod";
import { SyscallError } from "../../plugin/index.ts";
import type { Frame } from "../../protocol/frame.ts";
import { MAX_REQUEST_BYTES, METHODS, type Method, Request, type WireError } from "../../protocol/methods.ts";
import type { Caller, UnitOf } from "../connection/caller.ts";
import type { Next, Peer } from "../connection/connection.ts";
import type { StreamReply } from "../connection/stream-reply.ts";
import type { Services } from "../services.ts";
import { attach } from "./attach.ts";
import { attachDebug } from "./attach-debug.ts";
import { attachLog } from "./attach-log.ts";
import { compact } from "./compact.ts";
import { daemonStatus } from "./daemon-status.ts";
import { exportScript } from "./export-script.ts";
import { gc } from "./gc.ts";
import { kill } from "./kill.ts";
import { listAgents } from "./list-agents.ts";
import { listEvents } from "./list-events.ts";
import { listPlugins } from "./list-plugins.ts";
import { listAllProcs, listProcs } from "./list-procs.ts";
import { listProviders } from "./list-providers.ts";
import { listSkills } from "./list-skills.ts";
import { listTools } from "./list-tools.ts";
import { ping } from "./ping.ts";
import { compareRuns, replay } from "./replay.ts";
import { resume } from "./resume.ts";
import { allow, deny } from "./rights.ts";
import { show } from "./show.ts";
import { shutdown } from "./shutdown.ts";
import { signalTree } from "./signal-tree.ts";
import { spawn } from "./spawn.ts";
import { getStepDetail, listSteps } from "./steps.ts";
import { suspend } from "./suspend.ts";
import { wait } from "./wait.ts";

/** A plain method looks up, checks, acts and returns its answer. */
type Plain<P, A> = (payload: P, system: Services, caller: Caller) => A | Promise<A>;

/** A streaming one throws as long as nothing is `accept`ed; after that it only sends, and the connection ends with it. */
type Streaming<P, A> = (payload: P, system: Services, out: StreamReply<A>, caller: Caller) => Promise<void>;

/** Every method and who handles it. */
const TABLE: Record<Method, Entry> = {
  ping: plain(METHODS.ping.payload, ping),
  spawn: streaming(METHODS.spawn.payload, spawn),
  list_procs: plain(METHODS.list_procs.payload, listProcs),
  list_all_procs: plain(METHODS.list_all_procs.payload, listAllProcs),
  kill: plain(METHODS.kill.payload, kill),
  signal_tree: plain(METHODS.signal_tree.payload, signalTree),
  suspend: plain(METHODS.suspend.payload, suspend),
  compact: plain(METHODS.compact.payload, compact),
  resume: streaming(METHODS.resume.payload, resume),
  replay: streaming(METHODS.replay.payload, replay),
  compare_runs: plain(METHODS.compare_runs.payload, compareRuns),
  export_script: plain(METHODS.export_script.payload, exportScript),
  allow: plain(METHODS.allow.payload, allow),
  deny: plain(METHODS.deny.payload, deny),
  wait: plain(METHODS.wait.payload, wait),
  attach: streaming(METHODS.attach.payload, attach),
  attach_debug: streaming(METHODS.attach_debug.payload, attachDebug),
  attach_log: streaming(METHODS.attach_log.payload, attachLog),
  list_events: plain(METHODS.list_events.payload, listEvents),
  list_steps: plain(METHODS.list_steps.payload, listSteps),
  get_step_detail: plain(METHODS.get_step_detail.payload, getStepDetail),
  get_proc_detail: plain(METHODS.get_proc_detail.payload, show),
  show: plain(METHODS.show.payload, show),
  list_plugins: plain(METHODS.list_plugins.payload, listPlugins),
  list_tools: plain(METHODS.list_tools.payload, listTools),
  list_agents: plain(METHODS.list_agents.payload, listAgents),
  list_skills: plain(METHODS.list_skills.payload, listSkills),
  list_providers: plain(METHODS.list_providers.payload, listProviders),
  gc: plain(METHODS.gc.payload, gc),
  daemon_status: plain(METHODS.daemon_status.payload, daemonStatus),
  shutdown: plain(METHODS.shutdown.payload, shutdown),
};

/** Methods after whose answer the connection is closed (seeds 5.6). */
const CLOSING: ReadonlySet<string> = new Set<Method>(["shutdown"]);

/**
 * Handles one line. Whatever is wrong with it, or goes wrong in its method, is answered; the connection goes
 * on. Only a client that has gone ends it early.
 */
export async function dispatch(
  frame: Frame,
  { peer, unitOf }: { peer: Peer; unitOf: UnitOf },
  system: Services,
  take: () => void,
): Promise<Next> {
  const request = read(frame);
  if ("code" in request) return answer(peer, { ok: false, error: request });
  const { method, id } = request;
  const call: Call = {
    payload: request.payload ?? {},
    system,
    caller: { unit: () => unitOf(request.unit), gone: peer.gone },
    peer,
    id,
    take,
    accepted: false,
  };
  try {
    if (!isMethod(method)) {
      return await answer(peer, { ok: false, error: unknownMethod(method), ...(id !== undefined && { id }) });
    }
    await TABLE[method](call);
    return call.accepted || CLOSING.has(method) ? "close" : "next";
  } catch (error) {
    if (peer.gone.aborted) return "close";
    const failure = toWire(error, system);
    if (!call.accepted)
      return await answer(peer, { ok: false, error: failure, ...(id !== undefined && { id }) });
    // Half a stream is all there is to send: the client sees it cut, and the log says why.
    system.logger.warn("server", `the stream of ${method} was cut: ${failure.code} ${failure.message}`);
    return "close";
  }
}

interface Call {
  payload: unknown;
  system: Services;
  caller: Caller;
  peer: Peer;
  id: string | number | undefined;
  take(): void;
  accepted: boolean;
}

type Entry = (call: Call) => Promise<void>;

function plain<P, A>(schema: () => z.ZodType<P>, handle: Plain<P, A>): Entry {
  const check = checker(schema);
  return async ({ payload, system, caller, peer, id }) => {
    const result = await handle(check(payload), system, caller);
    await peer.send({ ok: true, payload: result, ...(id !== undefined && { id }) });
  };
}

function streaming<P, A>(schema: () => z.ZodType<P>, handle: Streaming<P, A>): Entry {
  const check = checker(schema);
  return async (call) => {
    const { peer, id, system, caller } = call;
    const out: StreamReply<A> = {
      accept(result) {
        call.accepted = true;
        call.take();
        return peer.send({ ok: true, payload: result, ...(id !== undefined && { id }) });
      },
      send: (event) => peer.send(event),
      gone: peer.gone,
    };
    await handle(check(call.payload), system, out, caller);
  };
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
      message: "All clients together are sending more than there is room for. Try again in a moment.",
    };
  }
  if (frame.kind === "not_utf8") return badRequest("The line is not valid UTF-8.");
  let value: unknown;
  try {
    value = JSON.parse(frame.text);
  } catch (error) {
    return badRequest(`The line is not JSON: ${error instanceof Error ? error.message : String(error)}.`);
  }
  const request = Request.safeParse(value);
  return request.success ? request.data : badRequest(describe(request.error, value));
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
    message: `There is no method "${method}". There are: ${Object.keys(TABLE).join(", ")}.`,
  };
}

function isMethod(name: string): name is Method {
  return Object.hasOwn(TABLE, name);
}

/** Gives the payload as the method may rely on it. The schema is built at the first call and kept. */
function checker<P>(build: () => z.ZodType<P>): (payload: unknown) => P {
  let schema: z.ZodType<P> | undefined;
  return (payload) => {
    schema ??= build();
    const result = schema.safeParse(payload);
    if (result.success) return result.data;
    throw new SyscallError("INVALID", describe(result.error, payload));
  };
}

/** `payload.max_steps: expected …, got -1`: the first fault that was found. */
function describe(error: z.ZodError, value: unknown): string {
  const [issue] = error.issues;
  if (!issue) return "The request does not have the form it should have.";
  const field = issue.path.map(String).join(".");
  const got = issue.path.reduce<unknown>(step, value);
  return `${field || "The request"}: ${issue.message.replace(/\.$/, "")}; got ${shown(got)}.`;
}

function step(value: unknown, key: PropertyKey): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined;
}

function shown(value: unknown): string {
  if (value === undefined) return "nothing";
  const text = written(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

/** JSON can be read to any depth, and not be written to any. */
function written(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof RangeError) return "something nested too deeply to show";
    throw error;
  }
}

function toWire(error: unknown, system: Services): WireError {
  if (error instanceof SyscallError) {
    const { code, message, syscall, device } = error;
    return { code, message, ...(syscall && { syscall }), ...(device && { device }) };
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  system.logger.warn("server", `a fault of rnix itself: ${text}`);
  return {
    code: "INTERNAL",
    message: `A fault of rnix itself: ${error instanceof Error ? error.message : String(error)}. \`rnix daemon logs\` has more.`,
  };
}
