/** Reads what a resume or a fork needs from the records of a run. */

import { attemptsOf } from "../../lib/check-attempts.ts";
import type { Clock } from "../../lib/clock.ts";
import { damagedFileText } from "../../lib/damage-text.ts";
import { SyscallError } from "../../plugin/index.ts";
import { eventsOfStep } from "../../run/events.ts";
import type { OpenStep } from "../../run/open-step.ts";
import { addCall, initialState, type RunState, reduce } from "../../run/state.ts";
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
  ToolCallRecord,
} from "../../store/runs/schema.ts";
import type { EarlierUsage } from "../budget/budget.ts";
import { recordedFirst } from "../conversation/conversations.ts";
import {
  type Conversation,
  converse,
  rebuildHistory,
  type SavedHistory,
} from "../conversation/rebuild-history.ts";
import { planText } from "../devices/plan.ts";
import { initialProgress, isSuspended, type LastAnswer, type RunProgress } from "../process/process-spec.ts";
import type { AgentInfo, ProviderChoice } from "../types.ts";

/** A recorded run: everything that a resume needs. */
export interface SavedRun {
  info: ProcInfo;
  meta: ProcessMeta;
  spawned: NonNullable<ProcessMeta["spawned"]>;
  state: RunState;
  history: SavedHistory;
  progress: RunProgress;
  /** The usage of the run so far, including its children's; absent in a fork. */
  used?: EarlierUsage;
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
  const [meta, units] = await Promise.all([runs.meta(uuid), runs.units(uuid)]);
  if (!meta?.spawned) throw unreadable(uuid);
  const { spawned } = meta;
  const state = initialState();
  const conversation: Conversation = { messages: [], summary: null };
  for await (const event of runs.story(info, lost)) {
    reduce(state, event);
    converse(conversation, event);
  }
  const inbox = await runs.inbox(uuid, state);
  lost.add(INBOX, inbox);
  lost.add(UNITS, units);
  requireOwnRecord(info, meta, lost);
  const history = rebuildHistory(state, conversation, recordedFirst(info, spawned));
  const { openStep } = history;
  const settled = [...(openStep?.settled.values() ?? [])];
  const calls = state.recorded_calls + settled.length;
  const {
    tokens_used: tokens,
    cost_usd: cost,
    steps_used: steps,
    elapsed_ms: elapsedMs,
  } = usedSoFar(info, state);
  const isCutOff = info.ended_at_ms === null;
  const delivered = new Set(openStep ? state.delivered : []);
  return {
    info,
    meta,
    spawned,
    state,
    history,
    used: { tokens, cost, steps, elapsedMs },
    units: units.foreign > 0 ? [] : units.records,
    unread: inbox.unread.filter(({ seq }) => !delivered.has(seq)),
    damage: damageTexts(lost),
    progress: {
      ...progressAt(state, openStep, agent),
      before: info,
      elapsedMs,
      openStep,
      // Cut off between the answer and its end. The last answer of another run, which this one began with, is no end.
      answered:
        hasEnded(info) || openStep || state.last?.origin_uuid !== undefined ? null : finalAnswer(state),
      toolCalls: hasEnded(info) ? info.tool_calls : Math.max(info.tool_calls, calls),
      // Of a run that was cut off, the record may lack the last calls.
      acted: info.acted || (!hasEnded(info) && calls > 0),
      usage: isCutOff ? state.usage : info.usage,
      completion: completionOf(settled),
      turnOver: info.chat && !openStep && (state.last === null || wasInterrupted(state)),
      // The model's answer to a message that the user has sent since was not corrected yet.
      corrections:
        hasEnded(info) || inbox.unread.some(({ kind }) => kind === "input")
          ? 0
          : (state.so_far?.corrections ?? 0),
      checks: hasEnded(info) ? [] : checksOf(info, inbox.unread),
      children: childrenOf([...info.children, ...(isCutOff ? state.children : [])]),
      counted: isCutOff ? [] : info.children,
      asks: asksOf(info, openStep),
    },
  };
}

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
  o: { step?: number; adopt?: boolean },
): Promise<SavedRun> {
  const { uuid } = info;
  const lost = new DamageCollector({ live: info.ended_at_ms === null });
  const [meta, recorded] = await Promise.all([runs.meta(uuid), Array.fromAsync(runs.everyStep(uuid, lost))]);
  if (!meta?.spawned) throw unreadable(uuid);
  const { spawned } = meta;
  if (!o.adopt) requireOwnRecord(info, meta, lost);
  const steps = upTo(o.step, recorded, uuid);
  if (o.adopt) requireConversation(uuid, steps);
  const events = steps.flatMap(eventsOfStep);
  const state = events.reduce(reduce, initialState());
  const conversation = events.reduce(converse, { messages: [], summary: null });
  const answered = finalAnswer(state) !== null;
  return {
    info,
    meta,
    spawned,
    state,
    history: rebuildHistory(state, conversation, recordedFirst(info, spawned)),
    units: [],
    unread: [],
    damage: damageTexts(lost),
    progress: {
      ...initialProgress(),
      ...progressAt(state, null, agent),
      turnOver: info.chat && (state.last === null || answered || wasInterrupted(state)),
    },
    fork: {
      steps,
      adopted: o.adopt === true,
      answered,
      ended: steps.length === recorded.length && hasEnded(info),
    },
  };
}

