/** Follows a run and prints its events in the requested form. */

import { isServerError } from "../../client/client.ts";
import { messageOf } from "../../lib/error-detail.ts";
import { CODES, type Code, SyscallError } from "../../plugin/errors.ts";
import type { BegunRun, ProcRef, Receipt, StreamEvent } from "../../protocol/methods.ts";
import { errorCodeOf, exitCodeOf } from "../exit.ts";
import type { Io, Session } from "../io.ts";
import type { Heartbeat } from "../output/heartbeat.ts";
import { inertJson } from "../output/pipeline-text.ts";
import { QuietView } from "../output/quiet-view.ts";
import type { RunOutput } from "../output/run-output.ts";
import type { QuestionPrompt } from "../questions/question-prompt.ts";
import type { LiveOptions } from "../terminal/live-view.ts";
import type { Attention } from "../terminal/notify.ts";

/** Whether the terminal can be drawn on. Elsewhere the output is plain lines. */
function canDraw(io: Io): boolean {
  const { env } = io;
  return !env.NO_COLOR && !env.CI && env.TERM !== "dumb" && io.terminal() !== null;
}

export const OUTPUTS = ["text", "json", "jsonl"] as const;
export type OutputMode = (typeof OUTPUTS)[number];

type ViewOptions = LiveOptions & { quiet: boolean; resumeFlags?: readonly string[] };

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

  constructor(io: Io, mode: OutputMode, view: RunOutput = new QuietView(io, { answer: mode === "text" })) {
    this.#io = io;
    this.#mode = mode;
    this.view = view;
  }

  static async open(io: Io, mode: OutputMode, o: ViewOptions): Promise<Follower> {
    const follower = new Follower(io, mode, await openView(io, mode === "text", o));
    if (io.env.CI && !o.quiet) {
      const { Heartbeat } = await import("../output/heartbeat.ts");
      follower.#heartbeat = new Heartbeat(io, (line) => follower.view.say(line));
    }
    if (io.stderr.isTTY) follower.#attention = new (await import("../terminal/notify.ts")).Attention(io);
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
  async failed(error: unknown): Promise<Receipt | null> {
    this.#heartbeat?.stop();
    if (this.#hasEnded) return null;
    const payload = { code: errorCodeOf(error), message: messageOf(error) };
    const { receiptWithoutRun } = await import("./receipt-without-run.ts");
    const receipt = receiptWithoutRun(exitCodeOf(error), payload, this.#ref);
    if (this.#mode === "json") this.#print(receipt);
    if (this.#mode === "jsonl") {
      const event = { event: "error" as const, error_message: payload.message, code: payload.code };
      this.#print({ type: "error", payload: event } satisfies StreamEvent);
    }
    return receipt;
  }

  #print(value: object): void {
    this.#io.stdout.write(`${inertJson(value)}\n`);
  }
}

/** Views that show progress are loaded only where they are used. */
async function openView(io: Io, answer: boolean, o: ViewOptions): Promise<RunOutput> {
  if (answer && !o.quiet && canDraw(io)) {
    const { openLiveView } = await import("../terminal/live-view.ts");
    return openLiveView(io, o);
  }
  // A terminal shows the words of the answer as they arrive, also with -q.
  if (o.quiet && !(answer && io.stdout.isTTY)) return new QuietView(io, { ...o, answer });
  const { PlainView } = await import("../output/plain-view.ts");
  return new PlainView(io, { ...o, answer });
}

function neverBorn(payload: { error_message: string; code: string }): SyscallError {
  const code: Code = CODES.find((known) => known === payload.code) ?? "INTERNAL";
  const cause = { code: payload.code, message: payload.error_message };
  return new SyscallError(code, payload.error_message, { cause });
}

/** A connection that is lost again and again is no longer replaced. */
const MAX_RECONNECTS = 5;

/**
 * Follows a run to its end. A lost connection is replaced by a new one while the daemon lives; else the error names the
 * command that resumes the run.
 */
export async function followRun(
  io: Io,
  stream: AsyncIterable<StreamEvent> & { readonly answer: ProcRef },
  follower: Follower,
): Promise<Receipt> {
  const { pid, uuid } = stream.answer;
  const sessions: Session[] = [];
  const again = async (after?: number): Promise<AsyncIterable<StreamEvent> | null> => {
    const session = await runningDaemon(io);
    if (session === null) return null;
    sessions.push(session);
    const events = afterState(await (await session.connect()).open("attach", { uuid, after }));
    follower.view.notice(`the connection to the daemon was lost and is back: rnix log ${pid} has it all`);
    return events;
  };
  try {
    return await orLostRun(String(pid), follower.follow(withReconnects(stream, again)));
  } finally {
    for (const session of sessions) await session.close();
  }
}

/**
 * The events of a run to its end. `again` attaches to it after a lost connection, from log entry `after` on; null: it can't
 * be found any more.
 */
export async function* withReconnects(
  stream: AsyncIterable<StreamEvent>,
  again: (after?: number) => Promise<AsyncIterable<StreamEvent> | null>,
): AsyncGenerator<StreamEvent> {
  let events = stream;
  let after: number | undefined;
  let readStep = 0;
  for (let reconnects = 0; ; reconnects++) {
    try {
      for await (const event of events) {
        if (event.type === "log_entry") {
          const { n, kind, step } = event.payload;
          after = n ?? after;
          // What a step reads comes live and recorded; at an attachment either may be the first.
          if (kind === "inbox" && step === readStep) continue;
          if (kind === "inbox") readStep = step;
        }
        yield event;
        if (event.type === "complete") return;
      }
      throw new SyscallError("UNAVAILABLE", "the connection closed before the run ended");
    } catch (error) {
      if (!isLostConnection(error)) throw error;
      const next = reconnects < MAX_RECONNECTS ? await again(after) : null;
      if (next === null) throw error;
      events = next;
    }
  }
}

/** Explains a lost connection, with the commands that find the run again; `run` is its PID or UUID. */
export async function orLostRun<T>(run: string, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!isLostConnection(error)) throw error;
    const message = `the connection to the daemon was lost: \`rnix resume ${run}\` resumes the run after its last step if the daemon has ended, \`rnix attach ${run}\` follows it if it still runs`;
    throw new SyscallError("UNAVAILABLE", message, { cause: error });
  }
}

/** UNAVAILABLE that did not come from a server: the connection itself is lost. */
export function isLostConnection(error: unknown): error is SyscallError {
  return error instanceof SyscallError && error.code === "UNAVAILABLE" && !isServerError(error);
}

/** null when no daemon runs, or when it accepts no connection. */
async function runningDaemon(io: Io): Promise<Session | null> {
  try {
    return await io.session({ onlyRunning: true });
  } catch (error) {
    if (isLostConnection(error)) return null;
    throw error;
  }
}

/**
 * Without the events of the state at the time of attaching that were shown before: the start, notices, the step and calls
 * that are not recorded. What replaces an older state, such as the activity, is passed on.
 */
async function* afterState(stream: AsyncIterable<StreamEvent>): AsyncGenerator<StreamEvent> {
  let isState = true;
  for await (const event of stream) {
    const progress = event.type === "progress" ? event.payload.event : undefined;
    // The activity is the last part of the state.
    isState &&= progress !== "activity" && event.type !== "complete";
    const isLive = event.type === "log_entry" && event.payload.n === undefined;
    const isKnown = isLive || ["spawn", "notice", "step"].includes(progress ?? "");
    if (!isState || !isKnown) yield event;
  }
}
