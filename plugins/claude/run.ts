import type { LLMEvent, OpenContext, ToolService } from "rnix/plugin";
import { CliRun, type Program } from "../_model/cli-run.ts";
import { ToolEndpoint } from "./endpoint.ts";
import type { Endpoint } from "./program.ts";
import { Stream } from "./stream.ts";

/** A call whose id never comes up in the stream is not held back for ever. */
const REACHED_MS = 2_000;

/** One `claude -p`, with the endpoint its tools come from. Both are gone when `end` resolves. */
export class Run {
  readonly #run: CliRun;
  /** Tool calls that were read of, and those that wait for it. */
  readonly #seen = new Set<string>();
  readonly #waiting = new Map<string, () => void>();
  #endpoint: ToolEndpoint | undefined;
  #ended = false;

  constructor(context: OpenContext, signal: AbortSignal) {
    const stream = new Stream((id) => this.#reached(id));
    this.#run = new CliRun(context, signal, stream, () => this.#close());
  }

  /** Starts it. The events end with `stop`, or throw. */
  start(
    tools: ToolService | undefined,
    program: (endpoint: Endpoint | undefined) => Program,
  ): Promise<AsyncIterable<LLMEvent>> {
    if (tools) this.#endpoint = new ToolEndpoint(tools, { reached: (id) => this.#until(id) });
    return this.#run.start(program(this.#endpoint));
  }

  end(): Promise<void> {
    return this.#run.end();
  }

  async #close(): Promise<void> {
    this.#ended = true;
    for (const go of this.#waiting.values()) go();
    await this.#endpoint?.[Symbol.asyncDispose]();
  }

  /** A call comes by another way than the stream that tells of it: it waits until that was read. */
  async #until(id: string | undefined): Promise<void> {
    if (id === undefined || this.#seen.has(id) || this.#ended) return;
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
