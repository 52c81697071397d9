/** Reads what a resume needs from the records of a run. */

import { attemptsOf } from "../../lib/check-attempts.ts";
import { damagedFileText } from "../../lib/damage-text.ts";
import { SyscallError } from "../../plugin/index.ts";
import { INITIAL_STATE, type RunState, reduce } from "../../run/state.ts";
import type { UnitLine } from "../../run/unit-schema.ts";
import { DamageCollector } from "../../store/files/damaged-lines.ts";
import { foreignLines, requireOwn } from "../../store/runs/own-run.ts";
import { INBOX, META, UNITS } from "../../store/runs/run-files.ts";
import type { RunStore } from "../../store/runs/run-store.ts";
import type {
  CheckResult,
  ChildResult,
  InboxEntry,
  ProcessMeta,
  ProcInfo,
  SoFar,
  StepRecord,
} from "../../store/runs/schema.ts";
import type { EarlierUsage } from "../budget/budget.ts";
import { recordedFirst } from "../conversation/messages.ts";
import { rebuildHistory, type SavedHistory } from "../conversation/rebuild-history.ts";
import { isSuspended, type LastAnswer, type RunProgress } from "../process/run-progress.ts";
import type { AgentInfo } from "../types.ts";
import {
  answerOf,
  callsOf,
  completionOf,
  isOwn,
  lastPlan,
  skillsCalled,
  wasInterrupted,
} from "./recorded-steps.ts";

/** A recorded run: everything that a resume needs. */
export interface SavedRun {
  info: ProcInfo;
  meta: ProcessMeta;
  spawned: NonNullable<ProcessMeta["spawned"]>;
  history: SavedHistory;
  progress: RunProgress;
  /** The usage of the run so far, including its children's. */
  before: EarlierUsage;
  /** Inbox entries that the model has not seen. */
  unread: readonly InboxEntry[];
  /** The lines of its background units, as units.jsonl has them. */
  units: readonly UnitLine[];
  /** Descriptions of its records that can't be read. */
  damage: readonly string[];
  /** For a fork: a new run begins with these steps. */
  fork?: Fork;
}

interface Fork {
  steps: readonly StepRecord[];
  /** The run is foreign: only its conversation is copied. */
  adopted: boolean;
  /** The last of these steps is the model's final answer. */
  answered: boolean;
  /** The run ended with that answer. */
  ended: boolean;
}

/**
 * Reads a run that no kernel holds. After a crash its steps show more than its process record. Fails with NOT_FOUND
 * when there is none, and with INVALID when a required part can't be read.
 */
export async function readSavedRun(
  runs: RunStore,
  info: ProcInfo,
  agent: AgentInfo | null,
): Promise<SavedRun> {
  const { uuid } = info;
  const lost = new DamageCollector({ live: false });
  const [meta, events, inbox, units] = await Promise.all([
    runs.meta(uuid),
    Array.fromAsync(runs.story(info, lost)),
    runs.inbox(uuid),
    runs.units(uuid),
  ]);
  if (!meta?.spawned) throw unreadable(uuid);
  const { spawned } = meta;
  lost.add(INBOX, inbox);
  lost.add(UNITS, units);
  requireOwnRecord(info, meta, lost);
  const history = rebuildHistory(events, recordedFirst(info, spawned));
  const state = events.reduce(reduce, INITIAL_STATE);
  const steps = events.flatMap((event) => (event.t === "step" ? event.record : []));
  const calls = callsOf(steps, history);
  const own = steps.filter(isOwn);
  const called = skillsCalled(calls, agent);
  const soFar = usedSoFar(info, state);
  const { openStep } = history;
  const delivered = new Set(openStep ? inbox.inOpenStep : []);
  return {
    info,
    meta,
    spawned,
    history,
    before: {
      tokens: soFar.tokens_used,
      cost: soFar.cost_usd,
      steps: soFar.steps_used,
      elapsedMs: soFar.elapsed_ms,
    },
    units: units.foreign > 0 ? [] : units.records,
    unread: inbox.unread.filter(({ seq }) => !delivered.has(seq)),
    damage: damageTexts(lost),
    progress: {
      createdAtMs: info.created_at_ms,
      elapsedMs: soFar.elapsed_ms,
      step: history.step,
      openStep,
      answered: hasEnded(info) ? null : finalAnswer(steps, history),
      toolCalls: hasEnded(info) ? info.tool_calls : Math.max(info.tool_calls, callsOf(own, history).length),
      // Of a run that was cut off, the record may lack the last calls.
      acted: info.acted || (!hasEnded(info) && callsOf(own, history).length > 0),
      usage: info.ended_at_ms === null ? state.usage : info.usage,
      plan: lastPlan(calls),
      completion: openStep ? completionOf([...openStep.settled.values()]) : null,
      turnOver: info.chat && !openStep && (steps.length === 0 || wasInterrupted(steps)),
      answerCut: !openStep && wasInterrupted(steps) && steps.at(-1)?.tool_calls.length === 0,
      corrections: hasEnded(info) || isAskedAnew(inbox.unread) ? 0 : (state.so_far?.corrections ?? 0),
      checks: hasEnded(info) ? [] : checksOf(info, inbox.unread),
      skills: called,
      children: childrenOf(info, steps),
      counted: info.ended_at_ms === null ? [] : info.children,
      hadEnded: hasEnded(info),
      asks: asksOf(info, history),
      filesChanged: info.files_changed,
      filesChangedComplete: info.files_changed_complete,
      heldBy: info.units_at_end,
      earlierPids: [...info.earlier_pids, info.pid].slice(-PIDS_KEPT),
      crashes: info.crashes,
      outageWaitMs: outageWaitOf(info),
      wake: info.suspended?.cause === "asked" ? info.suspended.wake : undefined,
      switches: info.switches,
      notices: info.notices,
    },
  };
}

