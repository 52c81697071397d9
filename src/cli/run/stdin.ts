/** Reads what a command takes from stdin: its intent or message, or text that is attached to one. */

import { formatDuration } from "../../lib/duration.ts";
import { SyscallError } from "../../plugin/errors.ts";
import { usageError } from "../exit.ts";
import { bool, list } from "../flags.ts";
import { environment, type Io } from "../io.ts";

/** Maximum text of stdin in a request: more would not fit a model's window either. */
export const STDIN_LIMIT = 2 * 1024 * 1024;
/** Delay after which a notice names a pipe that has sent nothing. */
export const NAMED_AFTER_MS = 1000;
/** How long an intent may take to begin, if neither "-" nor --stdin asks for stdin. */
export const INTENT_MS = 5 * 60_000;

export const STDIN_FLAGS = {
  stdin: bool("wait for stdin without the limit stdin_wait, and read it to its end"),
  "no-stdin": bool("never read stdin"),
};

export interface FromStdin {
  /** undefined: nothing. */
  text: string | undefined;
  /** Notices: stdin was left unread, or was longer than the limit. */
  notices: string[];
  /** A part of the text is of others: whose. */
  origin?: string;
}

export interface StdinOptions {
  stdin: boolean;
  "no-stdin": boolean;
  /** Reading takes no longer than the run may. Absent: the setting. */
  timeout: number | "unlimited" | undefined;
  quiet: boolean;
}

/** How long stdin is waited for; null: without a limit. */
interface Waits {
  stdin_wait: number | null;
  timeout: number | null;
}

/** Fails with INVALID where the flags contradict each other, or the argument "-". */
export function checkStdinFlags(
  o: Pick<StdinOptions, "stdin" | "no-stdin">,
  argument: string | undefined,
): void {
  if (o.stdin && o["no-stdin"]) throw usageError("--stdin and --no-stdin exclude each other");
  if (argument === "-" && o["no-stdin"]) throw usageError('"-" reads stdin, and --no-stdin never does');
}

/**
 * Reads the text that stdin adds to an intent or message given as an argument, or an optional message. A file and a
 * pipe are read to their end. A pipe that has sent nothing for `stdin_wait` is left unread. A terminal is read only
 * with --stdin.
 */
export async function readAttached(io: Io, o: StdinOptions): Promise<FromStdin> {
  const { kind } = io.stdin;
  if (o["no-stdin"] || kind === "none" || (kind === "tty" && !o.stdin))
    return { text: undefined, notices: [] };
  const input = await readAll(io, o, ({ stdin_wait }) => (o.stdin ? null : stdin_wait));
  if ("silentMs" in input) {
    const waited = formatDuration(input.silentMs);
    return {
      text: undefined,
      notices: [
        `stdin sent nothing for ${waited} and was left: the run has no input. --stdin waits for it, --no-stdin never reads it`,
      ],
    };
  }
  if (input.text === "") return { text: undefined, notices: [] };
  const notices = input.truncated
    ? [`stdin is longer than ${STDIN_LIMIT} bytes: only its beginning is attached`]
    : [];
  return { text: input.text, notices };
}

/** Reads the intent or message itself, to the end of stdin. `what` names it in errors. */
export async function readIntent(
  io: Io,
  o: StdinOptions & { asked: boolean; what: string },
): Promise<string> {
  const { kind } = io.stdin;
  const name = o.what.toUpperCase();
  if (kind === "none" || o["no-stdin"])
    throw usageError(`${name} is missing: give it as an argument, or "-" and a pipe`);
  if (kind === "tty") io.stderr.write(`type the ${o.what}, and end it with Ctrl-D\n`);
  const input = await readAll(io, o, () => (o.asked || o.stdin ? null : INTENT_MS));
  if ("silentMs" in input) {
    throw new SyscallError(
      "TIMEOUT",
      `${name} is missing: stdin sent nothing for ${formatDuration(input.silentMs)}. Give it as an argument; "-" waits longer for stdin.`,
    );
  }
  const intent = input.text.trim();
  if (intent === "") throw usageError(`${name} is missing: stdin is empty`);
  if (!input.truncated) return intent;
  throw usageError(
    `the ${o.what} read from stdin is longer than ${STDIN_LIMIT} bytes; pass a file with --add`,
  );
}

type Read = { text: string; truncated: boolean } | { silentMs: number };

