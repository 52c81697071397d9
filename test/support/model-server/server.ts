import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { type Call, type Dialect, dialects, type RequestBody } from "./dialects/index.ts";
import type { Fault, Script, Turn } from "./script.ts";

export type { Fault, Script, Turn } from "./script.ts";

/** A request as it arrived, stored for assertions. */
export interface RecordedRequest {
  /** 0 for the first request of the server's life. */
  index: number;
  method: string;
  path: string;
  headers: Headers;
  body: RequestBody;
  model: string;
  /** A stream was asked for. */
  stream: boolean;
  text: string;
  assistantMessages: number;
  /** performance.now() when the request was read whole. */
  at: number;
  /** Whether the answer was sent whole, or the client went (or was cut) before. */
  closed: Promise<"answered" | "aborted">;
}

/** Decides by the request; may wait for a condition of the test before it answers. */
export type TurnFunction = (request: RecordedRequest) => Turn | Promise<Turn>;

/**
 * A scripted model on 127.0.0.1: OpenAI chat completions and Responses, Anthropic Messages, Gemini, streamed and
 * not, from one script of turns. `node:http` and not `Bun.serve`, because only it can tear down a
 * connection in the middle of an answer.
 */
export class ModelServer {
  /** Without `/v1`: for ANTHROPIC_BASE_URL and GOOGLE_GEMINI_BASE_URL. */
  readonly url: string;
  /** With `/v1`: for OPENAI_BASE_URL. */
  readonly openaiUrl: string;
  readonly requests: RecordedRequest[] = [];
  readonly #server: Server;
  readonly #script: Script | TurnFunction;
  #arrivals: { count: number; resolve: () => void }[] = [];

  private constructor(server: Server, script: Script | TurnFunction, url: string) {
    this.#server = server;
    this.#script = script;
    this.url = url;
    this.openaiUrl = `${this.url}/v1`;
  }

