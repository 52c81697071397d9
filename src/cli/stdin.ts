import { usageError } from "./exit.ts";
import type { Input, Io } from "./io.ts";

/** Text of stdin that goes with a request: more would not fit a model's window either. */
export const STDIN_LIMIT = 2 * 1024 * 1024;
/** Bytes must begin to arrive on a pipe within this time to be attached to an intent. */
export const FIRST_BYTES_MS = 200;
/** A pipe that has sent data and is then silent for this time counts as ended. */
export const SILENCE_MS = 2000;
/** The intent itself may come later: a slow program writes it, or a person types it. */
export const INTENT_MS = 5 * 60_000;

export interface Attached {
  text: string;
  /** There was more than the limit. */
  truncated: boolean;
}

/**
 * What stdin adds to an intent that was given as an argument: a file, or what a pipe begins to send within
 * 200 ms. A pipe left open and silent delays nothing; a terminal is not read.
 */
export async function readAttached(io: Io): Promise<Attached | null> {
  if (io.stdin.kind === "none" || io.stdin.kind === "tty") return null;
  const first = io.stdin.kind === "file" ? SILENCE_MS : FIRST_BYTES_MS;
  const input = await readAll(io, first, SILENCE_MS);
  return input === null || input.text === "" ? null : input;
}

/** The intent itself, to the end of stdin. */
export async function readIntent(io: Io): Promise<string> {
  if (io.stdin.kind === "none")
    throw usageError('INTENT is missing: say what the agent should do, or give "-" and a pipe');
  const input = await readAll(io, INTENT_MS, INTENT_MS);
  const intent = input?.text.trim() ?? "";
  if (intent === "") throw usageError("the intent read from stdin is empty");
  if (input?.truncated) {
    throw usageError(
      `the intent read from stdin is longer than ${STDIN_LIMIT} bytes; pass a file with --add`,
    );
  }
  return intent;
}

/** null when nothing came in time. */
async function readAll(io: Io, firstMs: number, silenceMs: number): Promise<Attached | null> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  let waitMs = firstMs;
  let ended = false;
  while (size <= STDIN_LIMIT) {
    const chunk = await readWithin(io, io.stdin, waitMs);
    if (chunk === "silent") {
      if (chunks.length === 0) return null;
      break;
    }
    ended = chunk === null;
    if (chunk === null) break;
    chunks.push(chunk);
    size += chunk.length;
    waitMs = silenceMs;
  }
  const truncated = size > STDIN_LIMIT;
  return { text: decode(Buffer.concat(chunks).subarray(0, STDIN_LIMIT), ended), truncated };
}

async function readWithin(io: Io, stdin: Input, ms: number): Promise<Uint8Array | null | "silent"> {
  const { promise: silence, resolve } = Promise.withResolvers<"silent">();
  const timer = io.timer(ms, () => resolve("silent"));
  try {
    return await Promise.race([stdin.read(), silence]);
  } finally {
    timer.cancel();
  }
}

function decode(bytes: Uint8Array, whole: boolean): string {
  try {
    // As a stream when it was cut, so that half a character at its end is left out and is no error.
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: !whole });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw usageError("stdin is not UTF-8 text; pass a file with --add, or </dev/null for no input");
  }
}
