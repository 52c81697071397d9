import { type Child, type LLMEvent, type OpenContext, SyscallError } from "rnix/plugin";
import { Lines } from "./lines.ts";

/** What a CLI prints, line by line, as the events of a model device. */
export interface CliStream {
  /** The program has said how its answer ended. */
  readonly ended: boolean;
  /** Throws what the program has failed of. */
  events(line: string): Iterable<LLMEvent>;
  /** What to say when it ends without a word on it. `how`: "ended with 1". */
  brokenOff(how: string, errors: string): SyscallError;
}

export interface Program {
  argv: string[];
  env: Record<string, string>;
  stdin?: string;
}

/** Kept of what it prints on stderr: it is shown when it fails. */
const MOST_ERRORS = 8 * 1024;
/** After its answer a program has so long to clean up behind itself. */
const LEAVE_MS = 3_000;

/** One run of a CLI that is a model: its answer is read as it is printed. Nothing of it is left after `end`. */
export class CliRun {
  readonly #context: OpenContext;
  readonly #signal: AbortSignal;
  readonly #stream: CliStream;
  /** What ends with it. */
  readonly #beside: () => Promise<void> | undefined;
  #child: Child | undefined;
  #killing: Promise<void> | undefined;
  #leaving: Promise<void> | undefined;
  readonly #onAbort = (): void => void this.#kill();

  constructor(
    context: OpenContext,
    signal: AbortSignal,
    stream: CliStream,
    beside: () => Promise<void> | undefined,
  ) {
    this.#context = context;
    this.#signal = signal;
    this.#stream = stream;
    this.#beside = beside;
  }

  /** Starts it. The events end with `stop`, or throw. */
  async start(program: Program): Promise<AsyncIterable<LLMEvent>> {
    const { exec } = this.#context;
    if (!exec) throw new SyscallError("INTERNAL", "a CLI's driver was opened without the service `exec`");
    this.#signal.addEventListener("abort", this.#onAbort, { once: true });
    try {
      // What it prints is read as it comes: nothing of it is kept beside the run.
      this.#child = await exec({ ...program, life: "process", maxOutput: 1 });
    } catch (thrown) {
      await this.#kill();
      throw thrown;
    }
    if (this.#signal.aborted || this.#killing) await this.#child.kill();
    return this.#events(this.#child);
  }

  /** The program and all it has started are gone when it resolves. Never rejects. */
  async end(): Promise<void> {
    await (this.#leaving ?? this.#kill());
  }

  #kill(): Promise<void> {
    this.#killing ??= this.#endAll();
    return this.#killing;
  }

  async #leave(child: Child): Promise<void> {
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, LEAVE_MS);
    await Promise.race([child.exited().catch(() => undefined), late.promise]);
    clearTimeout(timer);
    await this.#kill();
  }

  async #endAll(): Promise<void> {
    this.#signal.removeEventListener("abort", this.#onAbort);
    for (const one of await Promise.allSettled([this.#child?.kill(), this.#beside()])) {
      if (one.status === "rejected") this.#context.log("warn", `A CLI could not be ended: ${one.reason}`);
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
      this.#signal.throwIfAborted();
      const { code, signal } = await child.exited();
      throw this.#stream.brokenOff(signal === null ? `ended with ${code}` : `was ended by ${signal}`, errors);
    } finally {
      // How it ends after its answer does not matter, and nobody waits for that but the end.
      if (this.#stream.ended && !this.#signal.aborted) this.#leaving = this.#leave(child);
      else await this.#kill();
    }
  }
}