/** The questions that calls of the open step still wait for. */
function asksOf({ asks }: ProcInfo, { openStep }: SavedHistory): ProcInfo["asks"] {
  const waiting = [...(openStep?.waiting.values() ?? [])];
  return asks.filter(({ id }) => waiting.some((wake) => wake.on === "answer" && wake.id === id));
}

function outageWaitOf({ ended_at_ms, suspended }: ProcInfo): number | undefined {
  if (suspended?.cause !== "model" || suspended.wake.on !== "at") return undefined;
  return Math.max(0, suspended.wake.at_ms - (ended_at_ms ?? suspended.wake.at_ms));
}

/** A run that is suspended again and again gets a PID each time. */
const PIDS_KEPT = 100;

/** Whether the run has ended other than by a suspension. */
export function hasEnded({ ended_at_ms, exit_reason }: ProcInfo): boolean {
  return ended_at_ms !== null && exit_reason !== "suspended";
}

export function damageTexts(lost: DamageCollector): string[] {
  return lost
    .list()
    .filter(({ count, missing }) => count > 0 || missing)
    .map((one) => `${one.file} of its record: ${damagedFileText(one)}`);
}

/** The last step has a final answer, and the run was interrupted before it ended. */
function finalAnswer(steps: readonly StepRecord[], { openStep }: SavedHistory): LastAnswer | null {
  const last = steps.at(-1);
  return !last || openStep || !isOwn(last) ? null : answerOf(last);
}

/** A crash may have come after the message about a failed attempt, and before the process record. */
function checksOf({ checks }: ProcInfo, unread: readonly InboxEntry[]): CheckResult[] {
  const last = attemptsOf(checks);
  const reported = unread.flatMap((entry) => (entry.kind === "notice" ? (entry.checks ?? []) : []));
  return [...checks, ...reported.filter(({ attempt = 1 }) => attempt > last)];
}

/** The user has sent a message since, so the model's answer to it was not corrected yet. */
function isAskedAnew(unread: readonly InboxEntry[]): boolean {
  return unread.some(({ kind }) => kind === "input");
}

/** How the children ended, without those suspended with it: the calls that wait for these resume them. */
function childrenOf(info: ProcInfo, steps: readonly StepRecord[]): ChildResult[] {
  const recorded = info.ended_at_ms === null ? steps.flatMap(({ children = [] }) => children) : [];
  const last = new Map([...info.children, ...recorded].map((child) => [child.uuid, child]));
  return [...last.values()].filter((child) => !isSuspended(child));
}

/** Its entry in the parent's record. */
export function resultOf({ uuid, pid, agent, exit_code, exit_reason, tokens_used }: ProcInfo): ChildResult {
  return { uuid, pid, agent, exit_code, exit_reason, tokens_used };
}

/** The record of an ended run has its result; that of an interrupted run may be older than its events. */
function usedSoFar(info: ProcInfo, { so_far }: RunState): SoFar {
  if (so_far && info.ended_at_ms === null) return so_far;
  const { tokens_used, cost_usd, steps_used = info.steps, elapsed_ms } = info;
  return { tokens_used, cost_usd, steps_used, elapsed_ms };
}

/** Fails with PERMISSION when any part was not written by this user's Rnix, because a resume acts on its content. */
export function requireOwnRecord(info: ProcInfo, meta: { foreign?: true }, lost: DamageCollector): void {
  requireOwn(info);
  if (meta.foreign) throw foreignLines(info.uuid, META, 1);
  for (const { file, foreign } of lost.list()) if (foreign > 0) throw foreignLines(info.uuid, file, foreign);
}

export function unreadable(uuid: string): SyscallError {
  return new SyscallError(
    "INVALID",
    `Run ${uuid} can't be resumed: its process-meta.json, with the prompt head and the checks, is missing or of an older rnix. Start a new run: rnix spawn.`,
  );
}
