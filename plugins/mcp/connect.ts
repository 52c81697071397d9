/** Opens the connection to an MCP server, by the current or the former protocol. */

import { Client, ProtocolError, ProtocolErrorCode, type Transport } from "@modelcontextprotocol/client";
import { type OpenContext, SyscallError } from "rnix/plugin";
import { failure } from "./failure.ts";
import { HttpTransport } from "./http-transport.ts";
import { ProgramTransport } from "./program-transport.ts";
import { type Asked, answerRequests, capabilitiesOf } from "./server-requests.ts";
import type { ServerSettings } from "./settings.ts";

export interface Connection {
  client: Client;
  /** Ends the session, if there is one, and the program. Never throws. */
  close(): Promise<void>;
  /** Why the program ended; undefined while it runs, and for an address. */
  end(): string | undefined;
}

/** Makes one request within its time limit. Fails with one of our errors. */
export type RequestRunner = <T>(
  signal: AbortSignal | undefined,
  run: (options: { signal?: AbortSignal; timeout: number; maxTotalTimeout: number }) => Promise<T>,
) => Promise<T>;

interface ConnectionEvents extends Asked {
  toolsChanged(): void;
  closed(): void;
  error(error: Error): void;
}

/** The part of the time to mount in which the newest revision's first request must be answered. */
const PROBE_SHARE = 0.4;
/** And no longer than this: an older server may ignore it, and is asked the older way then. */
const MAX_PROBE_MS = 5_000;
/** Changes within this time are reported as one. */
const DEBOUNCE_MS = 200;

/** Connects by the newest revision that both support. When it fails, nothing is left running. */
export async function connect(
  settings: ServerSettings,
  context: OpenContext,
  events: ConnectionEvents,
  signal: AbortSignal,
): Promise<Connection> {
  if ("url" in settings) return attempt(settings, new HttpTransport(settings), events, signal, "newest");
  const first = new ProgramTransport(settings, context);
  try {
    return await attempt(settings, first, events, signal, "newest");
  } catch (thrown) {
    // A server from before 2026 may exit at an unknown request: retry with the older handshake. A server that has no
    // handshake is newer, and answered the first request too slowly: retry with more time.
    const how = first.end !== undefined ? "old" : hasNoHandshake(thrown) ? "newest, slowly" : null;
    if (signal.aborted || how === null) throw thrown;
    return attempt(settings, new ProgramTransport(settings, context), events, signal, how);
  }
}

async function attempt(
  settings: ServerSettings,
  transport: Transport | ProgramTransport,
  events: ConnectionEvents,
  signal: AbortSignal,
  how: "newest" | "newest, slowly" | "old",
): Promise<Connection> {
  const { mountTimeoutMs } = settings;
  const firstMs = Math.min(mountTimeoutMs * PROBE_SHARE, MAX_PROBE_MS);
  const probeMs = how === "newest" ? firstMs : mountTimeoutMs - firstMs;
  const client = new Client(
    { name: "rnix", version: "1" },
    {
      capabilities: capabilitiesOf(settings),
      versionNegotiation: { mode: "auto", probe: { timeoutMs: probeMs } },
      listChanged: {
        tools: { autoRefresh: false, debounceMs: DEBOUNCE_MS, onChanged: () => events.toolsChanged() },
      },
    },
  );
  answerRequests(client, settings, events);
  const close = async (): Promise<void> => {
    await Promise.allSettled([client.close(), transport.close()]);
  };
  const onAbort = (): void => void close();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    // With the first request, within the whole time: the kernel's own deadline has a message that says less.
    const options = { signal, timeout: mountTimeoutMs - firstMs };
    await client.connect(transport, how === "old" ? { ...options, prior: { kind: "legacy" } } : options);
  } catch (thrown) {
    if (transport instanceof ProgramTransport) {
      if (isUnreachable(failure(thrown, settings.name, signal))) await transport.followed();
      await transport.abandon();
    }
    await close();
    throw connectFailure(thrown, settings, transport, signal);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
  client.onclose = events.closed;
  client.onerror = events.error;
  return { client, close, end: () => (transport instanceof ProgramTransport ? transport.end : undefined) };
}

/** The program reads or writes no more. */
function isUnreachable({ code }: SyscallError): boolean {
  return code === "UNAVAILABLE" || code === "CLOSED";
}

function timeText(ms: number): string {
  return ms % 1_000 === 0 ? `${ms / 1_000} s` : `${ms} ms`;
}

/** Whether the server refused `initialize`, which was the last request. */
function hasNoHandshake(thrown: unknown): boolean {
  const cause = thrown instanceof Error ? thrown.cause : undefined;
  return ProtocolError.isInstance(cause) && cause.code === ProtocolErrorCode.MethodNotFound;
}

/** The error with what the program printed: a server that fails to start says why on its stderr. */
function connectFailure(
  thrown: unknown,
  settings: ServerSettings,
  transport: Transport,
  signal: AbortSignal,
): SyscallError {
  const { name, mountTimeoutMs } = settings;
  const failed = failure(thrown, name, signal);
  const error =
    failed.code === "TIMEOUT" && !signal.aborted
      ? new SyscallError(
          "TIMEOUT",
          `MCP server ${name} did not answer within ${timeText(mountTimeoutMs)}. Raise its mount_timeout, or mcp_mount_timeout for all servers, if it needs longer.`,
          { cause: thrown },
        )
      : failed;
  if (!(transport instanceof ProgramTransport) || signal.aborted) return error;
  if (transport.end !== undefined) {
    return new SyscallError("UNAVAILABLE", `MCP server ${name} ${transport.end}`, { cause: thrown });
  }
  return new SyscallError(error.code, `${error.message}${transport.lastOutput}`, { cause: thrown });
}
