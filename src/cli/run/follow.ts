/** Follows a run and prints its events in the requested form. */

import { messageOf } from "../../lib/error-detail.ts";
import { CODES, type Code, SyscallError } from "../../plugin/errors.ts";
import type { BegunRun, ProcRef, Receipt, StreamEvent } from "../../protocol/methods.ts";
import { EXIT, errorCodeOf, exitCodeOf } from "../exit.ts";
import type { Io } from "../io.ts";
import type { Heartbeat } from "../output/heartbeat.ts";
import { PlainView } from "../output/plain-view.ts";
import type { RunOutput } from "../output/run-output.ts";
import type { QuestionPrompt } from "../questions/question-prompt.ts";
import type { Attention } from "../terminal/attention.ts";
import type { LiveOptions } from "../terminal/live-view.ts";

/** Whether the terminal can be drawn on. Elsewhere the output is plain lines. */
function canDraw(io: Io): boolean {
  const { env } = io;
  return !env.NO_COLOR && !env.CI && env.TERM !== "dumb" && io.terminal() !== null;
}

export const OUTPUTS = ["text", "json", "jsonl"] as const;
export type OutputMode = (typeof OUTPUTS)[number];

/** Prints one run in the requested output form. */
export class Follower {
  readonly #io: Io;
  readonly #mode: OutputMode;
  readonly view: RunOutput;
  #heartbeat: Heartbeat | undefined;
  #attention: Attention | undefined;
  #ref: ProcRef = { pid: 0, uuid: "" };
  /** The last object is printed. */
  #hasEnded = false;
  #asker: Pick<QuestionPrompt, "ask" | "over"> | null = null;

  constructor(
    io: Io,
    mode: OutputMode,
    o: { quiet: boolean; view?: RunOutput; resumeFlags?: readonly string[] },
  ) {
    this.#io = io;
    this.#mode = mode;
    this.view = o.view ?? new PlainView(io, { ...o, answer: mode === "text" });
  }

  /** With the live view where it can be used, which is loaded only then. */
  static async open(
    io: Io,
    mode: OutputMode,
    o: LiveOptions & { quiet: boolean; resumeFlags?: readonly string[] },
  ): Promise<Follower> {
    const isDrawn = mode === "text" && !o.quiet && canDraw(io);
    const view = isDrawn ? (await import("../terminal/live-view.ts")).openLiveView(io, o) : undefined;
    const follower = new Follower(io, mode, { ...o, view });
    if (io.env.CI && !o.quiet) {
      const { Heartbeat } = await import("../output/heartbeat.ts");
      follower.#heartbeat = new Heartbeat(io, (line) => follower.view.say(line));
    }
    if (io.stderr.isTTY) follower.#attention = new (await import("../terminal/attention.ts")).Attention(io);
    return follower;
  }

  /** Gives the run's questions to a prompt, where a person can answer them. */
  answerWith(asker: Pick<QuestionPrompt, "ask" | "over"> | null): void {
    this.#asker = asker;
  }

  /** The run has a PID. For a detached run, this prints PID and UUID, and nothing follows. */
  begin({ pid, uuid, notices = [] }: BegunRun, detached: boolean): void {
    this.#ref = { pid, uuid };
    if (!detached) return;
    for (const text of notices) this.view.notice(text);
    if (this.#mode === "text") this.#io.stdout.write(`${pid} ${uuid}\n`);
    else this.#print(this.#ref);
  }

  /** Returns the receipt when the run ends. Throws if the run never began or the connection is lost. */
  async follow(events: AsyncIterable<StreamEvent>): Promise<Receipt> {
    for await (const event of this.view.paced?.(events) ?? events) {
      if (event.type === "error") throw neverBorn(event.payload);
      if (this.#mode === "jsonl" && event.type !== "eof") this.#print(event);
      this.#heartbeat?.seen(event);
      this.#show(event);
      await this.#attention?.seen(event);
      if (event.type === "complete") {
        const { event: _, ...receipt } = event.payload;
        if (this.#mode === "json") this.#print(receipt);
        this.#hasEnded = true;
        return receipt;
      }
      await this.#io.stdout.drained();
      await this.#io.stderr.drained();
    }
    throw new SyscallError(
      "UNAVAILABLE",
      "the connection closed before the run ended; it may still be running: see rnix ps -a",
    );
  }

  #show(event: StreamEvent): void {
    if (this.#asker && event.type === "ask_user") this.#asker.ask(event.payload);
    else if (this.#asker && event.type === "ask_closed") this.#asker.over(event.payload);
    else this.view.show(event);
  }

  /**
   * Prints the error for programs (json, jsonl) when there is no receipt: one object for every ending. Returns the
   * receipt of the run that did not begin or was lost; null when the run has ended and has a receipt.
   */
  failed(error: unknown): Receipt | null {
    this.#heartbeat?.stop();
    if (this.#hasEnded) return null;
    const payload = {
      code: errorCodeOf(error),
      message: messageOf(error),
    };
    const receipt = receiptWithoutRun(exitCodeOf(error), payload, this.#ref);
    if (this.#mode === "json") this.#print(receipt);
    if (this.#mode === "jsonl") {
      const event = { event: "error" as const, error_message: payload.message, code: payload.code };
      this.#print({ type: "error", payload: event } satisfies StreamEvent);
    }
    return receipt;
  }

  #print(value: object): void {
    this.#io.stdout.write(`${JSON.stringify(value)}\n`);
  }
}

function neverBorn(payload: { error_message: string; code: string }): SyscallError {
  const code: Code = CODES.find((known) => known === payload.code) ?? "INTERNAL";
  const cause = { code: payload.code, message: payload.error_message };
  return new SyscallError(code, payload.error_message, { cause });
}

function receiptWithoutRun(
  exitCode: number,
  error: { code: string; message: string },
  ref: ProcRef,
): Receipt {
  return {
    ...ref,
    agent: "",
    provider: "",
    model: "",
    exit_code: exitCode,
    exit_reason: error.code === "TIMEOUT" ? "timeout" : (REASONS[exitCode] ?? "failed"),
    suspended: null,
    result: null,
    partial: false,
    output: null,
    steps: 0,
    tool_calls: 0,
    tokens_used: 0,
    usage: { input_tokens: 0, output_tokens: 0, cached_tokens: 0 },
    cost_usd: null,
    elapsed_ms: 0,
    notices: [],
    checks: [],
    sandbox: "none",
    base: null,
    files_changed: [],
    files_changed_complete: false,
    children: [],
    error,
  };
}

const REASONS: Record<number, string> = {
  [EXIT.usage]: "usage",
  [EXIT.unavailable]: "unavailable",
  [EXIT.interrupted]: "interrupted",
};
