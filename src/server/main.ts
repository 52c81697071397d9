/** The daemon's main function. */

import { type Env, thisUser, type UserPaths, userPaths } from "../config/environment/paths.ts";
import { loadSettings } from "../config/settings/settings.ts";
import { realClock } from "../lib/clock.ts";
import { logTextOf } from "../lib/error-detail.ts";
import { logLevel, textLogger } from "../lib/logger.ts";
import { SyscallError } from "../plugin/index.ts";
import { daemonLogPath } from "../protocol/daemon-paths.ts";
import { FileLock } from "../store/files/file-lock.ts";
import { boot } from "./boot.ts";
import { runDaemon } from "./daemon/daemon.ts";
import { DaemonLog } from "./daemon/daemon-log.ts";
import { refuseInside } from "./daemon/inside-run.ts";
import { SUPERSEDED } from "./daemon/superseded-signal.ts";

/**
 * Exit codes of the daemon: another one runs already (the same as done); the user's init.yaml is wrong; unavailable,
 * because another daemon blocks its lock or a required unit did not start.
 */
const EXIT = { done: 0, broken: 1, wrong: 64, unavailable: 69 } as const;

interface DaemonMainOptions {
  /** In the foreground: also gets each line of the log. */
  print?(text: string): void;
  env?: Env;
}

/** Runs the daemon to its end, for `rnix daemon --internal` and `rnix daemon start --foreground`. */
export async function daemonMain({ print, env = process.env }: DaemonMainOptions): Promise<number> {
  refuseInside(
    env,
    "PERMISSION",
    "A daemon is refused inside a run: its runs would have limits of their own. Start it from your own shell.",
  );
  // Its environment says when it compiles: the policy of a short command is not for a daemon.
  Bun.unsafe.setJITPolicy(1);
  const user = userPaths(env);
  const file = new DaemonLog(daemonLogPath(user.dataDir), realClock);
  const log = (text: string): void => {
    file.write(text);
    print?.(text);
  };
  try {
    return await run(user, env, file.path, log);
  } catch (error) {
    log(logTextOf(error));
    return EXIT.broken;
  }
}

async function run(user: UserPaths, env: Env, logFile: string, log: (text: string) => void): Promise<number> {
  const settings = await loadSettings({ configDir: user.configDir });
  const logger = textLogger(logLevel(env, "info"), log);
  let broken = false;
  const end = await runDaemon({
    paths: user,
    uid: thisUser().uid,
    clock: realClock,
    tryLock: (path) => FileLock.tryAcquire(path),
    idle: { afterMs: settings.values.daemon_idle_stop, everyMs: settings.values.daemon_idle_check },
    graceMs: settings.values.grace,
    drainMs: settings.values.drain,
    logFile,
    logger,
    boot: (host) => boot({ user, env, settings, host, logger, daemon: true, alone: true }),
    onSignal: (stop) =>
      listen(stop, (defect) => {
        broken = true;
        const what = defect instanceof SyscallError ? "" : "a fault of rnix itself: ";
        logger.warn("daemon", `suspending all runs: ${what}${logTextOf(defect)}`);
      }),
  });
  if (typeof end === "object") {
    log(logTextOf(end.failed));
    return exitOf(end.failed);
  }
  if (end === "stopped") return broken ? EXIT.broken : EXIT.done;
  if (end === "already running") {
    log("another daemon runs already");
    return EXIT.done;
  }
  log(`another daemon holds ${user.lockFile} and does not answer on ${user.socket}`);
  return EXIT.unavailable;
}

function exitOf(error: unknown): number {
  if (!(error instanceof SyscallError)) return EXIT.broken;
  if (error.code === "INVALID") return EXIT.wrong;
  return error.code === "UNAVAILABLE" ? EXIT.unavailable : EXIT.broken;
}

/**
 * The first signal suspends processes, the second kills them. An internal error is logged and also ends the daemon in
 * order.
 */
function listen(stop: (now: boolean) => void, onDefect: (defect: unknown) => void): () => void {
  let asked = false;
  const signalled = (): void => {
    stop(asked);
    asked = true;
  };
  const defective = (error: unknown): void => {
    onDefect(error);
    stop(false);
  };
  const listeners = [
    ["SIGTERM", signalled],
    ["SIGINT", signalled],
    // The terminal of a daemon in the foreground was closed.
    ["SIGHUP", signalled],
    [SUPERSEDED, () => {}],
    ["uncaughtException", defective],
    ["unhandledRejection", defective],
  ] as const;
  for (const [event, listener] of listeners) process.on(event, listener);
  return () => {
    for (const [event, listener] of listeners) process.off(event, listener);
  };
}
