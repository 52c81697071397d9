/** Reads the state of a run whose kernel died. */

import { answerWake } from "../../kernel/process/process-info.ts";
import { suspendedFor } from "../../kernel/process/verdict.ts";
import { resumesByItself } from "../../kernel/resume/auto-resume-rule.ts";
import type { ProcInfo, Wake } from "../../kernel/types.ts";
import type { SyscallError } from "../../plugin/index.ts";
import { startedCalls } from "../../run/state.ts";
import type { RunStore } from "../../store/runs/run-store.ts";

/** What the records of a run show beyond its process record, which is as old as its last signal. */
export interface CrashedRun {
  used: Partial<ProcInfo>;
  /** Unix ms of the last record of its own and its children's usage. */
  countedAtMs: number;
  /** Unix ms of its last sign of life. */
  seenAtMs: number;
  /** The last step with a record. */
  recorded: number;
}

/** Reads the state of a run from its records. Its kernel is dead, so nothing of it changes later. */
export async function readCrashedRun(info: ProcInfo, records: Pick<RunStore, "state">): Promise<CrashedRun> {
  const state = await records.state(info);
  const { steps, usage, so_far, recorded } = state;
  return {
    used: {
      steps,
      tool_calls: startedCalls(state),
      usage,
      // Only its own records show its children's usage and its time without suspensions.
      tokens_used:
        so_far?.tokens_used ?? Math.max(info.tokens_used, usage.input_tokens + usage.output_tokens),
      cost_usd: so_far?.cost_usd ?? info.cost_usd,
      steps_used: so_far?.steps_used ?? Math.max(info.steps_used ?? 0, steps),
      elapsed_ms: Math.max(so_far?.elapsed_ms ?? 0, info.elapsed_ms),
    },
    countedAtMs: Math.max(info.created_at_ms, state.counted_at_ms),
    seenAtMs: Math.max(info.created_at_ms, state.seen_at_ms),
    recorded,
  };
}

/** The state of a crashed run whose steps can't be read, from its process record alone. */
export function asUnreadable(info: ProcInfo, why: SyscallError): ProcInfo {
  const { steps, steps_used = steps, created_at_ms } = info;
  const at = { countedAtMs: created_at_ms, seenAtMs: created_at_ms, recorded: steps };
  const message = `The rnix that ran it crashed, and its record can't be read: ${why.message}`;
  return { ...asSuspended(info, { used: { steps_used }, ...at }), error: { code: why.code, message } };
}

/**
 * The state of a run whose kernel died before it wrote an end: an agent is suspended at its last step, any other
 * process counts as killed, because only agents are resumed.
 */
export function asSuspended(info: ProcInfo, { used, seenAtMs, recorded }: CrashedRun): ProcInfo {
  const isAgent = info.kind === "agent";
  const hint = isAgent ? ` Resume it: rnix resume ${info.uuid}.` : "";
  const ended: ProcInfo = {
    ...info,
    ...used,
    ended_at_ms: seenAtMs,
    is_paused: false,
    paused_at_ms: 0,
    error: {
      code: "CLOSED",
      message: `The rnix that ran it died (a crash or kill -9) at step ${used.steps ?? info.steps}.${hint}`,
    },
  };
  if (!isAgent) return { ...ended, state: "dead", exit_code: 137, exit_reason: "killed" };
  const [ask] = info.asks;
  // A paused run is not resumed by itself.
  const wake: Wake | undefined = ask ? answerWake(ask) : info.chat ? { on: "message" } : undefined;
  const status = info.is_paused
    ? suspendedFor("its rnix died while it was paused", { wake })
    : suspendedFor("its rnix died", { cause: "crash", wake });
  const again = info.crashes?.step === recorded ? info.crashes.times : 0;
  return {
    ...ended,
    state: "suspended",
    exit_code: status.code,
    exit_reason: status.reason,
    suspended: status.suspended ? { ...status.suspended, ...(ask && { by_itself: true }) } : null,
    crashes: { step: recorded, times: again + 1 },
  };
}

/** A run that was cut off this often without a step in between may be what crashes rnix. */
const MOST_CRASHES = 3;

/** Whether a suspended run resumes by itself now; if it should but does not, why. */
export function verdictOfStart(info: ProcInfo): { goesOn: boolean; because?: string } {
  if (info.kind !== "agent" || !resumesByItself(info)) return { goesOn: false };
  if (info.suspended?.cause !== "crash" || (info.crashes?.times ?? 0) < MOST_CRASHES) return { goesOn: true };
  const because = `rnix has died ${info.crashes?.times} times at step ${(info.crashes?.step ?? 0) + 1} of this run, which may be the cause.`;
  return { goesOn: false, because };
}
