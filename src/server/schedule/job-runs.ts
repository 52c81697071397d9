/** Begins, resumes, reads and ends the runs of jobs, runs their gates, and notifies of their failures. */

import type { StoredJob } from "../../cron/job.ts";
import { JOB_DEFAULTS } from "../../cron/job-defaults.ts";
import type { Conversation, GateResult, JobEvent, RunOutcome, RunStart } from "../../cron/ports.ts";
import { limitsOf } from "../../kernel/lifetime/spawn-limits.ts";
import { bareAgent } from "../../kernel/process/process-spec.ts";
import { resumesByItself } from "../../kernel/resume/auto-resume-rule.ts";
import type { Limit, ProcInfo } from "../../kernel/types.ts";
import type { Logger } from "../../lib/logger.ts";
import { readRegular } from "../../lib/regular-file.ts";
import { SIGTERM } from "../../lib/signals.ts";
import { type ProgramPorts, runShortProgram, shell } from "../../os/short-program.ts";
import { type LedgerRow, SyscallError } from "../../plugin/index.ts";
import { untrustedBlocks } from "../../plugin/untrusted-text.ts";
import type { Notifier } from "../notify/notifier.ts";
import type { SpawnPlan } from "../plan/plan-spawn.ts";
import type { Run } from "../records/recorded-run.ts";
import type { KernelApi } from "../services.ts";
import { type JobPlanPorts, planJob, smaller } from "./plan-job.ts";

interface JobRunPorts {
  plan: JobPlanPorts;
  kernel(): KernelApi & { processes: { findPid(uuid: string): number | undefined } };
  find(uuid: string): Promise<Run | undefined>;
  /** Plans a resume with the environment of the job. */
  planResume(run: Run, job: StoredJob): Promise<SpawnPlan>;
  /** The run has ended without a process: its waker forgets it. */
  ended(uuid: string): void;
  now(): number;
}

/** Steps after which a conversation ends and the next instant begins a new one. */
const MAX_CONVERSATION_STEPS = 1000;
/** Levels of children whose calls count. */
const MAX_DEPTH = 10;
/** Maximum characters of a hook's body that the model is shown. */
const MAX_BODY = 256 * 1024;

export class JobRuns {
  readonly #ports: JobRunPorts;

  constructor(ports: JobRunPorts) {
    this.#ports = ports;
  }

