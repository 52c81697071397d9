/** The dashboard: a page served by the daemon, on loopback unless a setting says otherwise. It shows what the methods answer, and does what they do. */

import { isIP } from "node:net";
import { BoundedMap } from "../../lib/caches.ts";
import type { Clock } from "../../lib/clock.ts";
import { expected } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/index.ts";
import { ownCaller, type Peer } from "../connection/connection.ts";
import { METHODS, type Method } from "../methods/method-table.ts";
import type { DashboardRequest, OpenedDashboard, Services } from "../services.ts";
import type { ChangeFeed } from "./change-feed.ts";
import { changeStream, eventStream } from "./event-stream.ts";
import { type PageFile, pageFiles } from "./page-files.ts";
import { PAGE_METHODS } from "./page-methods.ts";
import { isSame, MetricsToken, Password, secret, signInForm } from "./password.ts";

/** Methods that only read: by GET. */
const READS: ReadonlySet<string> = new Set<Method | keyof typeof PAGE_METHODS>([
  ...(["list_all_procs", "show", "list_steps", "get_step_detail", "get_step_prompt"] as const),
  ...(["diff", "show_workflow", "unit_output", "list_events", "compare_runs"] as const),
  ...(["children", "jobs", "projects", "parts", "memory", "history", "search"] as const),
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

const LOOPBACK = "127.0.0.1";
/** A silent connection ends, unless it is signed in: streams of changes are silent for long. */
const IDLE_S = 30;
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

/** What the dashboard gets from outside. */
export interface DashboardPorts {
  services: () => Services;
  clock: Clock;
  feed: ChangeFeed;
  tokenFile: string;
  /** `listen` and `hosts`: others than this machine may reach it. */
  settings: { listen?: string; port?: number; hosts?: readonly string[] };
  /** The variables of the user's file. */
  userEnv(): Readonly<Record<string, string>>;
}

/** Lets the form of the sign-in be sent, with its origin; the page itself has no form. */
const FORM = {
  "content-type": "text/html; charset=utf-8",
  "referrer-policy": "same-origin",
  "content-security-policy":
    "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
};

/**
 * Owns the port and the sessions, which end with the daemon. A browser gets a session by the token that `rnix dashboard`
 * prints for a person; where others than this machine may reach it, by the password alone. Any other request gets 401.
 */
export class Dashboard {
  readonly #ports: DashboardPorts;
  readonly #clock: Clock;
  /** undefined: it is on loopback, and has tokens. */
  readonly #password: Password | undefined;
  /** Until when each token can be used. A token can be used once. */
  readonly #tokens = new BoundedMap<string, number>(MAX_TOKENS);
  readonly #sessions = new Set<string>();
  readonly #metricsToken: MetricsToken;
  #server: Bun.Server<undefined> | undefined;

  constructor(ports: DashboardPorts) {
    const { clock, settings, tokenFile, userEnv } = ports;
    this.#ports = ports;
    this.#clock = clock;
    this.#metricsToken = new MetricsToken(tokenFile);
    const isShared = settings.hosts !== undefined || !isLoopback(settings.listen ?? LOOPBACK);
    this.#password = isShared ? new Password(userEnv, clock) : undefined;
  }

  /** An address that opens the page: once, within five minutes, or by the password. Starts the server at the first call. */
  open({ port, metrics }: DashboardRequest): OpenedDashboard {
    this.#password?.require();
    this.#server ??= this.#listen(port || (this.#ports.settings.port ?? 0));
    if (port !== 0 && port !== this.#server.port) {
      const message = `The dashboard has the port ${this.#server.port} until the daemon ends: leave --port out, or restart the daemon.`;
      throw new SyscallError("INVALID", message);
    }
    const own = `http://${this.#ownHost}`;
    const url = this.#password ? `${own}/` : `${own}/?token=${this.#newToken()}`;
    if (metrics === undefined) return { url };
    const token = metrics === "token" ? this.#metricsToken.get() : this.#metricsToken.replace();
    return { url, metrics: { url: `${own}/metrics`, token } };
  }

  /** The host name by which a browser on this machine reaches the page. */
  get #ownHost(): string {
    const { listen = LOOPBACK } = this.#ports.settings;
    const host = listen === "0.0.0.0" || listen === "::" ? LOOPBACK : listen;
    return `${host.includes(":") ? `[${host}]` : host}:${this.#server?.port}`;
  }

  #newToken(): string {
    const token = secret();
    for (const [old, until] of this.#tokens) if (until < this.#clock.now()) this.#tokens.delete(old);
    this.#tokens.set(token, this.#clock.now() + TOKEN_MS);
    return token;
  }

  async close(): Promise<void> {
    await this.#server?.stop(true);
    this.#server = undefined;
  }

  #listen(port: number): Bun.Server<undefined> {
    const { listen: hostname = LOOPBACK } = this.#ports.settings;
    try {
      return Bun.serve({
        hostname,
        port,
        idleTimeout: IDLE_S,
        maxRequestBodySize: MAX_BODY,
        fetch: (request) => this.#answer(request),
        error: () =>
          new Response("a fault of rnix itself: rnix daemon logs has more", {
            status: 500,
            headers: HEADERS,
          }),
      });
    } catch (cause) {
      const message = `The port ${port} can't be opened on ${hostname}. Give another by --port.`;
      throw new SyscallError("UNAVAILABLE", message, { cause });
    }
  }

  async #answer(request: Request): Promise<Response> {
    const url = new URL(request.url);
    const host = request.headers.get("host") ?? "";
    // A name that another site has pointed here (DNS rebinding) is no name of ours.
    if (!this.#isOwn(host)) return refused(421, `expected the host ${this.#ownHost}`);
    const origin = request.headers.get("origin");
    // A proxy before us may speak TLS.
    const origins = [`http://${host}`, ...(this.#password ? [`https://${host}`] : [])];
    if (origin !== null && !origins.includes(origin)) return refused(403, "a page of another origin");
    if (url.pathname === "/metrics") return this.#metrics(request);
    if (this.#password && url.pathname === "/sign-in") return this.#signInBy(this.#password, request);
    const token = this.#password ? null : url.searchParams.get("token");
    if (token !== null) return this.#signIn(token);
    if (!this.#isSignedIn(request)) {
      if (this.#password && url.pathname === "/") return form(401);
      return refused(401, "open it with the address that rnix dashboard prints");
    }
    this.#server?.timeout(request, 0);
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
    const text = await metricsText(this.#ports.services(), request.signal);
    return new Response(text, { headers: { ...HEADERS, "content-type": METRICS_TYPE } });
  }

  /** The token is used up; the address becomes a clean one. */
  #signIn(token: string): Response {
    const until = this.#tokens.get(token);
    this.#tokens.delete(token);
    if (until === undefined || until < this.#clock.now())
      return refused(401, "this address was used or is too old: rnix dashboard prints another");
    return this.#newSession("");
  }

  async #signInBy(password: Password, request: Request): Promise<Response> {
    if (request.method !== "POST") return form(401);
    const given = new URLSearchParams(await request.text()).get("password") ?? "";
    const refusal = password.refusal(given);
    if (refusal) return form(refusal.status, refusal.why);
    const isTls = request.headers.get("origin")?.startsWith("https:") === true;
    return this.#newSession(isTls ? "; Secure" : "");
  }

  /** Any address or name of ours. An address of digits can't be pointed here by another site. */
  #isOwn(host: string): boolean {
    if (host === this.#ownHost) return true;
    if (!this.#password || !URL.canParse(`http://${host}`)) return false;
    const { hostname, port } = new URL(`http://${host}`);
    if (this.#ports.settings.hosts?.includes(hostname)) return true;
    return isIP(hostname.replace(/^\[|\]$/g, "")) > 0 && port === `${this.#server?.port}`;
  }

  #newSession(attributes: string): Response {
    const session = secret();
    const [oldest] = this.#sessions;
    if (this.#sessions.size >= MAX_SESSIONS && oldest !== undefined) this.#sessions.delete(oldest);
    this.#sessions.add(session);
    const cookie = `${this.#cookie}=${session}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${SESSION_S}${attributes}`;
    return new Response(null, { status: 303, headers: { ...HEADERS, location: "/", "set-cookie": cookie } });
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
      if (!isRead) this.#ports.feed.wake();
      return json(answer, 200, request);
    } catch (thrown) {
      if (thrown instanceof SyntaxError) return refused(400, "the payload is no JSON");
      const { code, message } = expected(thrown);
      return json({ error: { code, message } }, 422);
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

  /** Runs a method with the rights of the user's own client. */
  async #run(name: string, payload: unknown, peer: Peer): Promise<void> {
    const all = Object.entries({ ...METHODS, ...PAGE_METHODS });
    const load = all.find(([known]) => known === name)?.[1];
    if (load === undefined) throw new SyscallError("NOT_FOUND", `There is no method ${name}.`);
    const { run } = await load();
    const services = this.#ports.services();
    const ends = { id: undefined, take: () => undefined, accepted: false };
    await run({ payload, services, caller: ownCaller(peer.gone), peer, ...ends });
  }

  /** The events of one run, from a number on. A browser that reconnects names the last that it has got. */
  #runEvents(request: Request, url: URL): Response {
    const uuid = url.searchParams.get("uuid");
    const after = Number(request.headers.get("last-event-id") ?? url.searchParams.get("after"));
    const headers = { ...HEADERS, "content-type": "text/event-stream" };
    const work = (peer: Peer): Promise<void> => this.#run("run_events", { uuid, after }, peer);
    return new Response(eventStream(work, request.signal), { headers });
  }

  async #export(request: Request, url: URL): Promise<Response> {
    const uuid = url.searchParams.get("uuid") ?? "";
    const { exportHtml } = await import("../methods/export-html.ts");
    const pageAfter = (after?: number) =>
      exportHtml.handle({ uuid, after }, this.#ports.services(), ownCaller(request.signal));
    try {
      // Fails before the first byte if the run can't be exported.
      let page = await pageAfter();
      const encoder = new TextEncoder();
      const file = new ReadableStream<Uint8Array>({
        async pull(controller) {
          controller.enqueue(encoder.encode(page.html));
          if (page.next === null) controller.close();
          else page = await pageAfter(page.next);
        },
      });
      const disposition = `attachment; filename="run-${uuid.replace(/\W/g, "").slice(0, 12)}.html"`;
      const headers = { "content-type": "text/html; charset=utf-8", "content-disposition": disposition };
      return new Response(file, { headers: { ...HEADERS, ...headers } });
    } catch (thrown) {
      return refused(422, expected(thrown).message);
    }
  }

  /** Server-sent events: the live processes and open questions, whole at first, then what has changed. */
  #changes(request: Request): Response {
    const headers = { ...HEADERS, "content-type": "text/event-stream" };
    return new Response(changeStream(this.#ports.feed, request.signal), { headers });
  }
}

function isLoopback(host: string): boolean {
  return /^127\.|^::1$|^localhost$/.test(host);
}

function form(status: number, why?: string): Response {
  return new Response(signInForm(why), { status, headers: { ...HEADERS, ...FORM } });
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
