/** A client's connection to a server: requests, answers and streams. */

import { type Clock, realClock } from "../lib/clock.ts";
import { CODES, type Code, SyscallError } from "../plugin/errors.ts";
import { encode, type Frame, Framer, MAX_ANSWER_BYTES } from "../protocol/frame.ts";
import type { Response, StreamEvent, WireError } from "../protocol/methods.ts";
import type {
  Answers,
  Method,
  Payload,
  PlainMethod,
  StreamingMethod,
} from "../server/methods/method-table.ts";

/** The default deadline of an answer. */
const ANSWER_MS = 30_000;
/** A run begins when it has its key. The key's command may take a minute, and wait for two that run before it. */
const BEGIN_MS = 4 * 60_000;
const BEGINS: ReadonlySet<Method> = new Set(["spawn", "resume", "replay"]);
/** Maximum events read ahead of the caller; beyond it the server waits. */
const READ_AHEAD = 256;

interface RequestOptions {
  /** null: no deadline while the connection lives. */
  timeoutMs?: number | null;
}

/**
 * One connection to a server over a pipe. Several requests may follow each other; a stream takes over the connection
 * and is its last use. Every failure is a SyscallError; one of the server has the protocol's error as its cause.
 */
export class Client {
  readonly #pipe: Pipe;
  readonly #clock: Clock;
  readonly #unit: string | undefined;
  readonly #framer = new Framer(MAX_ANSWER_BYTES);
  readonly #pending: PendingRequest[] = [];
  #events: Events | undefined;
  #lost: SyscallError | undefined;
  #nextId = 1;

  /** `unit`: RNIX_UNIT of the command's environment, the process that the command runs in. */
  constructor(pipe: Pipe, { unit, clock = realClock }: { unit?: string; clock?: Clock } = {}) {
    this.#pipe = pipe;
    this.#clock = clock;
    this.#unit = unit;
    pipe.listen({
      data: (chunk) => this.#take(this.#framer.push(chunk)),
      closed: (cause) => this.#fail(lost(cause)),
    });
  }

  /** Whether the connection was lost or closed. */
  get isLost(): boolean {
    return this.#lost !== undefined;
  }

  /** Sends a request and returns the answer's payload. */
  async request<M extends PlainMethod>(
    method: M,
    payload: Payload<M>,
    o: RequestOptions = {},
  ): Promise<Answers[M]> {
    return this.#ask(method, payload, o);
  }

  /** Begins a stream. Resolves when the server has accepted it; the stream then yields its events. */
  async open<M extends StreamingMethod>(
    method: M,
    payload: Payload<M>,
    o: RequestOptions = {},
  ): Promise<Stream<M>> {
    const events = new Events(this.#pipe, () => this.close());
    this.#events = events;
    try {
      return {
        answer: await this.#ask(method, payload, o),
        close: () => this.close(),
        [Symbol.asyncIterator]: () => events,
      };
    } catch (error) {
      this.#events = undefined;
      throw error;
    }
  }

  close(): void {
    this.#end(new SyscallError("CLOSED", "The connection to the server was closed by this command."));
  }

  async #ask<M extends Method>(method: M, payload: object, o: RequestOptions): Promise<Answers[M]> {
    if (this.#lost) throw this.#lost;
    const id = this.#nextId++;
    const { timeoutMs = BEGINS.has(method) ? BEGIN_MS : ANSWER_MS } = o;
    return new Promise((resolve, reject) => {
      // The server is ours and answers each method by `Answers`.
      const waiting: PendingRequest = { id, resolve: (answered) => resolve(answered as Answers[M]), reject };
      if (timeoutMs !== null) {
        const message = `The server did not answer "${method}" within ${timeoutMs} ms. \`rnix daemon status\` shows whether it is alive; \`rnix daemon stop --now\` ends it.`;
        waiting.timer = this.#clock.timer(timeoutMs, () => this.#end(new SyscallError("TIMEOUT", message)));
      }
      this.#pending.push(waiting);
      this.#pipe.write(encode({ method, payload, id, ...(this.#unit && { unit: this.#unit }) }));
    });
  }

  #take(frames: Frame[]): void {
    for (const frame of frames) {
      const message = parse(frame);
      if (message instanceof SyscallError) return void this.#end(message);
      if ("ok" in message) this.#settle(message);
      else this.#events?.push(message);
    }
  }

  #settle(answer: Response): void {
    // An answer without an id is about a line that the server could not read: it belongs to the oldest request.
    const at = answer.id === undefined ? 0 : this.#pending.findIndex((waiting) => waiting.id === answer.id);
    const [waiting] = at < 0 ? [] : this.#pending.splice(at, 1);
    if (!waiting) return;
    waiting.timer?.cancel();
    if (answer.ok) waiting.resolve(answer.payload ?? {});
    else waiting.reject(fromWire(answer.error));
  }

  #end(error: SyscallError): void {
    this.#fail(error);
    this.#pipe.close();
  }

  #fail(error: SyscallError): void {
    this.#lost ??= error;
    for (const waiting of this.#pending.splice(0)) {
      waiting.timer?.cancel();
      waiting.reject(this.#lost);
    }
    this.#events?.end(this.#lost);
  }
}

