/** The server inside a command, for `--no-daemon`. */

import { type Env, userPaths } from "../config/environment/paths.ts";
import { loadSettings } from "../config/settings/settings.ts";
import { withTimeout } from "../lib/cancellation.ts";
import { realClock } from "../lib/clock.ts";
import { textLogger } from "../lib/logger.ts";
import type { BootOptions } from "./boot/options.ts";
import { boot } from "./boot.ts";
import type { ByteStream } from "./connection/connection.ts";
import { memoryPair } from "./connection/memory-stream.ts";
import { refuseInside } from "./daemon/inside-run.ts";
import { logLevel } from "./daemon/log-level.ts";
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
