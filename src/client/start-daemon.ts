/** Starts the daemon as a process of its own. */

import { spawn } from "node:child_process";
import { closeSync } from "node:fs";
import { isPlain } from "../config/environment/plain-variables.ts";
import { messageOf } from "../lib/error-detail.ts";
import { SyscallError } from "../plugin/index.ts";
import { openDaemonLog } from "../server/daemon/daemon-log.ts";
import { DAEMON_REQUESTS, REQUESTS_VARIABLE } from "../server/daemon/request-limit.ts";
import { SUPERSEDED } from "../server/daemon/superseded-signal.ts";

export interface StartedDaemon {
  /** undefined: it could not be started. */
  readonly pid: number | undefined;
  /** The exit code, once it has ended; 0 also if it found another daemon running. */
  readonly exitCode: number | null;
  /** Ends it unless it holds the lock: another daemon serves this command, and a slow one would start without a client. */
  superseded(): void;
}

/** In its own session, in "/", with its log as its output. It is no child of `src/os/children`: it outlives this command. */
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
      `The daemon's log ${file} can't be written: ${messageOf(cause)}. Set XDG_DATA_HOME to a folder that you can write to.`,
      { cause },
    );
  }
}

/** As a shell has it. */
const NOT_STARTED = 127;
const KILLED = 128;

/** The command line that starts this same binary again, even if its file was replaced meanwhile. */
export function daemonCommand(): string[] {
  return [...ownProgram(), "daemon", "--internal"];
}

function ownProgram(): string[] {
  if (!Bun.main.startsWith("/$bunfs/")) return [process.execPath, Bun.main];
  return [process.platform === "linux" ? "/proc/self/exe" : process.execPath];
}

/**
 * Executes this command again with a higher limit on HTTP requests, which the runtime reads only at its start. It is
 * for a daemon in the foreground; one in the background is started with the limit. Process and PID stay the same.
 * Returns if the user has set a limit already.
 */
export function raiseRequestLimit(): void {
  if (process.env[REQUESTS_VARIABLE] !== undefined || process.execve === undefined) return;
  const argv = [...ownProgram(), ...process.argv.slice(2)];
  const env = { ...process.env, [REQUESTS_VARIABLE]: String(DAEMON_REQUESTS) };
  process.execve(argv[0] ?? process.execPath, argv, env);
}

/**
 * The daemon's environment: paths, settings of its runtime and of telemetry. It has no key of a provider and no BUN_*
 * variable of the starting command, because every run brings its own. Nothing in it marks the daemon as part of a run (RNIX_UNIT and the like).
 */
export function daemonEnv(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const kept: Record<string, string> = { ...RUNTIME };
  for (const [name, value] of Object.entries(env)) {
    if (value !== undefined && (isPlain(name) || OWN.has(name) || name.startsWith(OTEL))) kept[name] = value;
  }
  return kept;
}

/**
 * How its runtime works. The last one: how many HTTP requests it has under way. The others: how it compiles. A run calls
 * much code a few times: compiled after some thirty calls (500 is the runtime's own), it costs a daemon 20 MiB after a
 * hundred runs and a quarter of its first runs' CPU. 30000 saves 5 MiB and costs a twentieth of the CPU of tool calls.
 * The last of the runtime's compilers takes more than it gives back here, at long streams and after a thousand runs as
 * well.
 */
const RUNTIME = {
  BUN_JSC_thresholdForJITAfterWarmUp: "10000",
  BUN_JSC_thresholdForJITSoon: "10000",
  BUN_JSC_useFTLJIT: "0",
  [REQUESTS_VARIABLE]: String(DAEMON_REQUESTS),
};

/** Where telemetry is sent, which the daemon does for all runs. */
const OTEL = "OTEL_";

/** Variables that only a daemon reads. */
const OWN: ReadonlySet<string> = new Set(["RNIX_DATA_DIR", "RNIX_LOG"]);
