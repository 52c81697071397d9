/** Runs the command that decides whether a job's instant runs. */

import { JOB_DEFAULTS } from "../../cron/job-defaults.ts";
import type { GateResult } from "../../cron/ports.ts";
import { type ProgramPorts, runShortProgram, shell } from "../../os/short-program.ts";

/** Maximum characters of the gate's output that the run gets as input. */
const MAX_OUTPUT = 256 * 1024;

export async function runGate(
  command: string,
  { cwd, env }: { cwd: string; env: Record<string, string> },
  ports: ProgramPorts,
): Promise<GateResult> {
  const program = {
    argv: shell(command),
    cwd,
    env,
    timeoutMs: JOB_DEFAULTS.ifTimeoutMs,
    maxChars: MAX_OUTPUT,
  };
  const { code, timedOut, stdout } = await runShortProgram(ports, "cron", program);
  return { exitCode: code, timedOut, output: stdout };
}
