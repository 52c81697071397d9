/** One program `claude -p`, from its start to its end. */

import type { LLMEvent, OpenContext, ToolService } from "rnix/plugin";
import { settledWithin } from "../_lib/within.ts";
import { CliRun, type Program } from "../_model/cli-run.ts";
import { ToolEndpoint } from "./endpoint.ts";
import type { Endpoint } from "./program.ts";
import { Stream } from "./stream.ts";

/** How long a call waits until its id is read from the stream. */
const ID_WAIT_MS = 2_000;

/** One `claude -p` with the endpoint that serves its tools. Both are gone when `end` resolves. */
export class Run {
  readonly #run: CliRun;
  /** Ids of tool calls that were read from the stream, and the calls that wait for theirs. */
  readonly #seen = new Set<string>();
  readonly #waiting = new Map<string, () => void>();
  #endpoint: ToolEndpoint | undefined;
  #ended = false;

  constructor(context: OpenContext, signal: AbortSignal) {
    const stream = new Stream((id) => this.#onId(id));
    this.#run = new CliRun(context, signal, stream, () => this.#close());
  }

  /** Starts it. The events end with `stop`, or throw. */
  start(
    tools: ToolService | undefined,
    program: (endpoint: Endpoint | undefined) => Program,
  ): Promise<AsyncIterable<LLMEvent>> {
    if (tools) this.#endpoint = new ToolEndpoint(tools, { untilIdRead: (id) => this.#untilIdRead(id) });
    return this.#run.start(program(this.#endpoint));
  }

  end(): Promise<void> {
    return this.#run.end();
  }

  async #close(): Promise<void> {
    this.#ended = true;
    for (const resolve of this.#waiting.values()) resolve();
    await this.#endpoint?.[Symbol.asyncDispose]();
  }

  /** A call arrives by HTTP, maybe before the stream has announced it: it waits until the stream was read that far. */
  async #untilIdRead(id: string | undefined): Promise<void> {
    if (id === undefined || this.#seen.has(id) || this.#ended) return;
    const read = Promise.withResolvers<void>();
    this.#waiting.set(id, read.resolve);
    await settledWithin(read.promise, ID_WAIT_MS);
    this.#waiting.delete(id);
  }

  #onId(id: string): void {
    this.#seen.add(id);
    this.#waiting.get(id)?.();
  }
}
