/** The state of a live process, in groups that each have an owner. */

import type { Effort, ImageRef, Message, ToolDef, ToolOutcome } from "../../plugin/index.ts";
import type { OpenStep } from "../../run/open-step.ts";
import type {
  CheckResult,
  ChildResult,
  Compaction,
  ModelSwitch,
  ProcessMeta,
  ProcInfo,
  ToolCallRecord,
  Usage,
} from "../../store/runs/schema.ts";
import { TokenEstimate } from "../budget/tokens.ts";
import type { AppliedCompaction, PID, ProviderChoice, SkillInfo } from "../types.ts";
import type {
  LastAnswer,
  Preparation,
  ProcessSpec,
  ProcessTool,
  RunProgress,
  StartingMount,
} from "./process-spec.ts";

/** The steps of a live run and what they have used. The loop owns it; model calls and tools count in it. */
export class LiveRun {
  step: number;
  /** The last step with a record: a resume continues after it. */
  recordedStep: number;
  toolCalls: number;
  /** A call was started that can't be repeated without a further effect. */
  acted: boolean;
  /** A driver, a check or a unit has started a program: what it was refused and its end concern later calls, too. */
  startedPrograms = false;
  /** Files (absolute) that drivers have changed since the plugins were notified of them. */
  readonly filesChanged = new Set<string>();
  /** What drivers have asked the model, by the call that is under way. */
  readonly modelUse = new Map<string, NonNullable<ToolCallRecord["model_use"]>>();
  readonly usage: Usage;
  /** Tokens of the conversation: the last request and its answer; before an answer, an estimate. */
  contextTokens: number | null = null;
  plan: string | null;
  /** The input of the Complete tool. */
  completion: string | null;
  /** How often the final answer was rejected by the output schema. */
  corrections: number;
  /** Background units that lived when the answer was given, and what followed. */
  heldBy: ProcInfo["units_at_end"];
  /** The present answer is complete: before the next model call, a message is waited for. */
  turnOver: boolean;
  /** The last answer is the beginning of one that the user interrupted: its next message says so. */
  answerCut: boolean;
  #openStep: OpenStep | null;
  #answered: LastAnswer | null;

  constructor(progress: RunProgress) {
    this.step = progress.step;
    this.recordedStep = progress.step;
    this.toolCalls = progress.toolCalls;
    this.acted = progress.acted;
    this.usage = { ...progress.usage };
    this.plan = progress.plan;
    this.completion = progress.completion;
    this.corrections = progress.corrections;
    this.heldBy = progress.before?.units_at_end;
    this.turnOver = progress.turnOver;
    this.answerCut = progress.answerCut;
    this.#openStep = progress.openStep;
    this.#answered = progress.answered;
  }

  /** What was cut off when the run was suspended: an open step, or the end after a final answer. Returned once. */
  takeCutOff(): { openStep: OpenStep | null; answered: LastAnswer | null } {
    const cutOff = { openStep: this.#openStep, answered: this.#answered };
    this.#openStep = null;
    this.#answered = null;
    return cutOff;
  }

  /** A step without an answer does not count. */
  dropStep(): void {
    this.step = this.recordedStep;
  }

  recorded(): void {
    this.recordedStep = this.step;
  }
}

/** The verdict is made of it. Written by the process's task and by what detects changed files. */
export class LiveResult {
  text: string | null = null;
  /** The result as a document of the output schema. */
  output: unknown = null;
  partial = false;
  /** Results of all attempts. */
  readonly checks: CheckResult[];
  readonly filesChanged: Set<string>;
  filesChangedComplete = false;

  constructor({ checks, before }: RunProgress) {
    this.checks = [...checks];
    this.filesChanged = new Set(before?.files_changed);
  }

  /** A complete answer. */
  answer(text: string): void {
    this.text = text;
    this.partial = false;
  }

  /** An answer that was cut off. */
  cut(text: string): void {
    this.text = text;
    this.partial = true;
  }
}

/** Tools for a program that acts as the model. */
export interface ServedTools {
  /** A call is under way. */
  readonly busy: boolean;
  list(): ToolDef[];
  call(name: string, input: Record<string, unknown>): Promise<ToolOutcome>;
}

/** Owned by the process's model calls, which fall back to another model; the opener opens the first device. */
export class LiveModel {
  provider: ProviderChoice;
  /** The remaining fallbacks, in order. */
  readonly fallbacks: ProviderChoice[];
  readonly switches: ModelSwitch[];
  /** The effort that the model is asked for; undefined when its driver has no such setting. */
  effort: Effort | undefined;
  /** The open device. */
  fd = -1;
  /** The wait before this process, if its run was suspended because the model was down; unset by the first answer. */
  outageWaitMs: number | undefined;
  /** Estimates the tokens of a request; corrected by the numbers of each answer. */
  readonly estimate = new TokenEstimate();
  /** Tools that a program which acts as the model may call while it answers. */
  served: ServedTools | undefined;

