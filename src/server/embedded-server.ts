/** The server inside a command, for `--no-daemon`. */

import { EventEmitter } from "node:events";
import { type Env, userPaths } from "../config/environment/paths.ts";
import { loadSettings } from "../config/settings/settings.ts";
import { realClock, withTimeout } from "../lib/clock.ts";
import { logLevel, textLogger } from "../lib/logger.ts";
import type { BootOptions } from "./boot/options.ts";
import { boot } from "./boot.ts";
import type { ByteStream } from "./connection/connection.ts";
import { refuseInside } from "./daemon/inside-run.ts";
import { Server } from "./server.ts";

/** Time beyond their grace for stuck processes when the command ends. */
const DRAIN_MS = 5000;

interface InsideServer {
  /** The client's end of a new connection. */
  connect(): ByteStream;
  /** Ends all processes and leaves nothing running. */
  close(): Promise<void>;
}

/** Starts the server inside this command (`--no-daemon`), without a socket, a log file or another process. */
export async function startEmbeddedServer(
  env: Env,
  log: (text: string) => void,
  { alone = false, keyFolder }: Partial<Pick<BootOptions, "alone" | "keyFolder">> = {},
): Promise<InsideServer> {
  refuseInside(
    env,
    "UNAVAILABLE",
    "--no-daemon is refused inside a run: a run spawned so would not be this run's child and would have limits of its own. Run the command without the flag: the daemon then spawns a child of this run.",
  );
  const user = userPaths(env);
  const settings = await loadSettings({ configDir: user.configDir });
  const { system, close } = await boot({
    user,
    env,
    settings,
    logger: textLogger(logLevel(env, "warn"), log),
    alone,
    keyFolder,
    host: {
      socket: "",
      log: "",
      connections: () => server.connections,
      loopDelay: () => ({ p50: 0, max: 0 }),
      // The user asked for this: no daemon resumes the run by itself.
      stop(now) {
        void system.kernel.shutdown({ now, cause: "asked" });
        return undefined;
      },
    },
  });
  const server = new Server(system);
  return {
    connect() {
      const [client, ours] = memoryPair();
      server.accept(ours);
      return client;
    },
    async close() {
      const { kernel } = system;
      if (
        !(await withTimeout(realClock, settings.values.grace + DRAIN_MS, kernel.shutdown({ cause: "asked" })))
      ) {
        await withTimeout(realClock, settings.values.grace + DRAIN_MS, kernel.shutdown({ now: true }));
      }
      await server.close();
      await close();
    },
  };
}

/** Bytes that may wait for a reader before `write` returns false. */
const HIGH_WATER_BYTES = 64 * 1024;

/**
 * The two ends of a connection within this process, for `--no-daemon`. It replaces node:stream's duplexPair, which
 * takes longer to load than a whole request. Each end reads in order what the other wrote, never within the write
 * itself. Destroying one end destroys both.
 */
export function memoryPair(): [ByteStream, ByteStream] {
  const one = new MemoryStream();
  const other = new MemoryStream();
  one.other = other;
  other.other = one;
  return [one, other];
}

class MemoryStream extends EventEmitter implements ByteStream {
  other: MemoryStream | undefined;
  /** Written by the other end, not read yet. */
  readonly #unread: Uint8Array[] = [];
  #unreadBytes = 0;
  #paused = true;
  #readsSoon = false;
  /** The other end has ended its writing. */
  #ending = false;
  #destroyed = false;

  constructor() {
    super();
    this.on("newListener", (event) => {
      if (event === "data") this.resume();
    });
  }

  write(text: string): boolean {
    return this.other?.take(Buffer.from(text)) ?? false;
  }

  /** "finish", and `done`, come when the other end has read everything. */
  end(text?: string, done?: () => void): void {
    if (done) this.once("finish", done);
    if (text !== undefined) this.write(text);
    this.other?.takeEnd();
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#readSoon();
  }

  /** What was not read yet is lost. Safe to call again. */
  destroy(): void {
    if (this.#destroyed) return;
    this.#destroyed = true;
    this.#unread.length = 0;
    queueMicrotask(() => this.emit("close"));
    this.other?.destroy();
  }

  take(chunk: Uint8Array): boolean {
    if (this.#destroyed) return false;
    this.#unread.push(chunk);
    this.#unreadBytes += chunk.length;
    this.#readSoon();
    return this.#unreadBytes < HIGH_WATER_BYTES;
  }

  takeEnd(): void {
    this.#ending = true;
    this.#readSoon();
  }

  #readSoon(): void {
    if (this.#readsSoon) return;
    this.#readsSoon = true;
    queueMicrotask(() => this.#read());
  }

  #read(): void {
    this.#readsSoon = false;
    while (this.#canRead()) {
      const chunk = this.#unread.shift();
      if (!chunk) break;
      const full = this.#unreadBytes >= HIGH_WATER_BYTES;
      this.#unreadBytes -= chunk.length;
      this.emit("data", chunk);
      if (full && this.#unreadBytes < HIGH_WATER_BYTES) this.other?.emit("drain");
    }
    if (!this.#ending || !this.#canRead() || this.#unread.length > 0) return;
    this.#ending = false;
    this.emit("end");
    this.other?.emit("finish");
  }

  #canRead(): boolean {
    return !this.#paused && !this.#destroyed;
  }
}
