/** The transport to an MCP server at an address. */

import {
  type JSONRPCErrorResponse,
  type JSONRPCMessage,
  StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import { JsonDepth } from "../_lib/json.ts";
import { settledWithin } from "../_lib/within.ts";
import { redirected, tooDeep, tooLarge } from "./failure.ts";
import { rememberToken, storedTokens } from "./oauth.ts";
import type { HttpSettings } from "./settings.ts";

/** How long ending a session may take: it is a courtesy. */
const TERMINATE_MS = 1_000;
const MAX_REDIRECTS = 5;

/** A server at an address (streamable HTTP). Its requests have deadlines; its answers have a largest size. */
export class HttpTransport extends StreamableHTTPClientTransport {
  constructor(settings: HttpSettings) {
    super(new URL(settings.url), {
      requestInit: { headers: settings.headers },
      authProvider: storedTokens(settings),
      fetch: (input, init) => this.#fetch(settings, input, init),
    });
  }

  /** Ends the session, where there is one. */
  override async close(): Promise<void> {
    if (this.sessionId !== undefined) {
      // The server may not support this, or be gone.
      await settledWithin(this.terminateSession(), TERMINATE_MS);
    }
    await super.close();
  }

  async #fetch(settings: HttpSettings, input: string | URL, init?: RequestInit): Promise<Response> {
    const response = this.#bounded(settings, await reach(settings, new URL(input), init), init);
    if (response.status === 401) rememberToken(response, init?.headers);
    return response;
  }

  #bounded(settings: HttpSettings, response: Response, init?: RequestInit): Response {
    // The stream of a GET stays open for notifications; it has no size.
    if (init?.method !== "POST" || !response.body) return response;
    const hasEvents = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
    const refuse = (error: (id: string | number) => JSONRPCErrorResponse): void => {
      for (const id of requestsOf(init.body)) this.onmessage?.(error(id));
    };
    return new Response(response.body.pipeThrough(bounded(settings, hasEvents, refuse)), response);
  }
}

/**
 * Follows redirects within the same origin, such as to an address with a slash at its end, and no others: the headers
 * may hold a key. Only 307 and 308 repeat the request unchanged.
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
    const follows = next?.origin === at.origin && (response.status === 307 || response.status === 308);
    if (!follows || hop === MAX_REDIRECTS)
      throw redirected(settings, response.status, next?.href ?? location);
    at = next;
  }
}

/** Ends an answer that is too large or nested too deeply; `refuse` answers its requests with an error. */
function bounded(
  settings: HttpSettings,
  hasEvents: boolean,
  refuse: (error: (id: string | number) => JSONRPCErrorResponse) => void,
): TransformStream<Uint8Array, Uint8Array> {
  const depth = new JsonDepth(hasEvents ? "events" : "one");
  let bytes = 0;
  return new TransformStream({
    transform(piece, controller) {
      bytes += piece.length;
      if (bytes > settings.maxOutputBytes) refuse((id) => tooLarge(settings, id, bytes));
      else if (depth.exceeds(piece)) refuse((id) => tooDeep(settings, id));
      else return controller.enqueue(piece);
      controller.terminate();
    },
  });
}

/** The ids of the requests that were sent with this body. */
function requestsOf(body: unknown): (string | number)[] {
  if (typeof body !== "string") return [];
  const sent: JSONRPCMessage | JSONRPCMessage[] = JSON.parse(body);
  return [sent]
    .flat()
    .flatMap((message) => ("id" in message && message.id !== undefined ? [message.id] : []));
}
