/** Opens the server that a command talks to: the daemon, or one inside the command. */

import type { Env } from "../config/environment/paths.ts";
import { SyscallError } from "../plugin/errors.ts";
import type { ByteStream } from "../server/connection/connection.ts";
import { commit, version } from "../version.ts";
import type { Pipe, PipeListener } from "./client.ts";
import { Client } from "./client.ts";
import type { DaemonOptions } from "./daemon.ts";

/** A server with any number of connections to it. */
export interface Session {
  connect(): Promise<Client>;
  /** Ends the connections, and the server too when it is inside this command. */
  close(): Promise<void>;
}

export interface SessionOptions {
  env: Env;
  /** `--no-daemon`: the same server inside this command. It leaves nothing running. */
  inside?: boolean;
  /** This process runs one command only: all its child processes belong to runs. */
  alone?: boolean;
  /** With `inside`, for reading records of another folder: the folder of the user's key. */
  keyFolder?: string;
  /** null instead of starting a daemon when none runs. */
  onlyRunning?: boolean;
  /** Also a daemon of another version: for `daemon status` and `daemon stop`. */
  anyVersion?: boolean;
  /** The log of a server inside this command; a daemon has a file for it. */
  log?(text: string): void;
}

/** Opens the server of a command. Returns null only with `onlyRunning`. */
export async function openSession(o: SessionOptions): Promise<Session | null> {
  if (o.inside) return insideSession(o);
  const daemon: DaemonOptions = { env: o.env, version, build: commit, anyVersion: o.anyVersion };
  const { dialDaemon, ensureDaemon } = await import("./daemon.ts");
  const first = o.onlyRunning ? await dialDaemon(daemon) : await ensureDaemon(daemon);
  return first && new DaemonSession(daemon, first);
}

class DaemonSession implements Session {
  readonly #daemon: DaemonOptions;
  #clients: Client[];
  /** The connection that tested whether the daemon runs; the first caller gets it. */
  #spare: Client | undefined;

  constructor(daemon: DaemonOptions, first: Client) {
    this.#daemon = daemon;
    this.#spare = first;
    this.#clients = [first];
  }

  async connect(): Promise<Client> {
    const spare = this.#spare;
    this.#spare = undefined;
    if (spare && !spare.isLost) return spare;
    const { dialDaemon, ensureDaemon } = await import("./daemon.ts");
    // The daemon may have stopped or restarted while the command read its stdin, before any request.
    const client = await (spare ? ensureDaemon(this.#daemon) : dialDaemon(this.#daemon));
    if (!client) {
      const message = "The daemon has stopped. Try again: the next command starts a new one.";
      throw new SyscallError("UNAVAILABLE", message);
    }
    this.#clients = [...this.#clients.filter(({ isLost }) => !isLost), client];
    return client;
  }

  async close(): Promise<void> {
    for (const client of this.#clients) client.close();
  }
}

/** Loaded only with `--no-daemon`: it brings the whole server. */
async function insideSession({ env, log = () => undefined, ...o }: SessionOptions): Promise<Session> {
  await import("./uncompiled-schemas.ts");
  const { startEmbeddedServer } = await import("../server/embedded-server.ts");
  const server = await startEmbeddedServer(env, log, o);
  return {
    connect: async () => new Client(overStream(server.connect()), { unit: env.RNIX_UNIT }),
    close: () => server.close(),
  };
}

/** A client's pipe over a memory stream: the client's end of a pair whose other end the server has. */
export function overStream(stream: ByteStream): Pipe {
  return {
    listen({ data, closed }: PipeListener) {
      let cause: Error | undefined;
      stream.on("data", data);
      stream.on("error", (error) => {
        cause = error;
      });
      stream.on("close", () => closed(cause));
    },
    write: (text) => void stream.write(text),
    pause: () => void stream.pause(),
    resume: () => void stream.resume(),
    close: () => void stream.destroy(),
  };
}
