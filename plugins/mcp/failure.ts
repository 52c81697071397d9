import {
  type JSONRPCErrorResponse,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
} from "@modelcontextprotocol/client";
import { type Code, SyscallError } from "rnix/plugin";
import type { HttpSettings, ServerSettings } from "./settings.ts";

/** Ours, among the codes that JSON-RPC leaves to implementations: a message was larger than it may be. */
const TOO_LARGE = -32_050;

/** The answer that stands for one that was larger than it may be. */
export function tooLarge(
  { name, maxOutputBytes }: ServerSettings,
  id: string | number,
  bytes: number,
): JSONRPCErrorResponse {
  const message = `${name} answered with ${bytes} bytes or more, and ${maxOutputBytes} are the most. Ask for less, or raise its max_output.`;
  return { jsonrpc: "2.0", id, error: { code: TOO_LARGE, message } };
}

/** It sends us somewhere that we do not follow. */
export function moved({ name, url }: HttpSettings, status: number, to: string): SyscallError {
  const message = `MCP server ${name} at ${url} answered ${status}: ask at ${JSON.stringify(to)}. It was not asked there; if that is right, set its url.`;
  return new SyscallError("UNAVAILABLE", message, { retryable: false });
}

/** Codes of JSON-RPC and of the protocol that say more than "it failed". */
const PROTOCOL: Readonly<Record<number, Code>> = {
  [-32_601]: "NOT_FOUND",
  [-32_602]: "INVALID",
  [-32_002]: "NOT_FOUND",
  [TOO_LARGE]: "EXHAUSTED",
};

const SDK: Partial<Record<SdkErrorCode, Code>> = {
  [SdkErrorCode.RequestTimeout]: "TIMEOUT",
  [SdkErrorCode.ConnectionClosed]: "UNAVAILABLE",
  [SdkErrorCode.NotConnected]: "UNAVAILABLE",
  [SdkErrorCode.SendFailed]: "UNAVAILABLE",
  [SdkErrorCode.EraNegotiationFailed]: "UNAVAILABLE",
};

/** What went wrong with a server, as one of our errors. A call that was given up has its signal's reason. */
export function failure(thrown: unknown, server: string, signal?: AbortSignal): SyscallError {
  if (signal?.aborted && signal.reason instanceof SyscallError) return signal.reason;
  if (thrown instanceof SyscallError) return thrown;
  const inner = cause(thrown);
  if (inner instanceof SyscallError) return inner;
  const message = `MCP server ${server}: ${thrown instanceof Error ? thrown.message : String(thrown)}`;
  return new SyscallError(codeOf(thrown), message, { cause: thrown });
}

/** The session is one that the server does not know any more. */
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
