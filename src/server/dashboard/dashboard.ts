/** The dashboard: a page on loopback, served by the daemon. It shows what the methods answer, and does what they do. */

import type { Clock } from "../../lib/clock.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Caller } from "../connection/caller.ts";
import type { Peer } from "../connection/connection.ts";
import { METHODS, type Method } from "../methods/method-table.ts";
import type { DashboardRequest, OpenedDashboard, Services } from "../services.ts";
import type { ChangeFeed } from "./change-feed.ts";
import { changeStream } from "./change-stream.ts";
import { eventStream } from "./event-stream.ts";
import { MetricsToken } from "./metrics-token.ts";
import { type PageFile, pageFiles } from "./page-files.ts";
import { PAGE_METHODS } from "./page-methods.ts";
import { isSame, secret } from "./secret.ts";

/** Methods that only read: by GET. */
const READS: ReadonlySet<string> = new Set<Method | keyof typeof PAGE_METHODS>([
  ...(["list_all_procs", "show", "list_steps", "get_step_detail", "get_step_prompt"] as const),
  ...(["diff", "show_workflow", "unit_output", "list_events", "compare_runs"] as const),
  ...(["children", "jobs", "projects", "parts", "memory", "history"] as const),
]);
/** Methods that act: by POST from the page alone. */
const ACTS: ReadonlySet<string> = new Set<Method | keyof typeof PAGE_METHODS>([
  ...([
    "signal_tree",
    "suspend",
    "resume",
    "send_message",
    "answer_user",
    "stop_unit",
    "undo",
    "allow",
    "deny",
  ] as const),
  "decide_memory",
]);

const TOKEN_MS = 5 * 60_000;
const MAX_TOKENS = 20;
const MAX_SESSIONS = 100;
const MAX_BODY = 256 * 1024;
/** Characters of an answer from which on it is compressed. */
const COMPRESSED = 8_192;
const SESSION_S = 30 * 24 * 3600;

const HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-store",
};

/**
 * Owns the port and the sessions, which end with the daemon. Who comes with a token that a person has got from
 * `rnix dashboard` has a session; any other request gets 401.
 */
export class Dashboard {
  readonly #services: () => Services;
  readonly #clock: Clock;
  /** By token: until when it can be used, once. */
  readonly #tokens = new Map<string, number>();
  readonly #sessions = new Set<string>();
  readonly #metricsToken: MetricsToken;
  #server: Bun.Server<undefined> | undefined;
  readonly #feed: ChangeFeed;

  /** `tokenFile`: of /metrics. */
  constructor(
    services: () => Services,
    clock: Clock,
    { feed, tokenFile }: { feed: ChangeFeed; tokenFile: string },
  ) {
    this.#services = services;
    this.#clock = clock;
    this.#feed = feed;
    this.#metricsToken = new MetricsToken(tokenFile);
  }

  /** An address that opens the page once, within five minutes. Starts the server at the first call. */
  open({ port, metrics }: DashboardRequest): OpenedDashboard {
    this.#server ??= this.#listen(port);
    const own = `http://127.0.0.1:${this.#server.port}`;
    const url = `${own}/?token=${this.#newToken()}`;
    if (metrics === undefined) return { url };
    const token = metrics === "token" ? this.#metricsToken.get() : this.#metricsToken.replace();
    return { url, metrics: { url: `${own}/metrics`, token } };
  }