  /** A list of turns is the script `{turns}`. Port 0: a free one. With a certificate it speaks TLS. */
  static async start(
    script: Script | Turn[] | TurnFunction,
    port = 0,
    tls?: { key: string; cert: string },
  ): Promise<ModelServer> {
    const server = tls === undefined ? createServer() : createSecureServer(tls);
    const started = Promise.withResolvers<void>();
    server.once("error", started.reject);
    server.listen(port, "127.0.0.1", () => started.resolve());
    await started.promise;
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("the server has no TCP address");
    const url = `${tls === undefined ? "http" : "https"}://127.0.0.1:${address.port}`;
    const model = new ModelServer(server, Array.isArray(script) ? { turns: script } : script, url);
    server.on("request", (request, response) => void model.#handle(request, response));
    return model;
  }

  /** The request that arrived first. */
  get first(): RecordedRequest {
    return this.#at(0);
  }

  /** The request that arrived last. */
  get last(): RecordedRequest {
    return this.#at(-1);
  }

  /** Resolves when this many requests have arrived since the start. */
  arrived(count: number): Promise<void> {
    if (this.requests.length >= count) return Promise.resolve();
    return new Promise((resolve) => this.#arrivals.push({ count, resolve }));
  }

  /** Ends every connection, also hanging ones. */
  async stop(): Promise<void> {
    const ended = Promise.withResolvers<void>();
    this.#server.close(() => ended.resolve());
    this.#server.closeAllConnections();
    await ended.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #at(index: number): RecordedRequest {
    const request = this.requests.at(index);
    if (request === undefined) throw new Error("the model was never asked");
    return request;
  }

  async #handle(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    const reply = new Reply(outgoing);
    const path = new URL(incoming.url ?? "/", this.url).pathname;
    const text = await bodyText(incoming);
    if (text === undefined) return;
    const isList = path === "/v1/models" || path === "/v1beta/models";
    if (isList && !this.#opensWith(incoming.headers)) {
      const error = { message: "Incorrect API key provided", type: "authentication_error" };
      return reply.json(401, { type: "error", error });
    }
    if (path === "/v1/models") return reply.json(200, { object: "list", data: this.#models() });
    if (path === "/v1beta/models")
      return reply.json(200, { models: this.#models().map(({ id }) => ({ name: `models/${id}` })) });
    const dialect = dialects.find((one) => one.asked(path) !== undefined);
    if (dialect === undefined || incoming.method !== "POST")
      return reply.json(404, {
        error: { message: `no such path: ${incoming.method} ${path}`, type: "not_found" },
      });

    const request = this.#record(incoming, path, text, dialect, reply);
    try {
      const turn = refusal(this.#script, request, dialect) ?? (await this.#turn(request));
      play(turn, request, dialect, reply);
    } catch (error) {
      reply.json(500, dialect.error(500, undefined, `the script failed: ${String(error)}`));
    }
  }

  #record(
    incoming: IncomingMessage,
    path: string,
    text: string,
    dialect: Dialect,
    reply: Reply,
  ): RecordedRequest {
    const body: RequestBody = JSON.parse(text);
    const { model = body.model ?? "scripted", stream = body.stream === true } = dialect.asked(path) ?? {};
    const request: RecordedRequest = {
      index: this.requests.length,
      method: incoming.method ?? "",
      path,
      headers: new Headers(
        Object.entries(incoming.headers).map(([name, value]): [string, string] => [name, String(value)]),
      ),
      body,
      model,
      stream,
      text,
      assistantMessages: dialect.assistantMessages(body),
      at: performance.now(),
      closed: reply.closed,
    };
    this.requests.push(request);
    const waiting = this.#arrivals;
    this.#arrivals = waiting.filter((one) => one.count > this.requests.length);
    for (const one of waiting) if (one.count <= this.requests.length) one.resolve();
    return request;
  }

  async #turn(request: RecordedRequest): Promise<Turn> {
    if (typeof this.#script === "function") return await this.#script(request);
    const { turns, loop, position } = this.#script;
    const at = position === "conversation" ? request.assistantMessages : request.index;
    const turn = turns[loop === true && turns.length > 0 ? at % turns.length : at];
    if (turn !== undefined) return turn;
    const message = `the script has ${turns.length} turns and was asked for turn ${at + 1}`;
    return { fault: { kind: "status", status: 400, message } };
  }

  /** Whether a script that asks for a key gets it. */
  #opensWith({ authorization, ...headers }: IncomingMessage["headers"]): boolean {
    const key = typeof this.#script === "function" ? undefined : this.#script.key;
    const given = authorization?.replace(/^Bearer /, "") ?? headers["x-api-key"] ?? headers["x-goog-api-key"];
    return key === undefined || given === key;
  }

  #models(): { id: string; object: string }[] {
    const ids = (typeof this.#script === "function" ? undefined : this.#script.models) ?? [
      "scripted",
      "m",
      "small",
      "gpt-5",
    ];
    return ids.map((id) => ({ id, object: "model" }));
  }
}

function refusal(
  script: Script | TurnFunction,
  request: RecordedRequest,
  dialect: Dialect,
): Turn | undefined {
  if (typeof script === "function") return undefined;
  if (script.key !== undefined && dialect.key(request.headers) !== script.key)
    return { fault: { kind: "status", status: 401, message: "Incorrect API key provided" } };
  if (script.models !== undefined && !script.models.includes(request.model))
    return {
      fault: { kind: "status", status: 404, message: `The model ${request.model} does not exist` },
    };
  return undefined;
}

function play(turn: Turn, request: RecordedRequest, dialect: Dialect, reply: Reply): void {
  const { fault } = turn;
  if (fault !== undefined && answeredWhole(fault, dialect, reply)) return;
  const call = { index: request.index, model: request.model };
  if (request.stream) playStream(turn, call, dialect, reply);
  else playWhole(turn, call, dialect, reply);
}

function playStream(turn: Turn, call: Call, dialect: Dialect, reply: Reply): void {
  const { frames, head } = dialect.stream(turn, call);
  reply.begin("text/event-stream", turn.headers);
  if (turn.fault !== undefined) {
    breakOff(turn.fault, frames.slice(0, head).join(""), dialect, reply);
    return;
  }
  if (turn.torn !== undefined) {
    void reply.tear(frames.join(""), turn.torn);
    return;
  }
  if (turn.pace_ms !== undefined) {
    void reply.pace(frames, turn.pace_ms);
    return;
  }
  for (const frame of frames) reply.write(frame);
  reply.end("");
}

function playWhole(turn: Turn, call: Call, dialect: Dialect, reply: Reply): void {
  const { fault } = turn;
  const body = JSON.stringify(dialect.answer(turn, call));
  if (fault?.kind === "error_event") {
    reply.json(200, dialect.error(200, fault.code, fault.message ?? fault.code));
    return;
  }
  reply.begin("application/json", turn.headers);
  if (fault === undefined) reply.end(body);
  else breakOff(fault, body.slice(0, Math.floor(body.length / 2)), dialect, reply);
}

/** Faults that look the same whether or not a stream was asked for. False: not one of these. */
function answeredWhole(fault: Fault, dialect: Dialect, reply: Reply): boolean {
  switch (fault.kind) {
    case "status": {
      const message = fault.message ?? `scripted status ${fault.status}`;
      reply.json(fault.status, fault.body ?? dialect.error(fault.status, fault.code, message), fault.headers);
      return true;
    }
    case "error_body":
      reply.json(200, dialect.error(200, fault.code, fault.message ?? fault.code));
      return true;
    case "web_page":
      reply.begin("text/html; charset=utf-8");
      reply.end("<!doctype html><title>Sign in</title><p>Welcome");
      return true;
    case "hang":
      return true;
    default:
      return false;
  }
}

function breakOff(fault: Fault, head: string, dialect: Dialect, reply: Reply): void {
  switch (fault.kind) {
    case "hang_midway":
      reply.write(head);
      break;
    case "cut":
      reply.cut(head);
      break;
    case "end_early":
      reply.end(head);
      break;
    case "error_event":
      reply.end(head + dialect.errorEvent(fault.code, fault.message ?? fault.code));
      break;
    case "garbage":
      reply.end("data: {\u0000\u001b[31mnot json\n\ndata: ]]>\n\n");
      break;
  }
}

/** The answer under way. Writing after the client has disconnected is harmless. */
class Reply {
  readonly closed: Promise<"answered" | "aborted">;
  readonly #response: ServerResponse;

  constructor(response: ServerResponse) {
    this.#response = response;
    this.closed = new Promise((resolve) => {
      response.once("close", () => resolve(response.writableFinished ? "answered" : "aborted"));
    });
  }

  json(status: number, body: unknown, headers: Record<string, string> = {}): void {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    this.#response.writeHead(status, { "content-type": "application/json", ...headers });
    this.#response.end(text);
  }

  begin(contentType: string, headers: Record<string, string> = {}): void {
    const usual = { "content-type": contentType, "cache-control": "no-cache" };
    this.#response.writeHead(200, { ...usual, ...headers });
    this.#response.flushHeaders();
  }

  write(text: string): void {
    this.#response.write(text);
  }

  end(text: string): void {
    this.#response.end(text);
  }

  /** Each piece is on its way before the next one is. */
  async tear(text: string, bytes: number): Promise<void> {
    const all = Buffer.from(text);
    for (let at = 0; at < all.length && !this.#response.destroyed; at += bytes)
      await new Promise<void>((sent) => this.#response.write(all.subarray(at, at + bytes), () => sent()));
    this.#response.end();
  }

  /** Sends a frame each `ms`, until the client has gone. */
  async pace(frames: readonly string[], ms: number): Promise<void> {
    for (const frame of frames) {
      if (this.#response.destroyed) return;
      this.#response.write(frame);
      await new Promise<void>((next) => setTimeout(next, ms));
    }
    this.#response.end();
  }

  /** Sends the beginning, and tears the connection down once it has left. */
  cut(text: string): void {
    this.#response.write(text, () => this.#response.destroy());
  }
}

/** undefined: the client was killed, or has given up, before it had sent all of it. */
async function bodyText(incoming: IncomingMessage): Promise<string | undefined> {
  const chunks: Uint8Array[] = [];
  try {
    for await (const chunk of incoming) chunks.push(chunk);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ECONNRESET") return undefined;
    throw error;
  }
  return Buffer.concat(chunks).toString("utf8");
}
