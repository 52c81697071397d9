/** Runs the command that decides whether a job's instant runs. */

import { JOB_DEFAULTS } from "../../cron/job-defaults.ts";
import type { GateResult } from "../../cron/ports.ts";
import type { Clock } from "../../lib/clock.ts";
import type { Children } from "../../os/children.ts";

interface GatePorts {
  children: Pick<Children, "exec">;
  clock: Clock;
  /** Absolute. */
  spillDir: string;
}

/** Programs need an owner; these belong to no run. */
const OWNER = "cron";
/** Of its output, what a run can get as input. */
const MAX_OUTPUT = 256 * 1024;

/** Returns a function that runs a command in a folder, with the environment of the job. */
export function gateRunner({ children, clock, spillDir }: GatePorts) {
  return async (
    { cwd, env }: { cwd: string; env: Record<string, string> },
    command: string,
  ): Promise<GateResult> => {
    const child = await children.exec(
      { uuid: OWNER, spillDir, clock },
      {
        argv: ["/bin/sh", "-c", command],
        cwd,
        env,
        timeoutMs: JOB_DEFAULTS.ifTimeoutMs,
        maxOutput: MAX_OUTPUT,
        life: "process",
      },
    );
    const decoder = new TextDecoder();
    let output = "";
    for (let piece = await child.read(); piece !== null; piece = await child.read())
      if (piece.fd === 1 && output.length < MAX_OUTPUT)
        output += decoder.decode(piece.data, { stream: true });
    const { code, timedOut } = await child.exited();
    return { exitCode: code, timedOut, output: output.slice(0, MAX_OUTPUT) };
  };
}
