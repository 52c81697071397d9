/** Runs a CLI program as a model: makes its prompt of a conversation, and reads its answer. */

import {
  type Child,
  type LLMEvent,
  type LLMMessage,
  type LLMRequest,
  type OpenContext,
  type ProgramGrants,
  SyscallError,
} from "rnix/plugin";
import { JsonDepth } from "../_lib/json.ts";
import { LineSplitter, type LongLine } from "../_lib/line-splitter.ts";
import { settledWithin } from "../_lib/within.ts";

/** Reads what one CLI prints, line by line, as the events of a model device. */
export interface CliStream {
  /** The CLI's name in messages. */
  readonly name: string;
  /** What the user can check when it ends without an answer. */
  readonly advice?: string;
  /** Whether the program has printed the end of its answer. */
  readonly ended: boolean;
  /** Throws the error that the program reports. */
  events(line: string): Iterable<LLMEvent>;
}

/** An empty delta shows that the model is at work. */
export const AT_WORK: LLMEvent = { type: "reasoning_delta", text: "" };

/** A line as JSON; undefined for other text, such as a warning of the program's runtime. */
export function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (thrown) {
    if (thrown instanceof SyntaxError) return undefined;
    throw thrown;
  }
}

export interface Program {
  argv: string[];
  env: Record<string, string>;
  stdin?: string;
  grants?: ProgramGrants;
}

/** Characters of stderr that are kept, to be shown when the program fails. */
const MAX_STDERR = 8 * 1024;
const SHOWN_STDERR = 500;
/** How long a program may clean up after its answer. */
const EXIT_MS = 3_000;
/** One line may hold a tool's whole result. */
const MAX_LINE_BYTES = 64 * 1024 * 1024;

/** One run of a CLI as a model: its answer is read while it is printed. Nothing of it runs after `end`. */
export class CliRun {
  readonly #context: OpenContext;
  readonly #signal: AbortSignal;
  readonly #stream: CliStream;
  /** Ends what belongs to this run beside the program. */
  readonly #endCompanion: () => Promise<void> | undefined;
  #child: Child | undefined;
  #killing: Promise<void> | undefined;
  #exiting: Promise<void> | undefined;
  readonly #onAbort = (): void => void this.#kill();

  constructor(
    context: OpenContext,
    signal: AbortSignal,
    stream: CliStream,
    endCompanion: () => Promise<void> | undefined,
  ) {
    this.#context = context;
    this.#signal = signal;
    this.#stream = stream;
    this.#endCompanion = endCompanion;
  }

  /** Starts it. The events end with `stop`, or throw. */
  async start(program: Program): Promise<AsyncIterable<LLMEvent>> {
    const { exec } = this.#context;
    if (!exec) throw new SyscallError("INTERNAL", "a CLI's driver was opened without the service `exec`");
    this.#signal.addEventListener("abort", this.#onAbort, { once: true });
    try {
      // Its output is read as it arrives, so `exec` keeps none of it.
      this.#child = await exec({ ...program, life: "process", maxOutput: 1 });
    } catch (thrown) {
      await this.#kill();
      throw thrown;
    }
    if (this.#signal.aborted || this.#killing) await this.#child.kill();
    return this.#events(this.#child);
  }

  /** Ends the program and its children; all are gone when this resolves. Never rejects. */
  async end(): Promise<void> {
    await (this.#exiting ?? this.#kill());
  }

  #kill(): Promise<void> {
    this.#killing ??= this.#endAll();
    return this.#killing;
  }

  async #exit(child: Child): Promise<void> {
    await settledWithin(child.exited(), EXIT_MS);
    await this.#kill();
  }

  async #endAll(): Promise<void> {
    this.#signal.removeEventListener("abort", this.#onAbort);
    for (const one of await Promise.allSettled([this.#child?.kill(), this.#endCompanion()])) {
      if (one.status === "rejected") this.#context.log("warn", `A CLI could not be ended: ${one.reason}`);
    }
  }

  async *#events(child: Child): AsyncGenerator<LLMEvent> {
    const lines = new LineSplitter(MAX_LINE_BYTES);
    const depth = new JsonDepth("lines");
    const decoder = new TextDecoder();
    let stderr = "";
    try {
      for (let piece = await child.read(); piece; piece = await child.read()) {
        if (piece.fd === 2) {
          stderr = (stderr + decoder.decode(piece.data, { stream: true })).slice(-MAX_STDERR);
          continue;
        }
        if (depth.exceeds(piece.data)) throw this.#unreadable("JSON that is nested too deeply");
        for (const line of lines.push(piece.data)) yield* this.#read(line);
        if (lines.isTooLong) throw this.#unreadable(`a line of more than ${MAX_LINE_BYTES} bytes`);
        if (this.#stream.ended) return;
      }
      yield* this.#read(lines.rest());
      if (this.#stream.ended) return;
      this.#signal.throwIfAborted();
      const { code, signal } = await child.exited();
      throw this.#withoutAnswer(signal === null ? `ended with ${code}` : `was ended by ${signal}`, stderr);
    } finally {
      // How it ends after its answer does not matter: only `end` waits for that.
      if (this.#stream.ended && !this.#signal.aborted) this.#exiting = this.#exit(child);
      else await this.#kill();
    }
  }

  #read(line: string | LongLine): Iterable<LLMEvent> {
    if (typeof line !== "string") throw this.#unreadable(`a line of ${line.bytes} bytes`);
    return line.trim() === "" ? [] : this.#stream.events(line);
  }

  #unreadable(what: string): SyscallError {
    return new SyscallError("DRIVER", `${this.#stream.name} printed ${what}.`, { retryable: false });
  }

  #withoutAnswer(how: string, stderr: string): SyscallError {
    const { name, advice } = this.#stream;
    const output = stderr.trim() === "" ? "" : `: ${stderr.trim().slice(-SHOWN_STDERR)}`;
    const hint = advice === undefined ? "" : `. ${advice}`;
    return new SyscallError("UNAVAILABLE", `${name} ${how} before its answer was complete${output}${hint}`, {
      retryable: true,
    });
  }
}

const HEAD =
  "This conversation has gone on before. Here is what was said and done so far, oldest first, one JSON object a line; results of tools have the role `tool`.";
const TAIL = "That was the conversation so far. Go on from there.";

/**
 * The prompt for a program without sessions: the whole conversation as one text. A single message is the prompt
 * itself.
 */
export function promptOf({ intent, messages }: LLMRequest): string {
  const last = messages.at(-1);
  if (!last) return intent;
  if (messages.length === 1) return last.content;
  const asked = last.role === "user" ? last : undefined;
  const earlier = asked ? messages.slice(0, -1) : messages;
  return [HEAD, ...earlier.map(line), asked ? `${TAIL}\n\n${asked.content}` : TAIL].join("\n");
}

/** One earlier message as JSON, so that its text stays in one line. */
function line({ role, content, tool_call_id, tool_calls, images }: LLMMessage): string {
  return JSON.stringify({ role, content, tool_call_id, tool_calls, images: images?.length });
}
