import { type JSONRPCMessage, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { moved, tooLarge } from "./failure.ts";
import type { HttpSettings } from "./settings.ts";

/** What a server is given to end a session: it is a courtesy. */
const LEAVE_MS = 1_000;
/** So often one request is sent on. */
const MOST_HOPS = 5;

/** A server at an address (streamable HTTP). Deadlines are those of the requests; an answer has a largest size. */
export class HttpTransport extends StreamableHTTPClientTransport {
  constructor(settings: HttpSettings) {
    super(new URL(settings.url), {
      requestInit: { headers: settings.headers },
      fetch: (input, init) => this.#fetch(settings, input, init),
    });
  }

  /** Ends the session, where there is one. */
  override async close(): Promise<void> {
    if (this.sessionId !== undefined) {
      const patience = Promise.withResolvers<void>();
      const timer = setTimeout(patience.resolve, LEAVE_MS);
      // The server need not know sessions, nor be there any more.
      await Promise.race([this.terminateSession().catch(() => undefined), patience.promise]);
      clearTimeout(timer);
    }
    await super.close();
  }

  async #fetch(settings: HttpSettings, input: string | URL, init?: RequestInit): Promise<Response> {
    const response = await reach(settings, new URL(input), init);
    // The stream that is asked for with GET stays open and tells of changes; it has no size.
    if (init?.method !== "POST" || !response.body) return response;
    const stop = (bytes: number): void => {
      for (const id of requestsOf(init.body)) this.onmessage?.(tooLarge(settings, id, bytes));
    };
    return new Response(response.body.pipeThrough(bounded(settings.maxOutputBytes, stop)), response);
  }
}

/**
 * Follows a server that has moved on the same host, as by the slash at the end of an address, and nobody elsewhere: its
 * headers may hold a key. Only 307 and 308 repeat the request as it was.
 */
async function reach(settings: HttpSettings, url: URL, init?: RequestInit): Promise<Response> {
  // Bun's own limit of five minutes is off: the caller's signal decides.
  const options: BunFetchRequestInit = { ...init, timeout: false, redirect: "manual" };
  let at = url;
  for (let hop = 0; ; hop++) {
    const response = await fetch(at, options);
    const location = response.headers.get("location");
    if (response.status < 300 || response.status >= 400 || location === null) return response;
    await response.body?.cancel();
    const next = URL.parse(location, at.href);
    const same = next?.origin === at.origin && (response.status === 307 || response.status === 308);
    if (!same || hop === MOST_HOPS) throw moved(settings, response.status, next?.href ?? location);
    at = next;
  }
}

/** Ends at `max` bytes, and says so. */
function bounded(max: number, stop: (bytes: number) => void): TransformStream<Uint8Array, Uint8Array> {
  let bytes = 0;
  return new TransformStream({
    transform(piece, controller) {
      bytes += piece.length;
      if (bytes <= max) return controller.enqueue(piece);
      stop(bytes);
      controller.terminate();
    },
  });
}

/** The numbers of the requests that were sent with this body. */
function requestsOf(body: unknown): (string | number)[] {
  if (typeof body !== "string") return [];
  const sent: JSONRPCMessage | JSONRPCMessage[] = JSON.parse(body);
  return [sent]
    .flat()
    .flatMap((message) => ("id" in message && message.id !== undefined ? [message.id] : []));
}