  constructor(provider: ProviderChoice, { before }: RunProgress) {
    this.provider = provider;
    this.fallbacks = [...(provider.fallbacks ?? [])];
    this.switches = [...(before?.switches ?? [])];
    this.outageWaitMs = before && outageWaitOf(before);
  }
}

function outageWaitOf({ ended_at_ms, suspended }: ProcInfo): number | undefined {
  if (suspended?.cause !== "model" || suspended.wake.on !== "at") return undefined;
  return Math.max(0, suspended.wake.at_ms - (ended_at_ms ?? suspended.wake.at_ms));
}

/** Owned by the context manager; the opener begins it. */
export class LiveConversation {
  /** Allocated by the opener, freed by the reap. */
  id = 0;
  /** Parts of the prompt head that plugins gave, without their text. */
  promptParts: NonNullable<ProcessMeta["prompt_parts"]> = [];
  /** Loaded skills: the agent's, and the ones that the Skill tool added. */
  readonly skills: SkillInfo[];
  /** Images of the first message, in order. */
  images: readonly ImageRef[] = [];
  /** Messages that no step record holds yet. */
  readonly unrecorded: Message[] = [];
  /** Compactions since the last step record. */
  readonly compactions: Compaction[] = [];
  /** The summary that replaces the oldest messages. */
  summary: Compaction["summary"] = null;

  constructor(skills: SkillInfo[]) {
    this.skills = skills;
  }
}

/** Owned by the tool catalog; StartMounts adds the tools of mounts. */
export class Toolset {
  /**
   * Tools that the model is shown. New ones are appended and none is removed or moved, so that the provider's prompt
   * cache hits; a call of a withdrawn tool is refused.
   */
  shown: ReadonlyMap<string, ProcessTool> = NONE_SHOWN;
  /** Set while the mounts are made: the model is shown its tools when that is done. */
  preparation: Preparation | undefined;
  /** The mounts that are being made, and those that failed, by the prefix of their tools. */
  starting = NOT_STARTING;
  /** Whether the model is shown the message tools. */
  messaging = false;

  /** Appends tools. Processes with the same ones share the map: it takes a KiB, and thousands may wait. */
  show(tools: readonly ProcessTool[]): void {
    const shown = new Map(this.shown);
    for (const named of tools) shown.set(named.tool.name, named);
    const last = lastShown.deref();
    this.shown = last && isSame(last, shown) ? last : shown;
    if (this.shown !== last) lastShown = new WeakRef(this.shown);
  }
}

const NOT_STARTING = new Map<string, StartingMount>();
const NONE_SHOWN: ReadonlyMap<string, ProcessTool> = new Map();

let lastShown = new WeakRef(NONE_SHOWN);

/** Whether both have the same tools in the same order. */
function isSame(one: ReadonlyMap<string, ProcessTool>, other: ReadonlyMap<string, ProcessTool>): boolean {
  const others = [...other.values()];
  return (
    one.size === other.size &&
    one.values().every(({ tool, entry }, i) => others[i]?.tool === tool && others[i].entry === entry)
  );
}

/** A model or effort that the user has chosen. Absent: it stays. */
export interface ModelChoice {
  provider?: ProviderChoice;
  effort?: Effort;
}

interface ModelChange extends ModelChoice {
  done: PromiseWithResolvers<void>;
}

/** The loop takes each request before its next model call, or at once while it waits for a message. */
export class UserRequests {
  compaction: PromiseWithResolvers<AppliedCompaction> | undefined;
  model: ModelChange | undefined;
  /** The user has ended the chat: it ends as soon as it would wait for a message. */
  chatEnds = false;
  /** Lets the loop look at the requests now; set while it waits for a message. */
  wake: (() => void) | undefined;

  /** Resolves when the conversation is compacted. Requests before the next step share one compaction. */
  compact(): Promise<AppliedCompaction> {
    this.compaction ??= Promise.withResolvers();
    return this.compaction.promise;
  }

  /** Resolves when the loop has taken the model, or a later choice has replaced it. */
  changeModel(choice: ModelChoice): Promise<void> {
    this.model?.done.resolve();
    const done = Promise.withResolvers<void>();
    // The loop may reject the promise after the caller has returned.
    done.promise.catch(() => undefined);
    this.model = { ...choice, done };
    return done.promise;
  }

  takeModel(): ModelChange | undefined {
    const change = this.model;
    this.model = undefined;
    return change;
  }
}

export class Family {
  readonly children: PID[] = [];
  /** The results of ended children. A child that was suspended and resumed has one result: its last. */
  readonly results: ChildResult[];
  /** Results that no step record holds yet. */
  readonly newResults: ChildResult[] = [];
  /** 0 when the parent has ended, or when a signal ended the parent alone. */
  ppid: PID;
  /** The parent's tool call that waits for it; null: none. */
  parentCall: string | null;

  readonly #isAgent: boolean;

  constructor({ kind, ppid, opts, progress }: ProcessSpec) {
    this.#isAgent = kind === "agent";
    this.ppid = ppid;
    this.parentCall = opts.parentCall ?? null;
    this.results = [...(progress?.children ?? [])];
  }

  /** The child of a resumed parent: its call waits for it again. Returns whether it had another parent. */
  joinParent(ppid: PID, call: string): boolean {
    const moved = this.ppid !== ppid;
    this.ppid = ppid;
    this.parentCall = call;
    return moved;
  }

  remove(child: PID): void {
    const at = this.children.indexOf(child);
    if (at >= 0) this.children.splice(at, 1);
  }

  /** Of an agent, the record of the next step has it. */
  childEnded(result: ChildResult): void {
    const before = this.results.findIndex(({ uuid }) => uuid === result.uuid);
    if (before >= 0) this.results.splice(before, 1);
    this.results.push(result);
    if (this.#isAgent) this.newResults.push(result);
  }
}
