/** Reads the requests of one client. */

import type { Clock, Timer } from "../../lib/clock.ts";
import type { ProcessOwner } from "../../os/process-table.ts";
import { serviceBehind } from "../../os/service-behind.ts";
import { socketPeer } from "../../os/socket-peer.ts";
import { SyscallError } from "../../plugin/index.ts";
import { encode, type Frame, type FrameBudget, Framer, MAX_ANSWER_BYTES } from "../../protocol/frame.ts";
import { MAX_REQUEST_BYTES, type Response, type StreamEvent } from "../../protocol/methods.ts";
import type { Services } from "../services.ts";

/** A client that reads nothing for this long, while data waits for it, is disconnected. */
const STALL_MS = 10 * 60_000;
/** The interval between empty lines to a silent stream's client that has closed its sending side. */
const PROBE_MS = 1_000;
/** Characters of a stream's events that are collected before they are written. */
const BATCH = 64 * 1024;

/** The transport of a client's bytes, a part of node:stream's Duplex: a socket or a memory stream. */
export interface ByteStream {
  on(event: "data", listener: (chunk: Buffer) => void): unknown;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "end" | "drain" | "finish" | "close", listener: () => void): unknown;
  off(event: "drain" | "finish", listener: () => void): unknown;
  /** False: wait for "drain". */
  write(text: string): boolean;
  end(): unknown;
  end(text: string, done: () => void): unknown;
  pause(): unknown;
  resume(): unknown;
  destroy(): unknown;
}

/** The client of a request, as its handler sees it. */
export interface Peer {
  /** Resolves when the client can take more; CLOSED when it has disconnected. A caller that awaits it holds one line at most. */
  send(line: Response | StreamEvent): Promise<void>;
  readonly gone: AbortSignal;
  /** Lets `gone` abort while the request is handled, and makes it the connection's last. */
  watch(): void;
}

/** What follows a request: the next one, or nothing, because a stream had the connection. */
export type Next = "next" | "close";
type Handle = (frame: Frame, peer: Peer) => Promise<Next>;

interface ConnectionOptions {
  stallMs?: number;
  /** The memory that unfinished requests of all connections may use together. */
  room?: FrameBudget;
}

/**
 * One client (seeds 5.6). Its requests are handled in order, one at a time. Reading stops while a request waits behind
 * the current one. Handling stops while the client does not read its answer. Both directions are bounded. Events of a
 * stream that a slow client misses are dropped earlier, in its channel, so it never slows a run.
 */
export class Connection {
  readonly #stream: ByteStream;
  readonly #clock: Clock;
  readonly #stallMs: number;
  readonly #framer: Framer;
  readonly #frames: Frame[] = [];
  readonly #gone = new AbortController();
  readonly #closed: Promise<void>;
  /** Events that are written together after the current tick. */
  #unsent = "";
  #flushing: NodeJS.Immediate | undefined;
  /** Resolves when the client can take more. */
  #full: Promise<void> | undefined;
  #ended = false;
  #taken = false;
  #watched = false;
  #probing: Timer | undefined;
  /** Something was written since the last empty line. */
  #wrote = false;
  #wake: (() => void) | undefined;