  #newToken(): string {
    const token = secret();
    for (const [old, until] of this.#tokens) if (until < this.#clock.now()) this.#tokens.delete(old);
    const [oldest] = this.#tokens.keys();
    if (this.#tokens.size >= MAX_TOKENS && oldest !== undefined) this.#tokens.delete(oldest);
    this.#tokens.set(token, this.#clock.now() + TOKEN_MS);
    return token;
  }

  async close(): Promise<void> {
    await this.#server?.stop(true);
    this.#server = undefined;
  }

  #listen(port: number): Bun.Server<undefined> {
    try {
      return Bun.serve({
        hostname: "127.0.0.1",
        port,
        idleTimeout: 0,
        maxRequestBodySize: MAX_BODY,
        fetch: (request) => this.#answer(request),
        error: () =>
          new Response("a fault of rnix itself: rnix daemon logs has more", {
            status: 500,
            headers: HEADERS,
          }),
      });
    } catch (cause) {
      throw new SyscallError(
        "UNAVAILABLE",
        `The port ${port} can't be opened on 127.0.0.1. Give another by --port.`,
        {
          cause,
        },
      );
    }
  }

  async #answer(request: Request): Promise<Response> {
    const url = new URL(request.url);
    const own = `127.0.0.1:${this.#server?.port}`;
    // A name that another site has pointed here (DNS rebinding) is no name of ours.
    if (request.headers.get("host") !== own) return refused(421, `expected the host ${own}`);
    const origin = request.headers.get("origin");
    if (origin !== null && origin !== `http://${own}`) return refused(403, "a page of another origin");
    if (url.pathname === "/metrics") return this.#metrics(request);
    const token = url.searchParams.get("token");
    if (token !== null) return this.#signIn(token);
    if (!this.#isSignedIn(request))
      return refused(401, "open it with the address that rnix dashboard prints");
    if (url.pathname === "/api/changes") return this.#changes(request);
    if (url.pathname === "/api/run_events") return this.#runEvents(request, url);
    if (url.pathname === "/api/export") return this.#export(request, url);
    if (url.pathname.startsWith("/api/")) return this.#call(request, url);
    return file((await pageFiles()).get(url.pathname === "/" ? "/index.html" : url.pathname));
  }

  async #metrics(request: Request): Promise<Response> {
    const token = this.#metricsToken.known;
    if (token === undefined || !isSame(`Bearer ${token}`, request.headers.get("authorization") ?? ""))
      return refused(401, "expected the bearer token that rnix dashboard --metrics-token prints");
    const { metricsText, METRICS_TYPE } = await import("./metrics.ts");
    const text = await metricsText(this.#services(), request.signal);
    return new Response(text, { headers: { ...HEADERS, "content-type": METRICS_TYPE } });
  }

  /** The token is used up; the address becomes a clean one. */
  #signIn(token: string): Response {
    const until = this.#tokens.get(token);
    this.#tokens.delete(token);
    if (until === undefined || until < this.#clock.now())
      return refused(401, "this address was used or is too old: rnix dashboard prints another");
    const session = secret();
    const [oldest] = this.#sessions;
    if (this.#sessions.size >= MAX_SESSIONS && oldest !== undefined) this.#sessions.delete(oldest);
    this.#sessions.add(session);
    const cookie = `${this.#cookie}=${session}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${SESSION_S}`;
    return new Response(null, {
      status: 303,
      headers: { ...HEADERS, location: "/", "set-cookie": cookie },
    });
  }

  #isSignedIn(request: Request): boolean {
    const cookies = (request.headers.get("cookie") ?? "").split(/;\s*/);
    const given =
      cookies.find((one) => one.startsWith(`${this.#cookie}=`))?.slice(this.#cookie.length + 1) ?? "";
    return [...this.#sessions].some((known) => isSame(known, given));
  }

  /** Cookies of all ports of a host are one jar. */
  get #cookie(): string {
    return `rnix_${this.#server?.port}`;
  }

  async #call(request: Request, url: URL): Promise<Response> {
    const name = url.pathname.slice("/api/".length);
    const isRead = request.method === "GET" && READS.has(name);
    if (!isRead && !(request.method === "POST" && ACTS.has(name))) return refused(404, `no method ${name}`);
    // A form of another site could post; only our page sends this header, which needs our origin.
    if (!isRead && request.headers.get("content-type") !== "application/json")
      return refused(415, "expected application/json");
    const text = isRead ? (url.searchParams.get("payload") ?? "{}") : await request.text();
    try {
      const payload: unknown = JSON.parse(text);
      const answer = await this.#answerOf(name, payload, request.signal);
      if (!isRead) this.#feed.wake();
      return json(answer, 200, request);
    } catch (thrown) {
      if (thrown instanceof SyntaxError) return refused(400, "the payload is no JSON");
      if (!(thrown instanceof SyscallError)) throw thrown;
      return json({ error: { code: thrown.code, message: thrown.message } }, 422);
    }
  }

