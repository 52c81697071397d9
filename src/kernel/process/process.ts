/** One live process. */

import { callTitle, firstLine } from "../../lib/call-title.ts";
import { Abort } from "../../lib/cancellation.ts";
import type { Channel } from "../../lib/channel.ts";
import type { Clock, Timer } from "../../lib/clock.ts";
import {
  type ChecklistItem,
  type Effort,
  type ImageRef,
  type Message,
  SyscallError,
  type ToolDef,
  type ToolOutcome,
} from "../../plugin/index.ts";
import type { AskVerdict, OpenAsk } from "../../run/ask-schema.ts";
import type { RunWriter } from "../../store/runs/run-store.ts";
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
import { FdTable } from "../../vfs/fd-table.ts";
import { TokenEstimate } from "../budget/token-estimate.ts";
import type { FileGrant } from "../permission/file-grant.ts";
import type { Permissions } from "../permission/permissions.ts";
import type {
  AppliedCompaction,
  ExitStatus,
  PID,
  ProcessState,
  ProviderChoice,
  SkillInfo,
  SyscallEvent,
} from "../types.ts";
import type { Activity } from "./event.ts";
import { PresentWork } from "./present-work.ts";
import { ProcessActivity } from "./process-activity.ts";
import { ProcessClock } from "./process-clock.ts";
import { procInfoOf } from "./process-info.ts";
import type { Preparation, ProcessSpec, ProcessTool, StartingMount } from "./process-spec.ts";
import { transition } from "./process-state.ts";
import { initialProgress, type LastAnswer, type OpenStep } from "./run-progress.ts";
import { Secrets } from "./secrets.ts";
import { Watchers } from "./watchers.ts";

/**
 * One process: a live run, or a thread of the kernel such as a supervisor. Its private state changes in the methods
 * of this class alone. None of them awaits in the middle of a change, so no caller sees half of one.
 *
 * The public fields stand in groups, and each group says who writes it.
 */
export class Process {
  // Identity. Written once, here; `ppid` also by reap, signals and child agents, when the parent changes.

  readonly pid: PID;
  readonly uuid: string;
  /** 0 when the parent has ended, or when a signal ended the parent alone. */
  ppid: PID;
  /** The parent's tool call that waits for it; null: none. Written here and by child agents. */
  parentCall: string | null;
  readonly createdAtMs: number;
  /** Fixed when the process is built. */
  readonly spec: ProcessSpec;
  /** Running time: it stops while the process is paused. Deadlines of the process's own work use it. */
  readonly clock: ProcessClock;
  readonly record: RunWriter;

  // Rights. Written by the builder, the process table, mounts (permissions), the group manager and open contexts (secrets).

  permissions: Permissions;
  groups: ReadonlySet<string> = NO_GROUPS;
  /** Provider keys to redact; model drivers add keys that they fetch. */
  readonly secrets: Secrets;

  // Model. Written by the builder and, when the run falls back to another model, by the model call.

  provider: ProviderChoice;
  /** The remaining fallbacks, in order. */
  readonly fallbacks: ProviderChoice[];
  readonly switches: ModelSwitch[];
  /** The effort that the model is asked for; undefined when its driver has no such setting. */
  effort: Effort | undefined;
  llmFd = -1;
  /** The wait before this process, if its run was suspended because the model was down; unset by the first answer. */
  outageWaitMs: number | undefined;
  /** Estimates the tokens of a request; corrected by the numbers of each answer. */
  readonly estimate = new TokenEstimate();
  /** Tools that a program which acts as the model may call while it answers. */
  served: ServedTools | undefined;

  // Conversation. Written by the builder, the context manager, compaction, the tool catalog and the tool Skill.

  /** The conversation; allocated by the builder, freed by the reap. */
  ctxId = 0;
  /**
   * Tools that the model is shown. New ones are appended and none is removed or moved, so that the provider's prompt
   * cache hits; a call of a withdrawn tool is refused.
   */
  readonly tools = new Map<string, ProcessTool>();
  /** Set while its mounts are made: it is shown its tools when that is done. Written by the builder and StartMounts. */
  preparation: Preparation | undefined;
  /** The mounts that are being made, and those that failed, by the prefix of their tools. Written by StartMounts. */
  starting = NOT_STARTING;
  /** Whether the model is shown the message tools. */
  messaging = false;
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
  /** A requested compaction, made before the next step. */
  compacting: PromiseWithResolvers<AppliedCompaction> | undefined;

  // Progress. Written by the reasoning loop, model and tool calls, and the tools Plan and Complete.