  constructor(stream: ByteStream, clock: Clock, { stallMs = STALL_MS, room }: ConnectionOptions = {}) {
    this.#stream = stream;
    this.#framer = new Framer(MAX_REQUEST_BYTES, room);
    this.#clock = clock;
    this.#stallMs = stallMs;
    this.#closed = new Promise((resolve) => stream.on("close", resolve));
    stream.on("data", (chunk: Buffer) => this.#queue(this.#framer.push(chunk)));
    stream.on("end", () => {
      this.#queue(this.#framer.end());
      this.#ended = true;
      if (this.#taken || this.#watched) this.#probe();
      this.#notify();
    });
    // A client may reset the connection. "close" follows and ends everything.
    stream.on("error", () => stream.destroy());
    stream.on("close", () => {
      this.#framer.release();
      this.#probing?.cancel();
      this.#gone.abort(gone());
      this.#notify();
    });
  }

  /** Serves until the client has disconnected, sends no more requests, or a stream has ended. */
  async serve(handle: Handle): Promise<void> {
    const peer: Peer = {
      send: (line) => this.#send(line),
      gone: this.#gone.signal,
      watch: () => this.#watch(),
    };
    for (;;) {
      const frame = await this.#nextFrame();
      if (!frame || (await handle(frame, peer)) === "close") break;
      this.#watched = false;
      this.#probing?.cancel();
    }
    await this.#finish();
  }

  /**
   * Drops further input, because a stream has the connection. The input is still read, to notice its end. A client that
   * has closed its sending side may still wait. Only a write shows that, so a silent stream sends empty lines then.
   */
  take(): void {
    this.#taken = true;
    this.#frames.length = 0;
    this.#stream.resume();
    if (this.#ended) this.#probe();
  }

  /**
   * For a request whose work ends with its client: the connection is read to notice its end. A request that arrives
   * meanwhile waits, and then so does the end.
   */
  #watch(): void {
    this.#watched = true;
    this.#stream.resume();
    if (this.#ended) this.#probe();
  }

  #probe(): void {
    this.#wrote = false;
    this.#probing?.cancel();
    this.#probing = this.#clock.timer(PROBE_MS, () => {
      if (!this.#wrote) this.#stream.write("\n");
      this.#probe();
    });
  }

  /** Takes no further request: the connection ends with the one under way, or now. */
  drain(): void {
    this.#frames.length = 0;
    this.#ended = true;
    this.#notify();
  }

  destroy(): void {
    this.#stream.destroy();
  }

  #queue(frames: Frame[]): void {
    if (this.#taken || this.#ended || frames.length === 0) return;
    this.#frames.push(...frames);
    this.#stream.pause();
    this.#notify();
  }

  async #nextFrame(): Promise<Frame | undefined> {
    for (;;) {
      if (this.#gone.signal.aborted) return undefined;
      const frame = this.#frames.shift();
      if (frame) return frame;
      if (this.#ended) return undefined;
      const arrived = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#stream.resume();
      await arrived;
    }
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }

  /**
   * An answer is written immediately. Events of a stream come in bursts: they are collected until the current tick is
   * done, so that a process does not wait for a write of each.
   */
  async #send(line: Response | StreamEvent): Promise<void> {
    if (this.#gone.signal.aborted) throw gone();
    this.#unsent += bounded(line);
    if ("ok" in line || this.#unsent.length >= BATCH) this.#flush();
    else this.#flushing ??= setImmediate(() => this.#flush());
    if (this.#full === undefined) return;
    await this.#full;
    if (this.#gone.signal.aborted) throw gone();
  }

  #flush(): void {
    clearImmediate(this.#flushing);
    this.#flushing = undefined;
    const text = this.#unsent;
    this.#unsent = "";
    this.#wrote ||= text !== "";
    if (text === "" || this.#gone.signal.aborted || this.#stream.write(text)) return;
    this.#full ??= this.#until("drain").then(() => {
      this.#full = undefined;
    });
  }

  /** Flushes what was written before the connection closes, as far as the client reads it. */
  async #finish(): Promise<void> {
    this.#probing?.cancel();
    this.#flush();
    if (!this.#gone.signal.aborted) {
      const flushed = this.#until("finish");
      this.#stream.end();
      await flushed;
      this.#stream.destroy();
    }
    await this.#closed;
  }

  /** Waits for the stream's event or its end; disconnects a client that causes neither in time. */
  #until(event: "drain" | "finish"): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#clock.timer(this.#stallMs, () => this.#stream.destroy());
      const done = (): void => {
        timer.cancel();
        this.#stream.off(event, done);
        this.#gone.signal.removeEventListener("abort", done);
        resolve();
      };
      this.#stream.on(event, done);
      this.#gone.signal.addEventListener("abort", done);
      if (this.#gone.signal.aborted) done();
    });
  }
}

function bounded(line: Response | StreamEvent): string {
  const text = encode(line);
  if (text.length <= MAX_ANSWER_BYTES / 4 || Buffer.byteLength(text) <= MAX_ANSWER_BYTES) return text;
  return encode({
    ok: false,
    error: {
      code: "TOO_LARGE",
      message: `The answer is longer than ${MAX_ANSWER_BYTES} bytes. Ask for it in pages with "after" and "limit".`,
    },
    ...("id" in line && { id: line.id }),
  });
}

function gone(): SyscallError {
  return new SyscallError("CLOSED", "The client has gone.");
}

/** The client that makes a request. */
export interface Caller {
  /**
   * Returns the run whose program is the client; undefined for a user's own client. What the system shows takes
   * precedence over the client's claim. Fails with PERMISSION when the run has ended or is unknown.
   */
  unit(): string | undefined;
  /** The service that has started the client, without a person who typed; see `serviceBehind`. */
  service(): string | null;
  /** Aborted when the client has disconnected. */
  gone: AbortSignal;
}

/** The user's own client, within this process. */
export function ownCaller(gone: AbortSignal): Caller {
  return { unit: () => undefined, service: () => null, gone };
}

/** Returns the run to which a client belongs. `claimed` is the client's own claim. */
export type UnitOf = (claimed: string | undefined) => string | undefined;

/**
 * `descriptor` returns the client's socket. The client is identified once, at the first request that needs it. Where
 * the system shows nothing, the claim is used.
 */
export function unitOfClient(system: Services, descriptor?: () => number | undefined): UnitOf {
  let found: ProcessOwner | undefined;
  const look = (): ProcessOwner => {
    const { ownerOf } = system;
    if (!ownerOf || !descriptor) return "no run";
    const fd = descriptor();
    return fd === undefined ? "gone" : (socketPeer(fd, ownerOf) ?? "no run");
  };
  return (claimed) => {
    found ??= look();
    if (found === "no run") return claimed;
    if (typeof found === "object") return found.uuid;
    throw refused(found);
  };
}

/** See `Caller.service`. A client that has ended is refused by its unit. */
export function serviceOfClient(descriptor?: () => number | undefined): string | null {
  const fd = descriptor?.();
  return fd === undefined ? null : socketPeer(fd, serviceBehind);
}

const REFUSED = {
  "unknown run": "This request comes from inside a run that has ended or is unknown",
  "other kernel": "This request comes from inside a run of another rnix",
  gone: "The requesting program has ended, so its run is unknown",
} as const;

function refused(why: keyof typeof REFUSED): SyscallError {
  const message = `${REFUSED[why]}. Only a live run, within its own tree, or a terminal outside of runs may start or change runs.`;
  return new SyscallError("PERMISSION", message);
}