  async #answerOf(name: string, payload: unknown, gone: AbortSignal): Promise<unknown> {
    let answer: unknown;
    const peer: Peer = {
      async send(line) {
        if ("ok" in line && line.ok) answer = line.payload;
      },
      gone,
      watch: () => undefined,
    };
    await this.#run(name, payload, peer);
    return answer;
  }

  /** As the user's own client. */
  async #run(name: string, payload: unknown, peer: Peer): Promise<void> {
    const all = Object.entries({ ...METHODS, ...PAGE_METHODS });
    const load = all.find(([known]) => known === name)?.[1];
    if (load === undefined) throw new SyscallError("NOT_FOUND", `There is no method ${name}.`);
    const { run } = await load();
    const caller = callerOf(peer.gone);
    const call = { payload, services: this.#services(), caller, peer, id: undefined, take: () => undefined };
    await run({ ...call, accepted: false });
  }

  /** The events of one run, from a number on. A browser that reconnects names the last that it has got. */
  #runEvents(request: Request, url: URL): Response {
    const uuid = url.searchParams.get("uuid");
    const after = Number(request.headers.get("last-event-id") ?? url.searchParams.get("after"));
    const headers = { ...HEADERS, "content-type": "text/event-stream" };
    const work = (peer: Peer): Promise<void> => this.#run("run_events", { uuid, after }, peer);
    return new Response(eventStream(work, request.signal), { headers });
  }

  /** A run as an HTML file to keep. */
  async #export(request: Request, url: URL): Promise<Response> {
    const uuid = url.searchParams.get("uuid") ?? "";
    const disposition = `attachment; filename="run-${uuid.replace(/\W/g, "").slice(0, 12)}.html"`;
    const type = "text/html; charset=utf-8";
    const { exportStream } = await import("./export-stream.ts");
    try {
      const file = await exportStream(uuid, this.#services(), callerOf(request.signal));
      const headers = { ...HEADERS, "content-type": type, "content-disposition": disposition };
      return new Response(file, { headers });
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
      return refused(422, thrown.message);
    }
  }

  /** Server-sent events: the live processes and open questions, whole at first, then what has changed. */
  #changes(request: Request): Response {
    const headers = { ...HEADERS, "content-type": "text/event-stream" };
    return new Response(changeStream(this.#feed, request.signal), { headers });
  }
}

/** The user, at a browser. */
function callerOf(gone: AbortSignal): Caller {
  return { unit: () => undefined, service: () => null, gone };
}

function file(found: PageFile | undefined): Response {
  if (!found) return refused(404, "no such page");
  return new Response(found.bytes, { headers: { ...HEADERS, "content-type": found.type } });
}

/** Compressed where that is worth it and the browser takes it. */
function json(value: unknown, status = 200, request?: Request): Response {
  const text = JSON.stringify(value ?? null);
  const headers = { ...HEADERS, "content-type": "application/json" };
  const takesGzip = request?.headers.get("accept-encoding")?.includes("gzip") === true;
  if (text.length < COMPRESSED || !takesGzip) return new Response(text, { status, headers });
  const bytes = Bun.gzipSync(Buffer.from(text), { level: 3 });
  return new Response(bytes, { status, headers: { ...headers, "content-encoding": "gzip" } });
}

function refused(status: number, why: string): Response {
  return new Response(`${why}\n`, { status, headers: { ...HEADERS, "content-type": "text/plain" } });
}
