/** Logs the beginnings and the ends of runs. */

import type { ProcessIdentity } from "../../kernel/process/process-info.ts";
import type { KernelCallbacks, PID } from "../../kernel/types.ts";
import type { Logger } from "../../lib/logger.ts";

/** Maximum characters of an intent that are logged. The run's own record has all of it. */
const INTENT = 80;
const MESSAGE = 300;

interface RunLogPorts {
  /** A process of the table; one that has just ended is still there. */
  identity(pid: PID): ProcessIdentity;
  logger: Logger;
}

export function runLog({ identity, logger }: RunLogPorts): Partial<KernelCallbacks> {
  return {
    onSpawn(pid, intent, provider, model) {
      const { uuid, kind, agent } = identity(pid);
      const who = kind === "agent" ? `agent ${agent} on ${provider}/${model}` : kind;
      logger.info(`PID ${pid}`, `spawned ${uuid}, ${who}: ${oneLine(intent, INTENT)}`);
    },
    ...(logger.lowest === "debug" && {
      onStep(pid: PID, step: number, total: number | null) {
        logger.debug(`PID ${pid}`, `step ${step}${total === null ? "" : `/${total}`}`);
      },
    }),
    onComplete(pid, _result, { code, reason, error }) {
      const why = error ? `: ${oneLine(error.message, MESSAGE)}` : "";
      logger.info(`PID ${pid}`, `ended with ${code}, ${reason}${why}`);
    },
  };
}

/** It can't begin a new line or control a terminal. */
function oneLine(text: string, length: number): string {
  const trimmed = text.trim();
  // Truncated first: an intent may have megabytes.
  const start = trimmed.slice(0, 2 * length);
  const line = start.replace(/[\p{Cc}\s]+/gu, " ");
  if (start === trimmed && line.length <= length) return line;
  const whole = line.slice(0, length).replace(/\p{Surrogate}$/u, "");
  return `${whole.trimEnd()}…`;
}
