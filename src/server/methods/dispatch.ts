/** Finds the method of a request and runs it. */

import { messageOf, stackOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Frame } from "../../protocol/frame.ts";
import { MAX_REQUEST_BYTES, Request, type WireError } from "../../protocol/methods.ts";
import type { Caller, Next, Peer, UnitOf } from "../connection/connection.ts";
import type { Services } from "../services.ts";
import type { Call } from "./method.ts";
import { METHODS, type Method } from "./method-table.ts";
import { describeIssue } from "./shared/describe-issue.ts";

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