  step: number;
  /** The last step with a record: a resume continues after it. */
  recordedStep: number;
  /** A step that was open when the run was suspended: the first step completes it. */
  openStep: OpenStep | null;
  /** A final answer given before the run was suspended: only its end is missing. */
  answered: LastAnswer | null;
  toolCalls: number;
  /** A call was started that can't be repeated without a further effect. */
  acted: boolean;
  /** What drivers have asked the model, by the call that is under way. Written by the service `llm`. */
  readonly modelUse = new Map<string, NonNullable<ToolCallRecord["model_use"]>>();
  usage: Usage;
  /** Tokens of the conversation: the last request and its answer; before an answer, an estimate. */
  contextTokens: number | null = null;
  plan: string | null;
  /** The input of the Complete tool. */
  completion: string | null;
  /** How often the final answer was rejected by the output schema. */
  corrections: number;

  // Conversation with the user. Written by the loop, and by the parts that ask something of it.

  /** Background units that lived when the answer was given, and what followed. */
  heldBy: ProcInfo["units_at_end"];

  /** The present answer is complete: before the next model call, a message is waited for. */
  turnOver: boolean;
  /** The last answer is the beginning of one that the user interrupted: its next message says so. */
  answerCut: boolean;
  /** What it works on now. */
  readonly work: PresentWork;
  /** The user has chosen another model or effort: the loop takes it before its next model call. */
  modelChange: ModelChange | undefined;
  /** The user has ended the chat: it ends as soon as it would wait for a message. */
  chatEnded = false;
  /** Set while the loop waits for a message. Called when something else is asked of it. */
  onRequest: (() => void) | undefined;

  // Verdict. Written by the task (result, output, partial, checks), the runner (ending) and what sees changed files.

  result: string | null = null;
  /** The result as a document of the output schema. */
  output: unknown = null;
  partial = false;
  /** Results of all attempts. */
  checks: CheckResult[];
  readonly filesChanged: Set<string>;
  filesChangedComplete = false;
  /** It is ending and accepts no more children. */
  ending = false;
  /** Set by the task; called on SIGKILL, also while the process is ending. */
  onKill: (() => void) | undefined;

  // Children. Written by the builder, reap, signals and `childEnded`.

  readonly children: PID[] = [];
  readonly childResults: ChildResult[];
  /** Results that no step record holds yet. */
  readonly newChildResults: ChildResult[] = [];

  // Questions to a person. Written by the asks.

  /** Questions without a verdict, by id. */
  readonly asks: Map<string, OpenAsk>;
  /** Verdicts of calls that have not ended, by call. */
  readonly verdicts: Map<string, AskVerdict[]>;

  /** Of the root of a tree: the list that each plugin shows. Written by the process's events. */
  readonly checklists = new Map<string, readonly ChecklistItem[]>();

  // Open files and watchers. Written by the file system, process events and the debugger.

  readonly fds = new FdTable<FileGrant>();
  readonly watchers = new Watchers();
  readonly tracers = new Set<Channel<SyscallEvent>>();
  /** What it does now. Written by process events. */
  readonly activity: ProcessActivity;
  /** Called when it is paused, continued or stopped, or begins or ends a wait. Set by process events. */
  onStanding: (() => void) | undefined;
  /** How it began, and what the builder had to leave out: for clients that attach, and for the record. */
  readonly notices: string[];

  readonly #clock: Clock;
  readonly #abort = new Abort();
  readonly #done = Promise.withResolvers<ExitStatus>();
  readonly #createdMono: number;
  #state: ProcessState = "created";
  #exit: ExitStatus | undefined;
  #settled = false;
  #stop: ExitStatus | undefined;
  #stoppedAtMs = 0;
  #timeLimit: Timer | undefined;
  #resume: PromiseWithResolvers<void> | undefined;
  #pausedAtMs = 0;
  /** Set while it waits for a message. */
  #waitRelease: (() => void) | undefined;
  #waitsSinceMs = 0;
  #endedAtMs: number | null = null;
  #endedElapsedMs = 0;

