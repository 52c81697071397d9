import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type UserPaths, userPaths } from "../../../src/config/environment/paths.ts";
import { isAlive } from "../../support/is-alive.ts";
import { until } from "../../support/until.ts";

/** A user of its own: HOME, XDG folders and a project, with every daemon in it ended and all of it removed. */
export class Home implements AsyncDisposable {
  readonly dir = realpathSync(mkdtempSync(join(tmpdir(), "rnix-home-")));
  readonly env: Record<string, string>;
  readonly paths: UserPaths;
  readonly project: string;

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
    // Daemons start from their sources here, on machines that may be busy.
    writeFileSync(join(this.paths.configDir, "config.yaml"), "socket_wait: 20s\n");
  }

  /** The PID that rnix.pid names. */
  daemonPid(): number {
    return Number(readFileSync(this.paths.pidFile, "utf8"));
  }

  /** All processes with this home: its daemons, also starting and stopping ones. */
  running(): number[] {
    const mine = `XDG_RUNTIME_DIR=${this.env.XDG_RUNTIME_DIR}\0`;
    const all = new Bun.Glob("[0-9]*").scanSync({ cwd: "/proc", onlyFiles: false });
    return [...all].map(Number).filter((pid) => isAlive(pid) && environmentOf(pid).includes(mine));
  }

  log(): string {
    const file = join(this.paths.dataDir, "daemon.log");
    return existsSync(file) ? readFileSync(file, "utf8") : "";
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await until(() => {
      const pids = this.running();
      for (const pid of pids) kill(pid);
      return pids.length === 0;
    });
    rmSync(this.dir, { recursive: true, force: true });
  }
}

function environmentOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, "utf8");
  } catch {
    // It has ended, or belongs to another user.
    return "";
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}
