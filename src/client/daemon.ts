/** Connects to the daemon and starts it when none runs. */

import { existsSync } from "node:fs";
import { type Env, thisUser, type UserPaths, userPaths } from "../config/environment/paths.ts";
import { type Clock, realClock } from "../lib/clock.ts";
import { readRegularSync } from "../lib/regular-file.ts";
import { SyscallError } from "../plugin/errors.ts";
import { daemonLogPath, hasSocketFolder } from "../protocol/daemon-paths.ts";
import { PROTOCOL } from "../protocol/frame.ts";
import type { PingPayload } from "../protocol/methods.ts";
import { Client, isServerError } from "./client.ts";
import { dialSocket } from "./socket.ts";
import type { StartedDaemon } from "./start-daemon.ts";

/** Maximum bytes read of the daemon's log; the daemon's own files are smaller. */
const MAX_LOG_BYTES = 16 * 1024 ** 2;
/** The deadline of a connection and the first ping. */
const HELLO_MS = 3000;
/** For how long, and at which interval, a daemon is retried that closes every connection without an answer. */
const BUSY_MS = 1000;
const BUSY_LOOK_MS = 50;
/** How long a command waits for the init.yaml of a daemon that it has started. */
export const INIT_MS = 300_000;
/** Delay before the first connection to a started daemon; doubled up to the setting. */
const FIRST_LOOK_MS = 4;

export interface DaemonOptions {
  env: Env;
  /** The version and build that are expected to answer. */
  version: string;
  build: string;
  /** For `daemon status` and `daemon stop`, which every version understands. */
  anyVersion?: boolean;
  clock?: Clock;
  /** How the daemon is started; this binary by default. */
  command?: readonly string[];
}

/** Starts the daemon when none runs (seeds 5.1). Of two that are started at once, the second finds the first and exits. */
export async function ensureDaemon(o: DaemonOptions): Promise<Client> {
  const running = await dialDaemon(o);
  if (running) return running;
  const { refuseInside } = await import("../server/daemon/inside-run.ts");
  refuseInside(
    o.env,
    "UNAVAILABLE",
    "No daemon runs, and none is started from inside a run: it would outlive the run. A run of --no-daemon can spawn none from its shell; one that the daemon holds can.",
  );
  return startAndWait(o);
}

/** null when no daemon runs. Fails with UNAVAILABLE when one runs and accepts no connection. */
export async function dialDaemon(o: DaemonOptions): Promise<Client | null> {
  const clock = o.clock ?? realClock;
  const until = clock.monotonic() + BUSY_MS;
  for (;;) {
    const found = await dial(o);
    if (found) return found.client;
    if (!(await isListening(o.env))) return null;
    if (clock.monotonic() >= until) throw busy(userPaths(o.env));
    await pause(BUSY_LOOK_MS);
  }
}

/** A daemon holds the lock for its life and removes its socket when it ends: both exist while it serves. */
async function isListening(env: Env): Promise<boolean> {
  const { socket, lockFile } = userPaths(env);
  if (!existsSync(socket)) return false;
  const { FileLock } = await import("../store/files/file-lock.ts");
  return !FileLock.isFree(lockFile);
}

async function dial(o: DaemonOptions): Promise<{ client: Client; pong: PingPayload } | null> {
  const { socket } = userPaths(o.env);
  if (!hasSocketFolder(socket, thisUser().uid)) return null;
  const clock = o.clock ?? realClock;
  const pipe = await dialSocket(socket, clock, HELLO_MS);
  if (!pipe) return null;
  const client = new Client(pipe, { unit: o.env.RNIX_UNIT, clock });
  const pong = await hello(client, o.env);
  if (pong && (o.anyVersion || isSame(o, pong))) return { client, pong };
  client.close();
  if (pong) throw otherVersion(o, pong);
  return null;
}

/** Whether the daemon's process has ended, including its cleanup. */
export async function hasEnded(pid: number): Promise<boolean> {
  const { processTable } = await import("../os/process-table.ts");
  const found = await processTable().find(pid);
  return found === null || found.zombie;
}

/** null when the daemon ended during the connect: the same as none. */
async function hello(client: Client, env: Env): Promise<PingPayload | null> {
  try {
    return await client.request("ping", {}, { timeoutMs: HELLO_MS });
  } catch (error) {
    client.close();
    if (!(error instanceof SyscallError)) throw error;
    // A daemon that reports the error itself, such as too many connections, is running.
    if (error.code === "UNAVAILABLE" && !isServerError(error)) return null;
    throw error.code === "TIMEOUT" ? silent(userPaths(env)) : error;
  }
}

