/** The outside world of a command: its output, input, environment and connections to a server. */

import type { Client } from "../client/client.ts";
import type { SessionOptions } from "../client/session.ts";
import { SyscallError } from "../plugin/errors.ts";

/** An output for text, written in order. `drained` bounds the buffer for a slow reader. */
export interface Output {
  readonly isTTY: boolean;
  readonly columns: number;
  /** The regular file that it writes to. */
  readonly file?: { dev: number; ino: number };
  /** The reader has gone (`rnix log 3 | head -1`): writing on is pointless. */
  readonly closed: boolean;
  write(text: string): void;
  /** Writes binary data. The caller has checked that the output is not a terminal. */
  writeBytes(bytes: Uint8Array): void;
  /** Resolves when all written data has been taken. If the reader has closed, `closed` is set; a full disk throws. */
  drained(): Promise<void>;
}

export interface Input {
  /** What stdin is connected to; `none` for /dev/null and a closed one. */
  readonly kind: "tty" | "file" | "pipe" | "none";
  /** The next bytes, null at the end. */
  read(): Promise<Uint8Array | null>;
}

export interface TerminalSize {
  columns: number;
  rows: number;
}

/** The terminal that a command runs at, for what draws there. What is written is not filtered. */
export interface Terminal {
  /** Asks the system at each call. */
  size(): TerminalSize;
  /** Returns a function that stops listening. */
  onResize(f: () => void): () => void;
  /** Never blocks: what the terminal does not take now is written later. */
  write(text: string): void;
  /** The terminal has not taken everything (Ctrl-S, a slow line). */
  readonly isBehind: boolean;
  /** Resolves when everything has been taken, or never will be. */
  drained(): Promise<void>;
  /** The terminal is gone: writing is pointless. */
  readonly closed: boolean;
  /** Writes before it returns, for a process that ends. Gives up after a moment. */
  writeNow(text: string): void;
  /** Reads single keys, without echo, until it is closed. null when stdin is not a terminal. */
  readKeys(f: (bytes: Uint8Array) => void): Keys | null;
  /** The terminal's keys and signals go to this process. */
  isForeground(): boolean;
}

/** The keys of a terminal while they are read. */
export interface Keys {
  /** Drops what was typed and not read, and gives the terminal back as it was. Safe twice. */
  close(): void;
}

/** The part of a connection that commands use. A stream is its last use. */
export type Wire = Pick<Client, "request" | "open" | "close">;

/** A server with any number of connections to it. */
export interface Session {
  connect(): Promise<Wire>;
  /** Ends the connections, and the server too when it is inside this command. */
  close(): Promise<void>;
}

/** `env`: another environment than the command's, for a server inside it. */
export interface ConnectOptions extends Omit<SessionOptions, "env">, Partial<Pick<SessionOptions, "env">> {
  /** Gives the terminal to a question while `work` asks it. */
  question?<T>(work: () => Promise<T>): Promise<T>;
}

export interface Io {
  readonly env: Record<string, string | undefined>;
  /** Absolute. */
  readonly cwd: string;
  readonly stdin: Input;
  /** Results, and nothing else. */
  readonly stdout: Output;
  readonly stderr: Output;
  /** The terminal of stdout. null unless stdout and stderr are terminals. */
  terminal(): Terminal | null;
  /** The user typed `rnix "…"`, which asks what a conversation asks. */
  byHand?: true;
  timer(ms: number, f: () => void): { cancel(): void };
  /** Returns a function that stops listening. */
  onSignal(name: "SIGINT" | "SIGTERM" | "SIGHUP", f: () => void): () => void;
  /** null only with `onlyRunning`. */
  session(o?: ConnectOptions): Promise<Session | null>;
}

/** Opens a server while `use` runs; starts the daemon when none runs. */
export async function withSession<T>(
  io: Io,
  o: ConnectOptions,
  use: (session: Session) => Promise<T>,
): Promise<T> {
  const session = await io.session(o);
  if (session === null)
    throw new SyscallError("UNAVAILABLE", "no daemon runs; `rnix daemon start` starts one");
  try {
    return await use(session);
  } finally {
    await session.close();
  }
}

/** Opens a connection to the daemon while `use` runs; starts the daemon when none runs. */
export function withWire<T>(io: Io, use: (wire: Wire) => Promise<T>): Promise<T> {
  return withSession(io, {}, async (session) => use(await session.connect()));
}

/** The environment as the wire carries it. */
export function environment(io: Io): Record<string, string> {
  const isSet = (entry: [string, string | undefined]): entry is [string, string] => entry[1] !== undefined;
  return Object.fromEntries(Object.entries(io.env).filter(isSet));
}

/** Which project a command is about. */
export function project(io: Io): { cwd: string; env: Record<string, string> } {
  return { cwd: io.cwd, env: environment(io) };
}

/** Refuses commands inside a run that change rights (design §2). */
export async function refuseInsideRun(io: Io, command: string): Promise<void> {
  const { refuseInside } = await import("../server/daemon/inside-run.ts");
  refuseInside(
    io.env,
    "PERMISSION",
    `rnix ${command} is for a person: it is refused inside a run; call it from your own shell.`,
  );
}

/** Whether a person can answer at a terminal. */
export function isAskable(io: Io): boolean {
  return io.stdin.kind === "tty" && io.stderr.isTTY && !io.env.CI;
}

/** Why a conversation is not possible where the command runs; undefined if one is. */
export function noTerminal(io: Pick<Io, "env" | "stdin" | "stdout" | "stderr">): string | undefined {
  if (io.stdin.kind !== "tty") return "stdin is not a terminal";
  if (!io.stdout.isTTY || !io.stderr.isTTY) return "the output does not go to a terminal";
  if (io.env.CI) return "CI is set";
  return io.env.TERM === "dumb" ? "TERM is dumb" : undefined;
}