  constructor(spec: ProcessSpec) {
    this.spec = spec;
    this.pid = spec.pid;
    this.work = new PresentWork(spec.pid, this.signal);
    this.uuid = spec.uuid;
    this.ppid = spec.ppid;
    this.parentCall = spec.opts.parentCall ?? null;
    this.permissions = spec.permissions;
    this.provider = spec.opts.provider ?? NO_MODEL;
    this.fallbacks = [...(this.provider.fallbacks ?? [])];
    this.record = spec.record;
    this.secrets = spec.secrets ?? new Secrets();
    this.notices = [...(spec.opts.notices ?? [])];
    const { progress = initialProgress(spec.clock) } = spec;
    this.step = progress.step;
    this.recordedStep = progress.step;
    this.openStep = progress.openStep;
    this.answered = progress.answered;
    this.toolCalls = progress.toolCalls;
    this.acted = progress.acted;
    this.usage = { ...progress.usage };
    this.plan = progress.plan;
    this.completion = progress.completion;
    this.corrections = progress.corrections;
    this.turnOver = progress.turnOver;
    this.answerCut = progress.answerCut;
    this.heldBy = progress.heldBy;
    this.checks = [...progress.checks];
    this.childResults = [...progress.children];
    this.asks = new Map(progress.asks.map((ask) => [ask.id, ask]));
    this.verdicts = new Map([...(progress.openStep?.verdicts ?? []), ...(spec.opts.verdicts ?? [])]);
    this.filesChanged = new Set(progress.filesChanged);
    this.skills = [...spec.agent.skills, ...progress.skills];
    this.switches = [...progress.switches];
    this.outageWaitMs = progress.outageWaitMs;
    this.#clock = spec.clock;
    this.clock = new ProcessClock(spec.clock, progress.elapsedMs);
    this.activity = new ProcessActivity(spec.clock.now());
    this.createdAtMs = progress.createdAtMs;
    this.#createdMono = spec.clock.monotonic() - Math.max(0, spec.clock.now() - progress.createdAtMs);
  }

  get state(): ProcessState {
    return this.#state;
  }

  /** Aborted when the process must stop, whatever the reason. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get exit(): ExitStatus | undefined {
    return this.#exit;
  }

  /** Its end is on disk, and its watchers have been notified. */
  get settled(): boolean {
    return this.#settled;
  }

  /** Resolves when the process is a zombie and its end is on disk. */
  get done(): Promise<ExitStatus> {
    return this.#done.promise;
  }

  /** Why it must stop. The first reason wins, except over a suspension. */
  get stopped(): ExitStatus | undefined {
    return this.#stop;
  }

  get paused(): boolean {
    return this.#resume !== undefined;
  }

  /** With the tokens of all its children. */
  get tokensUsed(): number {
    return this.spec.budget.tokens;
  }

  get costUsd(): number | null {
    return this.spec.budget.cost;
  }

  /** Running time in ms, without paused time. Deadlines count it. */
  get elapsedMs(): number {
    return this.#endedAtMs === null ? this.clock.monotonic() : this.#endedElapsedMs;
  }

  /** Ms since the spawn, with paused and suspended time. Syscall events use it. */
  sinceSpawnMs(): number {
    return this.#clock.monotonic() - this.#createdMono;
  }