/** A running stream. Iterating it ends after `complete`, `error` or `eof`; a cut connection throws. */
export interface Stream<M extends StreamingMethod> extends AsyncIterable<StreamEvent> {
  /** The server's answer when it accepted the stream. */
  readonly answer: Answers[M];
  close(): void;
}

/** Whether the error came from the server, and not from a lost connection. */
export function isServerError(error: unknown): boolean {
  return error instanceof SyscallError && isWireError(error.cause);
}

/** Maps the protocol's own codes to the nearest codes of the kernel. */
const PROTOCOL_CODES: Record<string, Code> = {
  BAD_REQUEST: "INVALID",
  TOO_LARGE: "INVALID",
  UNKNOWN_METHOD: "UNAVAILABLE",
  VERSION: "UNAVAILABLE",
};

/** Converts an error of the protocol to a SyscallError, whose cause is the original. */
export function fromWire(error: WireError): SyscallError {
  const { syscall, device } = error;
  const code = CODES.find((known) => known === error.code) ?? PROTOCOL_CODES[error.code] ?? "INTERNAL";
  return new SyscallError(code, error.message, { cause: error, syscall, device });
}

interface PendingRequest {
  id: number;
  timer?: { cancel(): void };
  resolve(payload: unknown): void;
  reject(error: SyscallError): void;
}

/** The events of one stream, read ahead a little: the socket is paused while the caller is behind. */
class Events implements AsyncIterator<StreamEvent> {
  readonly #pipe: Pipe;
  readonly #finish: () => void;
  readonly #items: StreamEvent[] = [];
  #reader: { resolve(r: IteratorResult<StreamEvent>): void; reject(e: SyscallError): void } | undefined;
  #last = false;
  #lost: SyscallError | undefined;

  constructor(pipe: Pipe, finish: () => void) {
    this.#pipe = pipe;
    this.#finish = finish;
  }

  push(event: StreamEvent): void {
    if (this.#last) return;
    if (event.type === "complete" || event.type === "error" || event.type === "eof") this.#last = true;
    const reader = this.#reader;
    this.#reader = undefined;
    if (reader) reader.resolve({ done: false, value: event });
    else this.#items.push(event);
    if (this.#items.length >= READ_AHEAD) this.#pipe.pause();
  }

  end(error: SyscallError): void {
    this.#lost ??= error;
    const reader = this.#reader;
    this.#reader = undefined;
    if (this.#last) reader?.resolve({ done: true, value: undefined });
    else reader?.reject(this.#lost);
  }

  next(): Promise<IteratorResult<StreamEvent>> {
    const value = this.#items.shift();
    if (value) return Promise.resolve({ done: false, value });
    if (this.#last) {
      this.#finish();
      return Promise.resolve({ done: true, value: undefined });
    }
    if (this.#lost) return Promise.reject(this.#lost);
    this.#pipe.resume();
    return new Promise((resolve, reject) => {
      this.#reader = { resolve, reject };
    });
  }

  return(): Promise<IteratorResult<StreamEvent>> {
    this.#finish();
    return Promise.resolve({ done: true, value: undefined });
  }
}

function parse(frame: Frame): Response | StreamEvent | SyscallError {
  if (frame.kind === "too_large") {
    return new SyscallError(
      "EXHAUSTED",
      `The server's answer is longer than ${MAX_ANSWER_BYTES} bytes. Ask for it in pages with "after" and "limit".`,
    );
  }
  if (frame.kind !== "line") return garbage("bytes that are not UTF-8");
  try {
    const value: unknown = JSON.parse(frame.text);
    return isMessage(value) ? value : garbage(frame.text);
  } catch (cause) {
    return garbage(frame.text, cause);
  }
}

/** The server is ours: its lines are not validated with a library that takes longer to load than the request. */
function isMessage(value: unknown): value is Response | StreamEvent {
  return typeof value === "object" && value !== null && ("ok" in value || "type" in value);
}

/** System errors of a lost connection also have a code and a message. */
function isWireError(value: unknown): value is WireError {
  if (value instanceof Error) return false;
  return typeof value === "object" && value !== null && "code" in value && "message" in value;
}

function garbage(text: string, cause?: unknown): SyscallError {
  return new SyscallError(
    "INTERNAL",
    `Expected a line of the rnix protocol from the server, got: ${text.slice(0, 80)}. Is something else listening on the socket?`,
    { cause },
  );
}

function lost(cause?: unknown): SyscallError {
  return new SyscallError(
    "UNAVAILABLE",
    "The connection to the daemon was lost before its answer. What was asked may have been done: look before you repeat it (`rnix ps -a` lists the runs).",
    { cause },
  );
}

/** The transport of a client's bytes: a socket or a memory stream. */
export interface Pipe {
  /** Called once, before the first write. After `closed` no more events follow. */
  listen(listener: PipeListener): void;
  /** Never blocks: unsent bytes are buffered. */
  write(text: string): void;
  /** Pauses reading: the other side must wait. */
  pause(): void;
  resume(): void;
  /** Closes immediately; unsent bytes are lost. Safe to call again. */
  close(): void;
}

export interface PipeListener {
  data(chunk: Uint8Array): void;
  closed(cause?: Error): void;
}
