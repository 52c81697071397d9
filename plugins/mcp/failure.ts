/** Converts failures of MCP servers to typed errors. */

import {
  type JSONRPCErrorResponse,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  UrlElicitationRequiredError,
} from "@modelcontextprotocol/client";
import { type Code, SyscallError } from "rnix/plugin";
import { MAX_LEVELS } from "../_lib/json.ts";
import { redirectError } from "../_lib/redirect-error.ts";
import type { HttpSettings, ServerSettings } from "./settings.ts";

/** Our own code, from the range that JSON-RPC leaves to implementations: a message was refused unread. */
const REFUSED_UNREAD = -32_050;

/** The answer put in place of one that was too large. */
export function tooLarge(
  { name, maxOutputBytes }: ServerSettings,
  id: string | number,
  bytes: number,
): JSONRPCErrorResponse {
  const message = `${name} answered with ${bytes} bytes or more; at most ${maxOutputBytes} are taken. Ask for less, or raise its max_output.`;
  return { jsonrpc: "2.0", id, error: { code: REFUSED_UNREAD, message } };
}

/** The answer put in place of one that was nested too deeply to be parsed. */
export function tooDeep({ name }: ServerSettings, id: string | number): JSONRPCErrorResponse {
  const message = `${name} answered with JSON nested more than ${MAX_LEVELS} levels deep.`;
  return { jsonrpc: "2.0", id, error: { code: REFUSED_UNREAD, message } };
}

/** The server redirects to where we do not follow. */
export function redirected({ name, url }: HttpSettings, status: number, location: string): SyscallError {
  return redirectError(`MCP server ${name} at ${url}`, status, location, "its url");
}

/** Codes of JSON-RPC and of the protocol with a code of ours. */
const PROTOCOL: Readonly<Record<number, Code>> = {
  [-32_601]: "NOT_FOUND",
  [-32_602]: "INVALID",
  [-32_002]: "NOT_FOUND",
  [REFUSED_UNREAD]: "EXHAUSTED",
};

const SDK: Partial<Record<SdkErrorCode, Code>> = {
  [SdkErrorCode.RequestTimeout]: "TIMEOUT",
  [SdkErrorCode.ConnectionClosed]: "UNAVAILABLE",
  [SdkErrorCode.NotConnected]: "UNAVAILABLE",
  [SdkErrorCode.SendFailed]: "UNAVAILABLE",
  [SdkErrorCode.EraNegotiationFailed]: "UNAVAILABLE",
};

/** A server's failure as one of our errors. A cancelled call fails with its signal's reason. */
export function failure(thrown: unknown, server: string, signal?: AbortSignal): SyscallError {
  if (signal?.aborted && signal.reason instanceof SyscallError) return signal.reason;
  if (thrown instanceof SyscallError) return thrown;
  const inner = cause(thrown);
  if (inner instanceof SyscallError) return inner;
  const urls = UrlElicitationRequiredError.isInstance(thrown)
    ? thrown.elicitations.map(({ url }) => url)
    : [];
  const said = thrown instanceof Error ? thrown.message : String(thrown);
  const message = [`MCP server ${server}: ${said}`, ...urls].join("\n");
  return new SyscallError(codeOf(thrown), message, { cause: thrown });
}

/** Whether the server no longer knows the session. */
export function isGone(thrown: unknown): boolean {
  return SdkHttpError.isInstance(thrown) && thrown.status === 404;
}

function codeOf(thrown: unknown): Code {
  if (SdkHttpError.isInstance(thrown)) return ofStatus(thrown.status);
  if (SdkError.isInstance(thrown)) return SDK[thrown.code] ?? "DRIVER";
  if (ProtocolError.isInstance(thrown)) return PROTOCOL[thrown.code] ?? "DRIVER";
  // Bun's fetch: refused, reset, no such host.
  if (thrown instanceof Error && "code" in thrown) return "UNAVAILABLE";
  return "DRIVER";
}

function ofStatus(status: number): Code {
  if (status === 401 || status === 403) return "PERMISSION";
  if (status === 429) return "EXHAUSTED";
  return status >= 500 || status === 404 ? "UNAVAILABLE" : "DRIVER";
}

function cause(thrown: unknown): unknown {
  return thrown instanceof Error ? thrown.cause : undefined;
}