  /** Created → Running. The wall-time limit starts here. */
  start(): void {
    this.#state = transition(this.pid, this.#state, "running");
    const limit = this.spec.timeoutMs;
    if (limit === null) return;
    this.#timeLimit = this.clock.timer(limit - (this.spec.progress?.elapsedMs ?? 0), () =>
      this.stop({
        code: 1,
        reason: "timeout",
        error: new SyscallError(
          "TIMEOUT",
          `The run's time limit of ${limit} ms is used up. Set a longer one with --timeout.`,
          {
            pid: this.pid,
          },
        ),
      }),
    );
  }

  /**
   * Makes the task end with this status. The first status wins, but a kill replaces a suspension. A paused process
   * continues, because its end has deadlines.
   */
  stop(status: ExitStatus): void {
    if (this.#state === "zombie" || this.#state === "dead") return;
    if (status.code === KILLED) this.onKill?.();
    if (this.#stop && this.#stop.reason !== "suspended") return;
    this.#stop = status;
    this.#stoppedAtMs = this.#clock.now();
    this.#abortAll(cancelReason(this.pid, status));
    if (this.paused) this.resume();
    else this.onStanding?.();
  }

  /** No effect when the process is paused already or must stop. */
  pause(): void {
    const alive = this.#state === "created" || this.#state === "running";
    if (!alive || this.paused || this.#stop) return;
    this.clock.stop();
    this.#pausedAtMs = this.#clock.now();
    this.#resume = Promise.withResolvers<void>();
    this.onStanding?.();
  }

  /** No effect when the process is not paused. */
  resume(): void {
    if (!this.#resume) return;
    this.clock.run();
    this.#pausedAtMs = 0;
    const gate = this.#resume;
    this.#resume = undefined;
    gate.resolve();
    this.onStanding?.();
  }

  /** It waits for a message of the user: its clock stops, also while it is not paused. */
  get waitsForMessage(): boolean {
    return this.#waitRelease !== undefined;
  }

  beginWait(): void {
    this.#waitsSinceMs = this.#clock.now();
    this.#waitRelease = this.clock.hold();
    this.onStanding?.();
  }

  endWait(): void {
    this.#waitRelease?.();
    this.#waitRelease = undefined;
    this.onStanding?.();
  }

  /** The spawn failed and the builder undoes it: releases the callers that wait for the process. */
  abandon(): void {
    this.#timeLimit?.cancel();
    this.#done.resolve(this.#stop ?? { code: 1, reason: "failed" });
  }

  /** Waits while paused. Returns at once when the process must stop. */
  async gate(): Promise<void> {
    while (this.#resume) await this.#resume.promise;
  }

  /** Running → Zombie. `settle` releases the callers that wait, after the record is on disk. */
  terminate(exit: ExitStatus): void {
    // A later SIGRESUME must not start the clock of an ended process.
    this.resume();
    this.#state = transition(this.pid, this.#state, "zombie");
    this.#timeLimit?.cancel();
    this.#endedElapsedMs = this.elapsedMs;
    this.#endedAtMs = this.#clock.now();
    this.#exit = exit;
  }

  /** Replaces the verdict of an ended process that has not settled. */
  amend(exit: ExitStatus): void {
    this.#exit = exit;
  }

  settle(): void {
    if (!this.#exit) return;
    this.#settled = true;
    this.#done.resolve(this.#exit);
  }

  /** Aborts work that still runs for the process (reap step 2). */
  cancel(): void {
    if (!this.signal.aborted) this.#abortAll(`Process ${this.pid} has ended.`);
  }

  #abortAll(why: string): void {
    const reason = new SyscallError("CANCELLED", why, { pid: this.pid });
    this.#abort.abort(reason);
    this.work.cancel(reason);
  }

  /** Zombie → Dead. */
  reap(): void {
    this.#state = transition(this.pid, this.#state, "dead");
  }

  /** null while it lives. */
  get endedAtMs(): number | null {
    return this.#endedAtMs;
  }

  /** 0 when it is not paused. */
  get pausedAtMs(): number {
    return this.#pausedAtMs;
  }

  /** What it does now; null for an ended process, and for one that is no agent. */
  doing(): Activity | null {
    if (this.spec.kind !== "agent" || this.#exit) return null;
    const stop = this.#stop;
    if (stop) {
      const text = stop.reason === "suspended" ? "being suspended" : "stopping";
      return { kind: "end", text, since_ms: this.#stoppedAtMs, until_ms: null };
    }
    if (this.paused) return { kind: "paused", text: "paused", since_ms: this.#pausedAtMs, until_ms: null };
    const ask = [...this.asks.values()].find(({ answers }) => answers === undefined);
    if (ask) {
      const text = `waiting for your answer: ${askTitle(ask, this.spec.opts.cwd)}`;
      return { kind: "ask", text, since_ms: ask.asked_at_ms, until_ms: ask.until_ms };
    }
    if (this.waitsForMessage) {
      return {
        kind: "input",
        text: "waiting for your message",
        since_ms: this.#waitsSinceMs,
        until_ms: null,
      };
    }
    return this.activity.now(this.spec.opts.cwd);
  }

  /** A child that was suspended and resumed has one result: its last. */
  childEnded(result: ChildResult): void {
    const before = this.childResults.findIndex(({ uuid }) => uuid === result.uuid);
    if (before >= 0) this.childResults.splice(before, 1);
    this.childResults.push(result);
    if (this.spec.kind === "agent") this.newChildResults.push(result);
  }

  /** The process as proc-info.json and the protocol show it. */
  info(): ProcInfo {
    return procInfoOf(this);
  }
}

function askTitle({ call, questions: [first] }: OpenAsk, cwd: string): string {
  return call
    ? callTitle({ name: call.tool ?? "open", input: { command: call.subject } }, cwd)
    : firstLine(first?.question ?? "");
}

/** A choice of the user that the loop has still to take. */
interface ModelChange {
  /** Absent: the model stays. */
  provider?: ProviderChoice;
  /** Absent: the effort stays. */
  effort?: Effort;
  done: PromiseWithResolvers<void>;
}

/** Tools for a program that acts as the model. */
interface ServedTools {
  /** A call is under way. */
  readonly busy: boolean;
  list(): ToolDef[];
  call(name: string, input: Record<string, unknown>): Promise<ToolOutcome>;
}

const NOT_STARTING = new Map<string, StartingMount>();

const NO_GROUPS: ReadonlySet<string> = new Set();

/** The exit code of a SIGKILL. */
const KILLED = 137;

/** Why a call was cancelled. The model of a resumed run reads it. */
function cancelReason(pid: PID, { reason }: ExitStatus): string {
  return reason === "suspended"
    ? "The run was suspended during this call. It was cancelled, and may have taken effect in part."
    : `Process ${pid} was stopped: ${reason}.`;
}

/** The provider of a process that is not an agent. */
const NO_MODEL: ProviderChoice = {
  name: "",
  device: "",
  model: "",
  config: {},
  gateKey: "",
  because: "",
  secret: () => Promise.reject(new SyscallError("UNAVAILABLE", "This process has no model.")),
};
