import { Client, ProtocolError, ProtocolErrorCode, type Transport } from "@modelcontextprotocol/client";
import { type OpenContext, SyscallError } from "rnix/plugin";
import { failure } from "./failure.ts";
import { HttpTransport } from "./http-transport.ts";
import { ProgramTransport } from "./program-transport.ts";
import type { ServerSettings } from "./settings.ts";

/** A connection that stands. */
export interface Connection {
  client: Client;
  /** Ends the session where there is one, and the program. Never throws. */
  close(): Promise<void>;
  /** Why it is gone; undefined while it stands, as far as can be known. */
  end(): string | undefined;
}

interface ConnectionEvents {
  toolsChanged(): void;
  closed(): void;
  error(error: Error): void;
}

/** Of the time to mount, so much is waited for an answer to the newer revision's first question. */
const PROBE_SHARE = 0.4;
/** Changes that come within this time are one. */
const DEBOUNCE_MS = 200;

/** Connects by the newest revision that both speak. Whatever fails, nothing of it is left running. */
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
    // A server of before 2026 may end at a question it does not know: it is asked the old way. One that knows no
    // hand-shake is of after 2026, and was too slow to say so: it is asked once more, and waited for longer.
    const how = first.end !== undefined ? "old" : knowsNoHandShake(thrown) ? "newest, with patience" : null;
    if (signal.aborted || how === null) throw thrown;
    return attempt(settings, new ProgramTransport(settings, context), events, signal, how);
  }
}

async function attempt(
  settings: ServerSettings,
  transport: Transport | ProgramTransport,
  events: ConnectionEvents,
  signal: AbortSignal,
  how: "newest" | "newest, with patience" | "old",
): Promise<Connection> {
  const { mountTimeoutMs } = settings;
  const share = how === "newest" ? PROBE_SHARE : 1 - PROBE_SHARE;
  const client = new Client(
    { name: "rnix", version: "1" },
    {
      versionNegotiation: { mode: "auto", probe: { timeoutMs: mountTimeoutMs * share } },
      listChanged: {
        tools: { autoRefresh: false, debounceMs: DEBOUNCE_MS, onChanged: () => events.toolsChanged() },
      },
    },
  );
  const close = async (): Promise<void> => {
    await Promise.allSettled([client.close(), transport.close()]);
  };
  const onAbort = (): void => void close();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    // Together with the first question no longer than the whole: else the kernel's deadline, which knows less, comes first.
    const options = { signal, timeout: mountTimeoutMs * (1 - PROBE_SHARE) };
    await client.connect(transport, how === "old" ? { ...options, prior: { kind: "legacy" } } : options);
  } catch (thrown) {
    await close();
    throw connectFailure(thrown, settings, transport, signal);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
  client.onclose = events.closed;
  client.onerror = events.error;
  return { client, close, end: () => (transport instanceof ProgramTransport ? transport.end : undefined) };
}

/** `initialize` is what it was asked last. */
function knowsNoHandShake(thrown: unknown): boolean {
  const said = thrown instanceof Error ? thrown.cause : undefined;
  return ProtocolError.isInstance(said) && said.code === ProtocolErrorCode.MethodNotFound;
}

/** With what the program said: why a server does not come up, it tells on its stderr. */
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
          `MCP server ${name} did not answer within ${mountTimeoutMs} ms. Give it more with mount_timeout.`,
          { cause: thrown },
        )
      : failed;
  if (!(transport instanceof ProgramTransport) || signal.aborted) return error;
  if (transport.end !== undefined) {
    return new SyscallError("UNAVAILABLE", `MCP server ${name} ${transport.end}`, { cause: thrown });
  }
  return new SyscallError(error.code, `${error.message}${transport.words}`, { cause: thrown });
}
