/** Collects old runs from time to time. */

import { z } from "zod";
import type { Clock } from "../../lib/clock.ts";
import type { Logger } from "../../lib/logger.ts";
import { readRegularSync } from "../../lib/regular-file.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Collector } from "./collector.ts";

/** Delay after the start: the first client comes first. */
const FIRST_MS = 20_000;
/** Milliseconds between two rounds of one collection. */
const ROUND_MS = 5_000;
/** Runs collected in one round. */
const ROUND = 200;

interface AutoCollectPorts {
  collector: Pick<Collector, "collect">;
  /** The file with the time of the last collection by any rnix. */
  lastPath: string;
  /** null: never. */
  everyMs: number | null;
  clock: Clock;
  logger: Logger;
}

/** Schedules the daemon's garbage collection: rarely, in small rounds, and never during its start. */
export class GcSchedule {
  readonly #ports: AutoCollectPorts;
  readonly #ending = new AbortController();
  #timer: { cancel(): void } | undefined;
  #round: Promise<void> = Promise.resolve();

  constructor(ports: AutoCollectPorts) {
    this.#ports = ports;
    if (ports.everyMs !== null) this.#in(Math.max(FIRST_MS, this.#untilDue(ports.everyMs)));
  }

  /** Resolves when the current run is removed. */
  async close(): Promise<void> {
    this.#ending.abort();
    this.#timer?.cancel();
    await this.#round;
  }

  #in(ms: number): void {
    if (this.#ending.signal.aborted) return;
    this.#timer = this.#ports.clock.timer(ms, () => {
      this.#round = this.#collect();
    });
  }

  /** It never rejects: a failure is logged and retried the next time. */
  async #collect(): Promise<void> {
    const { collector, logger, everyMs } = this.#ports;
    let next = everyMs ?? 0;
    try {
      const { runs, bytes, left, problems } = await collector.collect({
        most: ROUND,
        signal: this.#ending.signal,
      });
      if (runs > 0) logger.info("gc", `collected ${runs} old runs, ${bytes} bytes`);
      if (left > 0 && runs > 0) next = ROUND_MS;
      if (problems.length > 0)
        logger.warn("gc", `${problems.length} runs can't be read: rnix gc --dry-run names them`);
    } catch (error) {
      logger.warn(
        "gc",
        `old runs could not be collected: ${error instanceof SyscallError ? error.message : String(error)}`,
      );
    }
    this.#in(next);
  }

  #untilDue(everyMs: number): number {
    const last = lastOf(this.#ports.lastPath);
    if (last === null) return 0;
    // If the clock was set back, wait for one interval at most.
    return Math.min(everyMs, last + everyMs - this.#ports.clock.now());
  }
}

/** One line of JSON. */
const MAX_BYTES = 4096;
const Last = z.object({ at_ms: z.number() });

/** null: not known, so it is due. */
function lastOf(path: string): number | null {
  try {
    return Last.parse(JSON.parse(readRegularSync(path, MAX_BYTES).toString())).at_ms;
  } catch {
    return null;
  }
}
