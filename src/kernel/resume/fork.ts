/** Reads what a fork takes from another run. */

import type { Clock } from "../../lib/clock.ts";
import { SyscallError } from "../../plugin/index.ts";
import { eventsOf } from "../../run/events.ts";
import { DamageCollector } from "../../store/files/damaged-lines.ts";
import type { RunStore } from "../../store/runs/run-store.ts";
import type { ProcInfo, StepRecord } from "../../store/runs/schema.ts";
import { recordedFirst } from "../conversation/messages.ts";
import { rebuildHistory } from "../conversation/rebuild-history.ts";
import { initialProgress } from "../process/run-progress.ts";
import type { AgentInfo } from "../types.ts";
import { answerOf, callsOf, lastPlan, skillsCalled, wasInterrupted } from "./recorded-steps.ts";
import { damageTexts, hasEnded, requireOwnRecord, type SavedRun, unreadable } from "./saved-run.ts";

/**
 * Reads what a fork copies from another run, which may be live: its steps up to this one (by default all recorded
 * ones), its limits without their usage, and its current rights. The other run's open step is not copied. Fails with
 * INVALID when the step does not exist or can't be read. Fails with PERMISSION for a foreign run, unless `adopt` is
 * set: then only its conversation is copied.
 */
export async function readFork(
  runs: RunStore,
  info: ProcInfo,
  agent: AgentInfo | null,
  o: { step?: number; adopt?: boolean; clock: Clock },
): Promise<SavedRun> {
  const { uuid } = info;
  const lost = new DamageCollector({ live: info.ended_at_ms === null });
  const [meta, recorded] = await Promise.all([runs.meta(uuid), Array.fromAsync(runs.everyStep(uuid, lost))]);
  if (!meta?.spawned) throw unreadable(uuid);
  if (!o.adopt) requireOwnRecord(info, meta, lost);
  const steps = upTo(o.step, recorded, uuid);
  if (o.adopt) requireConversation(uuid, steps);
  const history = rebuildHistory(eventsOf(steps, []), recordedFirst(info, meta.spawned));
  const calls = callsOf(steps, history);
  const skills = skillsCalled(calls, agent);
  const last = steps.at(-1);
  const answered = last !== undefined && answerOf(last) !== null;
  return {
    info,
    meta,
    spawned: meta.spawned,
    history,
    before: { tokens: 0, cost: null, steps: 0, elapsedMs: 0 },
    units: [],
    unread: [],
    damage: damageTexts(lost),
    progress: {
      ...initialProgress(o.clock),
      step: history.step,
      plan: lastPlan(calls),
      skills,
      turnOver: info.chat && (last === undefined || answered || wasInterrupted(steps)),
      answerCut: wasInterrupted(steps) && last?.tool_calls.length === 0,
    },
    fork: {
      steps,
      adopted: o.adopt === true,
      answered,
      ended: steps.length === recorded.length && hasEnded(info),
    },
  };
}

/** A foreign message in the system's name would count as the user's own. */
function requireConversation(uuid: string, steps: readonly StepRecord[]): void {
  const speaks = steps.find(({ messages }) => messages.some(({ role }) => role === "system"));
  if (!speaks) return;
  throw new SyscallError(
    "INVALID",
    `Step ${speaks.step} of run ${uuid} holds a message of the system, which no conversation of an agent has: it can't be adopted.`,
  );
}

function upTo(
  step: number | undefined,
  recorded: readonly StepRecord[],
  uuid: string,
): readonly StepRecord[] {
  if (step === undefined) return recorded;
  if (recorded.some((record) => record.step === step))
    return recorded.filter((record) => record.step <= step);
  const last = recorded.at(-1)?.step;
  const there = last === undefined ? "it has none yet" : `there are steps 1 to ${last}`;
  throw new SyscallError(
    "INVALID",
    `Run ${uuid} has no step ${step} to fork from: ${there}. \`rnix steps ${uuid}\` lists them.`,
  );
}
