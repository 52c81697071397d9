/** Runs the declared checks of a run. */

import { firstLine } from "../../lib/call-title.ts";
import { attemptsOf, failedAttempts, failedCheck } from "../../lib/check-attempts.ts";
import { hasCommand } from "../../lib/has-command.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { CheckResult } from "../../store/runs/schema.ts";
import { RunError } from "../errors/kernel-errors.ts";
import { runProgram } from "../files/run-program.ts";
import type { Process } from "../process/process.ts";
import { checkFailure } from "../process/verdict.ts";
import type { Processes } from "../tiers/processes.ts";

/** Characters of a failed check's output that are kept and that the model is shown. */
const OUTPUT_SHOWN = 4000;
/** A shell's exit code for a command that is not there. */
const NOT_FOUND = 127;
const NOTHING_RAN =
  "It runs nothing here: it only prepares the shell, or its variables are empty. Expected a command, such as npm test.";

/**
 * The declared checks of one run. They run each time the agent says that it has finished. A failed attempt is shown to
 * the model, and the run continues, up to `check_attempts`.
 */
export class Checks {
  readonly #parts: Processes;
  readonly #proc: Process;

  constructor(parts: Processes, proc: Process) {
    this.#parts = parts;
    this.#proc = proc;
  }

  /** Whether the run ends after the next attempt, however that turns out. */
  get isLast(): boolean {
    const { result, spec } = this.#proc;
    return failedAttempts(result.checks) + 1 >= (spec.opts.check_attempts ?? 1);
  }

  /**
   * Runs the checks once. Returns false when the run continues: one has failed, its output is in the model's inbox, and
   * an attempt is left. The verdict reads the results.
   */
  async pass(): Promise<boolean> {
    const { drain, runner, saveInfo } = this.#parts;
    const proc = this.#proc;
    const { checks, opts } = proc.spec;
    if (checks.length === 0) return true;
    await runner.endChildren(proc);
    // Checks are programs, and the clock of their deadlines is stopped while the process is paused.
    await proc.gate();
    if (drain.isOn) await drain.waitForSuspend(proc);
    if (stopOf(proc)) return true;
    const results = await this.#run(attemptsOf(proc.result.checks) + 1);
    const stopped = stopOf(proc);
    // After a resume they run again.
    if (stopped?.reason === "suspended") return true;
    proc.result.checks.push(...results);
    const failed = failedCheck(proc.result.checks);
    if (!failed || stopped || failedAttempts(proc.result.checks) >= (opts.check_attempts ?? 1)) return true;
    // The message holds the results too, so a kill between the two writes loses no attempt.
    await this.#notifyModel(failed, results);
    await saveInfo(proc);
    return false;
  }

  /** Runs the checks in order and stops at the first that fails, because a later one may depend on it. */
  async #run(attempt: number): Promise<CheckResult[]> {
    const { clock, openContexts, watchers } = this.#parts;
    const proc = this.#proc;
    const done: CheckResult[] = [];
    for (const [index, command] of proc.spec.checks.entries()) {
      watchers.doing(proc, "check", `checking: ${firstLine(command)}`);
      const started = clock.monotonic();
      const later = attempt > 1 && { attempt };
      if (!hasCommand(command, proc.spec.opts.env)) {
        done.push({ command, exit_code: NOT_FOUND, output: NOTHING_RAN, ...later });
        break;
      }
      const { exit, output } = await runProgram(
        (request) => openContexts.exec(proc, request, `check-${index + 1}`),
        { argv: ["/bin/sh", "-c", command], timeoutMs: proc.spec.opts.limits.check_timeout, life: "call" },
        OUTPUT_SHOWN,
        proc.signal,
      );
      const exit_code = exit.timedOut ? null : exit.code;
      const failed = exit_code !== 0;
      const elapsed_ms = Math.round(clock.monotonic() - started);
      done.push({ command, exit_code, elapsed_ms, ...(failed && { output }), ...later });
      if (failed || proc.stopped) break;
    }
    return done;
  }

  /** Puts the failure into the inbox: durable, and delivered once with the next step. */
  async #notifyModel(failed: CheckResult, checks: CheckResult[]): Promise<void> {
    const { clock, inboxes, watchers } = this.#parts;
    const proc = this.#proc;
    const left = (proc.spec.opts.check_attempts ?? 1) - failedAttempts(proc.result.checks);
    const more = left === 1 ? "1 attempt is left" : `${left} attempts are left`;
    const why = checkFailure(failed);
    watchers.notice(proc, `${why}; the model is shown its output, and ${more}`);
    const output = failed.output?.trim() ?? "";
    const shown = output === "" ? "It printed nothing." : `The end of its output:\n${output}`;
    const text = `You finished, but ${why}. ${shown}\nFix the cause, then finish again: all checks then run again, and ${more}.`;
    const ts = new Date(clock.now()).toISOString();
    try {
      await inboxes.put(proc, { kind: "notice", ts, source: "checks", text, checks });
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
      // The inbox is full of messages, which the model reads first, or it is closed because the run is ending.
      if (thrown.code !== "EXHAUSTED" && thrown.code !== "CLOSED") throw new RunError("record_error", thrown);
    }
  }
}

/** Read again after each wait. */
function stopOf({ stopped }: Process): Process["stopped"] {
  return stopped;
}