/** What the events alone say. The ended calls of the open step count like recorded ones. */
function progressAt(
  state: RunState,
  openStep: OpenStep | null,
  agent: AgentInfo | null,
): Pick<RunProgress, "step" | "plan" | "skills" | "answerCut"> {
  for (const call of openStep?.settled.values() ?? []) addCall(state, call);
  return {
    step: state.recorded,
    plan: state.plan && planText(state.plan),
    // The model has seen a skill that is gone now, so it needs no loading.
    skills: agent?.deferredSkills.filter(({ name }) => state.skills.has(name)) ?? [],
    answerCut: !openStep && wasInterrupted(state) && state.last?.tool_calls.length === 0,
  };
}

/** The user interrupted the last step. */
function wasInterrupted({ last }: RunState): boolean {
  return last?.interrupted === true;
}

/** The final answer of the model, if the last step was to be the last. */
function finalAnswer({ last }: RunState): LastAnswer | null {
  if (!last || last.interrupted) return null;
  const { tool_calls, raw_response, stop_reason, stop_word } = last;
  const completion = completionOf(tool_calls);
  if (completion !== null) return { content: completion };
  if (tool_calls.length > 0 || stop_reason === "paused") return null;
  return { content: raw_response, stop_reason, stop_word };
}

function completionOf(calls: readonly ToolCallRecord[]): string | null {
  const last = calls.findLast(({ name, state }) => name === "Complete" && state === "done");
  return last ? String(last.input.result) : null;
}

/** The questions that calls of the open step still wait for. */
function asksOf({ asks }: ProcInfo, openStep: OpenStep | null): ProcInfo["asks"] {
  const waiting = [...(openStep?.waiting.values() ?? [])];
  return asks.filter(({ id }) => waiting.some((wake) => wake.on === "answer" && wake.id === id));
}

/** Whether the run has ended other than by a suspension. */
export function hasEnded({ ended_at_ms, exit_reason }: ProcInfo): boolean {
  return ended_at_ms !== null && exit_reason !== "suspended";
}

function damageTexts(lost: DamageCollector): string[] {
  return lost
    .list()
    .filter(({ count, missing }) => count > 0 || missing)
    .map((one) => `${one.file} of its record: ${damagedFileText(one)}`);
}

/** A crash may have come after the message about a failed attempt, and before the process record. */
function checksOf({ checks }: ProcInfo, unread: readonly InboxEntry[]): CheckResult[] {
  const last = attemptsOf(checks);
  const reported = unread.flatMap((entry) => (entry.kind === "notice" ? (entry.checks ?? []) : []));
  return [...checks, ...reported.filter(({ attempt = 1 }) => attempt > last)];
}

/** How the children ended, without those suspended with it: the calls that wait for these resume them. */
function childrenOf(children: readonly ChildResult[]): ChildResult[] {
  const last = new Map(children.map((child) => [child.uuid, child]));
  return [...last.values()].filter((child) => !isSuspended(child));
}

/** The model switches of a run, with the one to `next` after `step` if that is another model. */
export function switchesWith(
  { provider, model, switches }: ProcInfo,
  next: ProviderChoice | null,
  step: number,
  clock: Clock,
): ProcInfo["switches"] {
  if (!next || (next.name === provider && next.model === model)) return switches;
  const ts = new Date(clock.now()).toISOString();
  const to = { provider: next.name, model: next.model };
  return [...switches, { step: step + 1, ts, from: { provider, model }, to, error: null }];
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
function requireOwnRecord(info: ProcInfo, meta: { foreign?: true }, lost: DamageCollector): void {
  requireOwn(info);
  if (meta.foreign) throw foreignLines(info.uuid, META, 1);
  for (const { file, foreign } of lost.list()) if (foreign > 0) throw foreignLines(info.uuid, file, foreign);
}

/** A foreign message in the system's name would count as the user's own. */
function requireConversation(uuid: string, steps: readonly StepRecord[]): void {
  const speaks = steps.find(({ messages }) => messages.some(({ role }) => role === "system"));
  if (!speaks) return;
  const text = `Step ${speaks.step} of run ${uuid} holds a message of the system, which no conversation of an agent has: it can't be adopted.`;
  throw new SyscallError("INVALID", text);
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
  const text = `Run ${uuid} has no step ${step} to fork from: ${there}. \`rnix steps ${uuid}\` lists them.`;
  throw new SyscallError("INVALID", text);
}

function unreadable(uuid: string): SyscallError {
  const text = `Run ${uuid} can't be resumed: its process-meta.json, with the prompt head and the checks, is missing or of an older rnix. Start a new run: rnix spawn.`;
  return new SyscallError("INVALID", text);
}
