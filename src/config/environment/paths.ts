/** The paths of the user's configuration, data and socket. */

import { existsSync, lstatSync, mkdirSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { SyscallError } from "../../plugin/errors.ts";
import { canWrite, isClosedByOwner } from "../files/file.ts";

export type Env = Readonly<Record<string, string | undefined>>;

/** All are absolute; none needs to exist. */
export interface UserPaths {
  home: string;
  /** config.yaml, providers.yaml, env, agents/, skills/, plugins/. */
  configDir: string;
  /** Known projects, PIDs, trust, and the data of runs outside any project. */
  dataDir: string;
  /** Set if `dataDir` is in the temporary folder: the folder below HOME that can't be written. */
  unwritableDataDir?: string;
  /** Set if HOME is another user's and keeps this user out, as after `sudo -u`: `home` is then `dataDir`. */
  closedHome?: string;
  /** The server's socket. Its folder is 0700 and also holds `pidFile` and `lockFile`. */
  socket: string;
  /** For information only: rnix never reads it. */
  pidFile: string;
  /** The daemon holds this lock while it lives. The socket is stale exactly when the lock is free. */
  lockFile: string;
}

/** The size of `sun_path` on Linux (108) and macOS (104), with its final zero byte. */
const MAX_SOCKET_BYTES = 103;

/** The user, and whether the user can write to a path or create it. */
export interface System {
  uid: number;
  readonly home: string;
  canWrite(path: string): boolean;
}

/**
 * Applies the XDG base directories and the rules for the socket. A relative XDG variable is ignored, and so is an
 * XDG_RUNTIME_DIR that can't be written. Without a writable HOME the data is in the temporary folder. Nothing is read
 * below a HOME that another user keeps closed.
 */
export function userPaths(env: Env, system: System = thisUser()): UserPaths {
  const given = absolute(env.HOME) ?? system.home;
  const config = absolute(env.XDG_CONFIG_HOME);
  const data = dataFolder(env, given, system);
  const isClosed = isClosedByOwner(given, config === undefined ? ".config/rnix" : ".", system.uid);
  const home = isClosed ? data.dataDir : given;
  const socket = socketPath(env, system);
  const base = socket.replace(/\.sock$/, "");
  return {
    home,
    configDir: join(config ?? join(home, ".config"), "rnix"),
    ...data,
    ...(isClosed && { closedHome: given }),
    socket,
    pidFile: `${base}.pid`,
    lockFile: `${base}.lock`,
  };
}

/** The user of this process. Without HOME, the home folder comes from the system's user list. */
export function thisUser(): System {
  return {
    uid: process.getuid?.() ?? 0,
    get home() {
      try {
        return process.getBuiltinModule("node:os").homedir();
      } catch (thrown) {
        // A user who is not in the system's list, as in a container.
        if (errnoOf(thrown) === "ENOENT") return "/";
        throw thrown;
      }
    },
    canWrite,
  };
}

/** Which folders of HOME are not used, and why; undefined if all are. */
export function homeNotice({ dataDir, unwritableDataDir, closedHome }: UserPaths): string | undefined {
  const closed =
    closedHome === undefined
      ? ""
      : `HOME (${closedHome}) is another user's and can't be read, so its settings, keys and skills are left out`;
  if (unwritableDataDir === undefined) return closed || undefined;
  return `${closed && `${closed}; `}${unwritableDataDir} can't be written: trust, PIDs and logs are in ${dataDir} for now. To keep them, set HOME or XDG_DATA_HOME to a folder that you can write to`;
}

/** A folder that XDG_DATA_HOME names is used, or refused. */
function dataFolder(
  env: Env,
  home: string,
  { uid, canWrite }: System,
): Pick<UserPaths, "dataDir" | "unwritableDataDir"> {
  const given = absolute(env.XDG_DATA_HOME);
  const dataDir = join(given ?? join(home, ".local", "share"), "rnix");
  if (given !== undefined || canWrite(dataDir)) return { dataDir };
  return { dataDir: temporaryDataDir(absolute(env.TMPDIR) ?? "/tmp", uid), unwritableDataDir: dataDir };
}

function socketPath(env: Env, { uid, canWrite }: System): string {
  const given = env.RNIX_SOCKET;
  if (given !== undefined && given !== "" && !isAbsolute(given)) {
    throw new SyscallError(
      "INVALID",
      `RNIX_SOCKET: expected an absolute path of a socket file, got "${given}".`,
    );
  }
  const path = given || (runtimeSocket(env, canWrite) ?? join(`/tmp/rnix-${uid}`, "rnix.sock"));
  const bytes = Buffer.byteLength(path);
  if (bytes > MAX_SOCKET_BYTES) {
    throw new SyscallError(
      "INVALID",
      `The socket's path has ${bytes} bytes, and the system takes ${MAX_SOCKET_BYTES}: ${path}. Set RNIX_SOCKET to a shorter one.`,
    );
  }
  return path;
}

/** The socket in XDG_RUNTIME_DIR. After su or in a container the variable may name a folder of another user, or none. */
function runtimeSocket(env: Env, canWrite: System["canWrite"]): string | undefined {
  const runtime = absolute(env.XDG_RUNTIME_DIR);
  if (runtime === undefined) return undefined;
  const folder = join(runtime, "rnix");
  const socket = join(folder, "rnix.sock");
  return canWrite(folder) || existsSync(socket) ? socket : undefined;
}

function absolute(path: string | undefined): string | undefined {
  return path !== undefined && isAbsolute(path) ? path : undefined;
}

/**
 * The user's data folder below a temporary folder, for a user without a writable HOME. Made 0700. Fails with PERMISSION
 * unless it belongs to this user alone, because it holds what the user trusts: another user could have made it.
 */
function temporaryDataDir(temp: string, uid: number): string {
  const dir = join(temp, `rnix-data-${uid}`);
  try {
    mkdirSync(dir, { mode: 0o700 });
    return dir;
  } catch (cause) {
    if (errnoOf(cause) !== "EEXIST") throw noFolder(temp, cause);
  }
  const stat = lstatSync(dir);
  if (stat.isDirectory() && stat.uid === uid && (stat.mode & 0o077) === 0) return dir;
  throw new SyscallError(
    "PERMISSION",
    `${dir} belongs to user ${stat.uid} with mode ${(stat.mode & 0o777).toString(8)}: expected a folder of user ${uid} with mode 700. Remove it, or ${ADVICE}.`,
  );
}

const ADVICE = "set XDG_DATA_HOME to a folder that you can write to";

function noFolder(temp: string, cause: unknown): SyscallError {
  const why = errnoOf(cause) ?? String(cause);
  return new SyscallError(
    "UNAVAILABLE",
    `HOME can't be written, nor can the temporary folder ${temp} (${why}): Rnix has no folder for its data. Set TMPDIR, or ${ADVICE}.`,
    { cause },
  );
}
