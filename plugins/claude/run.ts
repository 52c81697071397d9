import { type Child, type LLMEvent, type OpenContext, SyscallError, type ToolService } from "rnix/plugin";
import { ToolEndpoint } from "./endpoint.ts";
import { Lines } from "./lines.ts";
import type { Endpoint, Program } from "./program.ts";
import { brokenOff, Stream } from "./stream.ts";

/** Kept of what it prints on stderr: it is shown when it fails. */
const MOST_ERRORS = 8 * 1024;
/** After its answer the program has so long to end by itself; some versions take it, and longer. */
const LEAVE_MS = 3_000;
/** A call whose id never comes up in the stream is not held back for ever. */
const REACHED_MS = 2_000;

/** One `claude -p`, with the endpoint its tools come from. Both are gone when `end` resolves. */
export class Run {
  readonly #context: OpenContext;
  readonly #signal: AbortSignal;
  readonly #stream = new Stream((id) => this.#reached(id));
  /** Tool calls that were read of, and those that wait for it. */
  readonly #seen = new Set<string>();
  readonly #waiting = new Map<string, () => void>();
  #child: Child | undefined;
  #endpoint: ToolEndpoint | undefined;
  #ending: Promise<void> | undefined;
  #leaving: Promise<void> | undefined;
  readonly #onAbort = (): void => void this.#kill();

  constructor(context: OpenContext, signal: AbortSignal) {
    this.#context = context;
    this.#signal = signal;
  }

  /** Starts it. The events end with `stop`, or throw. */
  async start(
    prompt: string,
    tools: ToolService | undefined,
    program: (endpoint: Endpoint | undefined) => Program,
  ): Promise<AsyncIterable<LLMEvent>> {
    const { exec } = this.#context;
    if (!exec) throw new SyscallError("INTERNAL", "/dev/llm/claude was opened without the service `exec`");
    this.#signal.addEventListener("abort", this.#onAbort, { once: true });
    try {
      if (tools) this.#endpoint = this.#serve(tools);
      // What it prints is read as it comes: nothing of it is kept beside the run.
      const started = { stdin: prompt, life: "process", maxOutput: 1 } as const;
      this.#child = await exec({ ...program(this.#endpoint), ...started });
    } catch (thrown) {
      await this.#kill();
      throw thrown;
    }
    if (this.#signal.aborted) await this.#kill();
    return this.#events(this.#child);
  }

  /** The program, all it has started and the endpoint are gone when it resolves. Never rejects. */
  async end(): Promise<void> {
    await (this.#leaving ?? this.#kill());
  }

  #kill(): Promise<void> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  /** Its answer is there: it may clean up behind itself, and nobody waits for that but the end. */
  async #leave(child: Child): Promise<void> {
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, LEAVE_MS);
    await Promise.race([child.exited(), late.promise]);
    clearTimeout(timer);
    await this.#kill();
  }

  async #end(): Promise<void> {
    this.#signal.removeEventListener("abort", this.#onAbort);
    for (const go of this.#waiting.values()) go();
    const ended = await Promise.allSettled([this.#child?.kill(), this.#endpoint?.[Symbol.asyncDispose]()]);
    for (const one of ended) {
      if (one.status === "rejected") this.#context.log("warn", `claude could not be ended: ${one.reason}`);
    }
  }

  async *#events(child: Child): AsyncGenerator<LLMEvent> {
    const lines = new Lines();
    const decoder = new TextDecoder();
    let errors = "";
    try {
      for (let piece = await child.read(); piece; piece = await child.read()) {
        if (piece.fd === 2) {
          errors = (errors + decoder.decode(piece.data, { stream: true })).slice(-MOST_ERRORS);
          continue;
        }
        for (const line of lines.add(piece.data)) yield* this.#stream.events(line);
        if (this.#stream.ended) return;
      }
      for (const line of lines.end()) yield* this.#stream.events(line);
      if (this.#stream.ended) return;
      if (this.#signal.aborted) throw this.#signal.reason;
      const { code, signal } = await child.exited();
      throw brokenOff(signal === null ? `ended with ${code}` : `was ended by ${signal}`, errors);
    } finally {
      if (this.#stream.ended && !this.#signal.aborted) this.#leaving = this.#leave(child);
      else await this.#kill();
    }
  }

  #serve(tools: ToolService): ToolEndpoint {
    return new ToolEndpoint(tools, { reached: (id) => this.#until(id) });
  }

  /** A call comes by another way than the stream that tells of it: it waits until that was read. */
  async #until(id: string | undefined): Promise<void> {
    if (id === undefined || this.#seen.has(id) || this.#ending) return;
    const read = Promise.withResolvers<void>();
    this.#waiting.set(id, read.resolve);
    const timer = setTimeout(read.resolve, REACHED_MS);
    try {
      await read.promise;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(id);
    }
  }

  #reached(id: string): void {
    this.#seen.add(id);
    this.#waiting.get(id)?.();
  }
}
