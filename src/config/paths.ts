import { isAbsolute, join } from "node:path";
import { SyscallError } from "../plugin/index.ts";

export type Env = Readonly<Record<string, string | undefined>>;

/** The paths of the user's configuration, data and socket. All are absolute; none needs to exist. */
export interface UserPaths {
  home: string;
  /** config.yaml, providers.yaml, env, agents/, skills/, plugins/. */
  configDir: string;
  /** Known projects, PIDs, trust, and the data of runs outside any project. */
  dataDir: string;
  /** The server's socket. Its folder is 0700 and also holds `pidFile` and `lockFile`. */
  socket: string;
  /** For information only: rnix never reads it (seeds 5.1). */
  pidFile: string;
  /** The daemon holds this lock while it lives. The socket is stale exactly when the lock is free. */
  lockFile: string;
}

/** The size of `sun_path` on Linux (108) and macOS (104), with its final zero byte. */
const MAX_SOCKET_BYTES = 103;

/** Applies the XDG base directories and the socket rules of seeds 5.2. A relative XDG variable is ignored. */
export function userPaths(env: Env, system: { uid: number; home: string } = thisUser()): UserPaths {
  const home = absolute(env.HOME) ?? system.home;
  const socket = socketPath(env, system.uid);
  const base = socket.replace(/\.sock$/, "");
  return {
    home,
    configDir: join(absolute(env.XDG_CONFIG_HOME) ?? join(home, ".config"), "rnix"),
    dataDir: join(absolute(env.XDG_DATA_HOME) ?? join(home, ".local", "share"), "rnix"),
    socket,
    pidFile: `${base}.pid`,
    lockFile: `${base}.lock`,
  };
}

/** The user of this process. Without HOME, the home folder comes from the system's user list. */
export function thisUser(): { uid: number; readonly home: string } {
  return {
    uid: process.getuid?.() ?? 0,
    get home() {
      return process.getBuiltinModule("node:os").homedir();
    },
  };
}

function socketPath(env: Env, uid: number): string {
  const given = env.RNIX_SOCKET;
  if (given !== undefined && given !== "" && !isAbsolute(given)) {
    throw new SyscallError(
      "INVALID",
      `RNIX_SOCKET: expected an absolute path of a socket file, got "${given}".`,
    );
  }
  const runtime = absolute(env.XDG_RUNTIME_DIR);
  const path = given || join(runtime ? join(runtime, "rnix") : `/tmp/rnix-${uid}`, "rnix.sock");
  const bytes = Buffer.byteLength(path);
  if (bytes > MAX_SOCKET_BYTES) {
    throw new SyscallError(
      "INVALID",
      `The socket's path has ${bytes} bytes, and the system takes ${MAX_SOCKET_BYTES}: ${path}. Set RNIX_SOCKET to a shorter one.`,
    );
  }
  return path;
}

function absolute(path: string | undefined): string | undefined {
  return path !== undefined && isAbsolute(path) ? path : undefined;
}
