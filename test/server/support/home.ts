import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type UserPaths, userPaths } from "../../../src/config/paths.ts";
import { until } from "./until.ts";

/** A user of its own: HOME, XDG folders and a project, with every daemon in it ended and all of it removed. */
export class Home implements AsyncDisposable {
  readonly dir = realpathSync(mkdtempSync(join(tmpdir(), "rnix-home-")));
  readonly env: Record<string, string>;
  readonly paths: UserPaths;
  readonly project: string;
  readonly #pids = new Set<number>();

  constructor() {
    this.env = {
      PATH: process.env.PATH ?? "",
      HOME: this.dir,
      XDG_RUNTIME_DIR: join(this.dir, "run"),
      XDG_CONFIG_HOME: join(this.dir, "config"),
      XDG_DATA_HOME: join(this.dir, "data"),
    };
    this.paths = userPaths(this.env);
    this.project = join(this.dir, "work");
    mkdirSync(join(this.dir, "run"), { mode: 0o700 });
    mkdirSync(join(this.project, ".rnix"), { recursive: true, mode: 0o700 });
    mkdirSync(this.paths.configDir, { recursive: true });
  }

  /** The PID that rnix.pid names, ended with the scope. */
  daemonPid(): number {
    const pid = Number(readFileSync(this.paths.pidFile, "utf8"));
    this.#pids.add(pid);
    return pid;
  }

  /** Ended with the scope, should it still run. */
  adopt(pid: number): number {
    this.#pids.add(pid);
    return pid;
  }

  log(): string {
    const file = join(this.paths.dataDir, "daemon.log");
    return existsSync(file) ? readFileSync(file, "utf8") : "";
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (existsSync(this.paths.pidFile)) this.daemonPid();
    for (const pid of this.#pids) {
      if (!isAlive(pid)) continue;
      process.kill(pid, "SIGCONT");
      process.kill(pid, "SIGKILL");
      await until(() => !isAlive(pid));
    }
    rmSync(this.dir, { recursive: true, force: true });
  }
}

/** Not there, or a zombie that only waits to be reaped by whoever started it. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  if (process.platform !== "linux") return true;
  try {
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}
