/** Follows a run over lost connections to the daemon. */

import { isServerError } from "../../client/client.ts";
import { SyscallError } from "../../plugin/errors.ts";
import type { ProcRef, Receipt, StreamEvent } from "../../protocol/methods.ts";
import type { Io, Session } from "../io.ts";
import type { Follower } from "./follow.ts";

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
          // Messages that were read come before they are recorded.
          if (kind === "inbox" && n !== undefined && step === readStep) continue;
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
    throw isLostConnection(error) ? lostRun(error, run) : error;
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

function lostRun(cause: SyscallError, run: string): SyscallError {
  return new SyscallError(
    "UNAVAILABLE",
    `the connection to the daemon was lost: \`rnix resume ${run}\` resumes the run after its last step if the daemon has ended, \`rnix attach ${run}\` follows it if it still runs`,
    { cause },
  );
}
