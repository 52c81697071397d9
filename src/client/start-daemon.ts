/** Starts the daemon as a process of its own. */

import { spawn } from "node:child_process";
import { closeSync } from "node:fs";
import { isPlain } from "../config/plain-variables.ts";
import { SyscallError } from "../plugin/index.ts";
import { openDaemonLog } from "../server/daemon/daemon-log.ts";
import { DAEMON_REQUESTS, REQUESTS_VARIABLE } from "../server/daemon/request-limit.ts";
import { SUPERSEDED } from "../server/daemon/superseded-signal.ts";

export interface StartedDaemon {
  /** undefined: it could not be started. */
  readonly pid: number | undefined;
  /** Set when it has ended: the daemon itself, or one that found another running (0). */
  readonly exitCode: number | null;
  /** Another daemon serves this command: ends the started one unless it holds the lock already. Else a slow one would start later without a client. */
  superseded(): void;
}

/**
 * Starts our own server, and nothing else: the one program that is not a child of `src/os/children`, because
 * it is to outlive this command. In a session of its own, in "/", with what it prints going to its log.
 */
export function startDaemon(
  command: readonly string[],
  env: Record<string, string>,
  logFile: string,
): StartedDaemon {
  const [file = "", ...args] = command;
  const log = openLog(logFile);
  try {
    const child = spawn(file, args, {
      argv0: "rnix",
      cwd: "/",
      detached: true,
      env,
      stdio: ["ignore", log, log],
    });
    const started: { -readonly [K in keyof StartedDaemon]: StartedDaemon[K] } = {
      pid: child.pid,
      exitCode: null,
      superseded: () => void child.kill(SUPERSEDED),
    };
    child.on("exit", (code) => {
      started.exitCode = code ?? KILLED;
    });
    child.on("error", () => {
      started.exitCode = NOT_STARTED;
    });
    child.unref();
    return started;
  } finally {
    closeSync(log);
  }
}

function openLog(file: string): number {
  try {
    return openDaemonLog(file);
  } catch (cause) {
    throw new SyscallError(
      "UNAVAILABLE",
      `The daemon's log ${file} can't be written: ${cause instanceof Error ? cause.message : String(cause)}. Set XDG_DATA_HOME to a folder that you can write to.`,
      { cause },
    );
  }
}

/** As a shell has it. */
const NOT_STARTED = 127;
const KILLED = 128;

/** How this very binary is started again, even when the file has been replaced meanwhile. */
export function daemonCommand(): string[] {
  return [...ownProgram(), "daemon", "--internal"];
}

function ownProgram(): string[] {
  if (!Bun.main.startsWith("/$bunfs/")) return [process.execPath, Bun.main];
  return [process.platform === "linux" ? "/proc/self/exe" : process.execPath];
}

/**
 * Replaces this command by itself with the runtime's limit on HTTP requests raised, which the runtime reads only as it
 * starts. For a daemon in the foreground; one in the background is started with it. Process and PID stay the same.
 * Returns where the user has set a limit already.
 */
export function raiseRequestLimit(): void {
  if (process.env[REQUESTS_VARIABLE] !== undefined || process.execve === undefined) return;
  const argv = [...ownProgram(), ...process.argv.slice(2)];
  const env = { ...process.env, [REQUESTS_VARIABLE]: String(DAEMON_REQUESTS) };
  process.execve(argv[0] ?? process.execPath, argv, env);
}

/**
 * The daemon's own environment: where things are, and how its runtime works; nothing else. No key and no BUN_*
 * of the command that started it; every run brings its own. Nothing that would make it part of a run either
 * (RNIX_UNIT and the like).
 */
export function daemonEnv(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const kept: Record<string, string> = { ...RUNTIME };
  for (const [name, value] of Object.entries(env)) {
    if (value !== undefined && (isPlain(name) || OWN.has(name))) kept[name] = value;
  }
  return kept;
}

/**
 * How its runtime works. The last one: how many HTTP requests it has under way. The others: how it compiles. A run calls much code a few times: compiled already after some thirty calls (500 is the
 * runtime's own), it costs a daemon 15 MiB after a hundred runs and a quarter of its first runs' CPU. The last of the
 * runtime's compilers takes more than it gives back here, at long streams and after a thousand runs as well.
 */
const RUNTIME = {
  BUN_JSC_thresholdForJITAfterWarmUp: "10000",
  BUN_JSC_thresholdForJITSoon: "10000",
  BUN_JSC_useFTLJIT: "0",
  [REQUESTS_VARIABLE]: String(DAEMON_REQUESTS),
};

/** What a daemon alone reads. */
const OWN: ReadonlySet<string> = new Set(["RNIX_DATA_DIR", "RNIX_LOG"]);