  /** Fails as a spawn or a resume does. */
  async start(start: RunStart): Promise<void> {
    const { job, row, uuid } = start;
    const ref = {
      id: job.id,
      name: job.name,
      due: row.due,
      attempt: row.attempt,
      ...(job.creator.kind === "run" && { by_run: true as const }),
    };
    const body = start.bodyFile === undefined ? undefined : await hookInput(start.bodyFile, job);
    const input = [start.input, body].filter((text) => text !== undefined).join("\n\n") || undefined;
    const { agent, opts, notices } = await planJob(job, this.#ports.plan, {
      ref,
      input,
      ...(body !== undefined && { inputOrigin: "the event that triggered the job" }),
    });
    const own = limitsOf("agent", agent ?? bareAgent("none"), opts);
    const tokens = smaller(own.tokens, start.maxTokens) ?? null;
    const cost = smaller(own.cost, start.maxCost) ?? null;
    if (start.resumes) {
      opts.devices.release();
      await this.#resume(start, ref, { ...own, tokens, cost }, { input, origin: opts.inputOrigin });
      return;
    }
    const { processes } = this.#ports.kernel();
    const limits = { context_budget: tokens, max_cost: cost };
    await processes.spawn(job.intent, agent, { ...opts, ...limits, uuid, notices });
  }

  /** Returns how the run of this row ended; null if no run was started for this attempt. */
  async outcome(row: LedgerRow): Promise<RunOutcome | null> {
    const info = row.uuid === null ? undefined : await this.#info(row.uuid);
    if (!info || info.job?.due !== row.due || info.job.attempt !== row.attempt) return null;
    return {
      state: stateOf(info),
      exitCode: info.exit_code,
      exitReason: info.exit_reason,
      error: info.error?.message ?? info.suspended?.reason ?? null,
      result: info.result,
      tokensUsed: info.tokens_used,
      costUsd: info.cost_usd,
      endedAt: info.ended_at_ms,
      repeatable: !(await this.#acted(info, MAX_DEPTH)),
      filesChanged: info.files_changed_complete ? info.files_changed : null,
    };
  }

  async conversation({ conversation }: StoredJob): Promise<Conversation | null> {
    if (conversation === undefined) return null;
    const info = await this.#info(conversation);
    if (!info || stateOf(info) !== "ended" || info.foreign || info.exit_reason !== "completed") return null;
    // Its older part is compacted, and reading the whole record costs each resume.
    if (info.steps >= MAX_CONVERSATION_STEPS) return null;
    return { uuid: info.uuid, tokensUsed: info.tokens_used, costUsd: info.cost_usd };
  }

  /** Ends a live or a suspended run. */
  async stop(uuid: string): Promise<void> {
    const kernel = this.#ports.kernel();
    const pid = kernel.processes.findPid(uuid);
    if (pid !== undefined) {
      kernel.signals.signalTree(pid, SIGTERM);
      return;
    }
    const run = await this.#ports.find(uuid);
    if (run?.info.state !== "suspended") return;
    const ended = await kernel.lifecycle.endSuspended(run.info, run.records.dataDir, SIGTERM, { tree: true });
    if (ended > 0) this.#ports.ended(uuid);
  }

  async #resume(
    { job, row, uuid, passed }: RunStart,
    ref: ProcInfo["job"],
    limits: Record<"tokens" | "cost" | "steps" | "timeMs", Limit>,
    { input, origin }: { input: string | undefined; origin: string | undefined },
  ): Promise<void> {
    const run = await this.#ports.find(uuid);
    if (!run) throw new SyscallError("NOT_FOUND", `The conversation ${uuid} of the job ${job.name} is gone.`);
    const { agent, opts, notices } = await this.#ports.planResume(run, job);
    const { info } = run;
    // The limits of a resumed run count from its beginning; those of a job are for each instant.
    const plus = (used: number, limit: Limit): Limit => (limit === null ? null : used + limit);
    const text = [continueText(job, row, passed, this.#ports.now()), input].filter(
      (one) => one !== undefined,
    );
    await this.#ports.kernel().lifecycle.resume(
      uuid,
      agent,
      {
        ...opts,
        inputOrigin: origin,
        job: ref ?? undefined,
        context_budget: plus(info.tokens_used, limits.tokens),
        max_cost: plus(info.cost_usd ?? 0, limits.cost),
        max_steps: plus(info.steps_used ?? info.steps, limits.steps),
        timeout_ms: plus(info.elapsed_ms, limits.timeMs),
        notices,
      },
      { input: text.join("\n\n") },
    );
  }

  async #info(uuid: string): Promise<ProcInfo | undefined> {
    const { processes } = this.#ports.kernel();
    const pid = processes.findPid(uuid);
    if (pid !== undefined) {
      const info = processes.info(pid);
      if (info.ended_at_ms === null) return info;
    }
    return (await this.#ports.find(uuid))?.info;
  }

  async #acted({ acted, sandbox, children }: ProcInfo, depth: number): Promise<boolean> {
    // A program with tools of its own: its calls are not known.
    if (acted || sandbox === "unconfined" || depth === 0) return true;
    for (const { uuid } of children) {
      const child = await this.#info(uuid);
      if (!child || (await this.#acted(child, depth - 1))) return true;
    }
    return false;
  }
}

function stateOf(info: ProcInfo): RunOutcome["state"] {
  if (info.state !== "suspended") return info.ended_at_ms === null ? "live" : "ended";
  const { suspended } = info;
  if (suspended?.wake.on === "answer") return "parked";
  return suspended?.by_itself || resumesByItself(info) ? "waiting" : "parked";
}

/** The message to the model of a conversation at each instant. */
function continueText(job: StoredJob, row: LedgerRow, passed: readonly LedgerRow[], now: number): string {
  const lines = [
    `The schedule of the job ${job.name} resumes this conversation. It is ${new Date(now).toISOString()}; the instant was due at ${row.due}.`,
  ];
  const count = passed.reduce((sum, one) => sum + (one.count ?? 1), 0);
  if (count > 0) {
    const states = Map.groupBy(passed, ({ state }) => state);
    const parts = [...states].map(
      ([state, rows]) => `${rows.reduce((sum, one) => sum + (one.count ?? 1), 0)} ${state}`,
    );
    lines.push(
      `Since the last completed one, ${count} earlier instants did not complete: ${parts.join(", ")}.`,
    );
  }
  return `${lines.join("\n")}\n\n${job.intent}`;
}

/** The body of a hook's event, as data: it comes from outside. */
export async function hookInput(file: string, { name }: Pick<StoredJob, "name">): Promise<string> {
  const text = new TextDecoder().decode(await readRegular(file, MAX_BODY));
  return untrustedBlocks([{ name: `the event that triggered the job ${name}`, text }]);
}

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

export function notifyOf(
  { event, job, row, reason }: JobEvent,
  { notifier, logger }: { notifier: () => Pick<Notifier, "notify">; logger: Logger },
): void {
  logger.warn(`job ${job.name}`, `${event}: ${reason}`);
  const target = event === "silent" ? job.on_silence : job.on_failure;
  if (target === undefined) return;
  const about = { event: `job_${event}`, job: job.name, project: job.project, reason, row };
  notifier().notify({ target, cwd: job.project }, about);
}