/**
 * Reads to the end of stdin or to the limit. Fails with TIMEOUT when the run's time is over before, with CANCELLED on a
 * signal. `firstByteMs`: how long a pipe may send nothing. Settings are read only for a stdin that takes longer than a second.
 */
async function readAll(io: Io, o: StdinOptions, firstByteMs: (waits: Waits) => number | null): Promise<Read> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  let isOver = false;
  const over = Promise.withResolvers<{ silentMs: number }>();
  // There may be no reader left.
  over.promise.catch(() => undefined);
  const stops = (["SIGINT", "SIGTERM", "SIGHUP"] as const).map((name) =>
    io.onSignal(name, () => over.reject(interrupted())),
  );
  const after = (ms: number, f: () => void): void => {
    const timer = io.timer(Math.max(0, ms), f);
    stops.push(() => timer.cancel());
  };
  const slow = async (): Promise<void> => {
    const isTyped = io.stdin.kind === "tty";
    if (!o.quiet && !isTyped) io.stderr.write("reading stdin …; --no-stdin to run without it\n");
    const waits = await waitsOf(io, o);
    const { timeout } = waits;
    const silentMs = isTyped ? null : firstByteMs(waits);
    if (isOver) return;
    if (timeout !== null) after(timeout - NAMED_AFTER_MS, () => over.reject(tooSlow(timeout)));
    // Once the first byte has come, silence is part of the input.
    if (silentMs !== null && size === 0)
      after(silentMs - NAMED_AFTER_MS, () => size === 0 && over.resolve({ silentMs }));
  };
  after(NAMED_AFTER_MS, () => void slow().catch(over.reject));
  let ended = false;
  try {
    while (size <= STDIN_LIMIT && !ended) {
      const chunk = await Promise.race([io.stdin.read(), over.promise]);
      if (chunk === null) ended = true;
      else if ("silentMs" in chunk) return chunk;
      else {
        chunks.push(chunk);
        size += chunk.length;
      }
    }
  } finally {
    isOver = true;
    for (const stop of stops) stop();
  }
  return {
    text: decode(Buffer.concat(chunks).subarray(0, STDIN_LIMIT), ended),
    truncated: size > STDIN_LIMIT,
  };
}

async function waitsOf(io: Io, { timeout: given }: StdinOptions): Promise<Waits> {
  const { settingValues } = await import("../../server/offline-commands.ts");
  const { stdin_wait, timeout } = await settingValues({ cwd: io.cwd, env: environment(io) });
  return { stdin_wait, timeout: given === "unlimited" ? null : (given ?? timeout) };
}

function interrupted(): SyscallError {
  return new SyscallError("CANCELLED", "interrupted while stdin was read: nothing was started");
}

function tooSlow(ms: number): SyscallError {
  return new SyscallError(
    "TIMEOUT",
    `stdin did not end within the run's time of ${formatDuration(ms)}, so nothing was started. --timeout sets a longer time.`,
  );
}

function decode(bytes: Uint8Array, whole: boolean): string {
  try {
    // Decoded as a stream when it was truncated, so that half a character at its end is dropped without an error.
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: !whole });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw usageError("stdin is not UTF-8 text; pass a file with --add, or --no-stdin for no input");
  }
}

export const UNTRUSTED_FLAGS = {
  untrusted: list(
    'attach a text that may try to instruct the agent, such as a pull request\'s, marked as data; "-" is stdin, which --base marks by itself',
    "FILE",
    { file: "read -" },
  ),
};

/** Adds the texts to what stdin gives. */
export type AddUntrusted = (input: FromStdin | undefined) => FromStdin;

export interface UntrustedFlags {
  untrusted: readonly string[];
  base: string | undefined;
}

/**
 * Returns a function that adds the texts to what stdin gives. Fails with INVALID for a file that can't be read, and where
 * stdin would be the intent, too. `intent`: the argument.
 */
export async function withUntrusted(
  io: Io,
  flags: UntrustedFlags,
  intent: string | undefined,
): Promise<AddUntrusted> {
  if (flags.base === undefined && flags.untrusted.length === 0) return (input = NO_INPUT) => input;
  const { untrustedInput } = await import("./untrusted-input.ts");
  return untrustedInput(io, flags, intent);
}

const NO_INPUT: FromStdin = { text: undefined, notices: [] };
