import type { CheckResult } from "../../store/runs/schema.ts";
import type { OpenContexts } from "../files/open-context.ts";
import { runProgram } from "../files/run-program.ts";
import type { Process } from "../process/process.ts";

const OUTPUT_SHOWN = 4000;

/**
 * Runs the declared checks one after the other and stops at the first that fails: a later one may rest on
 * it. Called when the agent says it has finished; that alone is success only if nothing was declared.
 */
export async function runChecks(contexts: OpenContexts, proc: Process): Promise<CheckResult[]> {
  const done: CheckResult[] = [];
  for (const [index, command] of proc.spec.checks.entries()) {
    const { exit, output } = await runProgram(
      (request) => contexts.exec(proc, request, `check-${index + 1}`),
      { argv: ["/bin/sh", "-c", command], timeoutMs: proc.spec.opts.limits.check_timeout, life: "call" },
      OUTPUT_SHOWN,
      proc.signal,
    );
    const code = exit.timedOut ? null : exit.code;
    done.push(code === 0 ? { command, exit_code: code } : { command, exit_code: code, output });
    if (code !== 0 || proc.stopped) break;
  }
  return done;
}