async function startAndWait(o: DaemonOptions): Promise<Client> {
  const clock = o.clock ?? realClock;
  const logFile = daemonLogPath(userPaths(o.env).dataDir);
  // Loaded only here: most commands find the daemon running.
  const { daemonCommand, daemonEnv, startDaemon } = await import("./start-daemon.ts");
  const command = o.command ?? daemonCommand();
  let daemon = startDaemon(command, daemonEnv(o.env), logFile);
  // The settings are read while the daemon starts, so that reading them costs no time.
  const { loadSettings } = await import("../config/settings/settings.ts");
  const { values } = await loadSettings(userPaths(o.env)).catch(async (thrown: unknown) => {
    // Settings that can't be read also stop the daemon.
    await itsEnd(daemon, clock);
    throw thrown;
  });
  const { socket_wait, socket_retry } = values;
  const until = clock.monotonic() + socket_wait;
  for (let look = FIRST_LOOK_MS; clock.monotonic() < until; look = Math.min(look * 2, socket_retry)) {
    await pause(look);
    const found = await dial(o);
    if (found) return comesUp(found, { daemon, clock, logFile });
    if (daemon.exitCode === 0) daemon = startDaemon(command, daemonEnv(o.env), logFile);
    else if (daemon.exitCode !== null) throw didNotStart(daemon.exitCode, logTail(logFile, daemon.pid));
  }
  throw new SyscallError(
    "UNAVAILABLE",
    `The daemon did not answer within ${socket_wait} ms of its start. ${logTail(logFile, daemon.pid)}`,
  );
}

/** Waits for init.yaml. If a required unit fails, the daemon ends, and its starter shows why. */
async function comesUp(
  { client, pong }: { client: Client; pong: PingPayload },
  { daemon, clock, logFile }: { daemon: StartedDaemon; clock: Clock; logFile: string },
): Promise<Client> {
  const isOurs = pong.pid === daemon.pid;
  if (!isOurs) daemon.superseded();
  if (!pong.starting) return client;
  try {
    await client.request("ping", { started: true }, { timeoutMs: INIT_MS });
    return client;
  } catch (error) {
    client.close();
    if (!isOurs || isServerError(error)) throw error;
    // It may have ended before it answered.
    await itsEnd(daemon, clock);
    throw daemon.exitCode ? didNotStart(daemon.exitCode, logTail(logFile, daemon.pid)) : error;
  }
}

async function itsEnd(daemon: StartedDaemon, clock: Clock): Promise<void> {
  const until = clock.monotonic() + HELLO_MS;
  while (daemon.exitCode === null && clock.monotonic() < until) await pause(FIRST_LOOK_MS);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}

function isSame(o: DaemonOptions, { version, build, protocol }: PingPayload): boolean {
  return version === o.version && build === o.build && protocol === PROTOCOL;
}

function otherVersion(o: DaemonOptions, pong: PingPayload): SyscallError {
  const message = `The daemon that runs (PID ${pong.pid}) is rnix ${pong.version} (${pong.build}), this command is rnix ${o.version} (${o.build}). \`rnix daemon restart\` replaces it with this version and resumes its runs; \`rnix daemon stop\` ends it and suspends its runs.`;
  return new SyscallError("UNAVAILABLE", message, { cause: { code: "VERSION", message } });
}

function silent({ pidFile, socket }: UserPaths): SyscallError {
  return new SyscallError(
    "UNAVAILABLE",
    `The daemon${pidIn(pidFile)} listens on ${socket} but did not answer within ${HELLO_MS} ms. If that persists, end it with \`kill\`; the next command starts a new one.`,
  );
}

function busy({ pidFile, socket }: UserPaths): SyscallError {
  return new SyscallError(
    "UNAVAILABLE",
    `The daemon${pidIn(pidFile)} accepts no connection on ${socket}: all are in use, or it is starting. Close some and try again; \`kill\` with its PID suspends all runs.`,
  );
}

function pidIn(pidFile: string): string {
  try {
    return ` (PID ${readRegularSync(pidFile, MAX_LOG_BYTES).toString().trim()})`;
  } catch {
    // Only a hint for the user.
    return "";
  }
}

function didNotStart(code: number, words: string): SyscallError {
  return new SyscallError(
    code === WRONG_FILE ? "INVALID" : "UNAVAILABLE",
    `The daemon ended with ${code} as it started. ${words}`,
  );
}

/** The daemon's exit code when it can't read one of the user's files; the command exits with it, too. */
const WRONG_FILE = 64;

/** A line of an error's stack. */
const FRAME = /^ +at /;

function logTail(logFile: string, pid: number | undefined): string {
  try {
    const all = readRegularSync(logFile, MAX_LOG_BYTES).toString().trimEnd().split("\n");
    // Text that others wrote before it is not part of its output.
    const first = all.findIndex((line) => line.includes(` [${pid}] `));
    const lines = all.slice(Math.max(0, first));
    // The stack is for the log: it would hide the message from the user.
    const words = lines.filter((line) => !FRAME.test(line));
    return `The end of ${logFile}:\n${words.slice(-5).join("\n")}`;
  } catch {
    return `It wrote no log to ${logFile}.`;
  }
}
