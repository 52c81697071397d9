import { Abort } from "../../lib/cancellation.ts";
import type { Channel } from "../../lib/channel.ts";
import type { Clock, Timer } from "../../lib/clock.ts";
import {
  type Effort,
  type ImageRef,
  type Message,
  SyscallError,
  type ToolDef,
  type ToolOutcome,
} from "../../plugin/index.ts";
import type { RunWriter } from "../../store/runs/run-store.ts";
import type {
  CheckResult,
  ChildResult,
  Compaction,
  ModelSwitch,
  ProcInfo,
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
  ProcessEvent,
  ProcessState,
  ProviderChoice,
  SkillInfo,
  SyscallEvent,
} from "../types.ts";
import { ProcessClock } from "./process-clock.ts";
import { procInfoOf } from "./process-info.ts";
import type { ProcessSpec, ProcessTool } from "./process-spec.ts";
import { transition } from "./process-state.ts";
import type { OpenStep } from "./run-progress.ts";
import { initialProgress, type LastAnswer } from "./run-progress.ts";
import { Secrets } from "./secrets.ts";

/**
 * One agent run (seeds 2.1). Its state changes only here, so that every change is whole: there is one
 * thread, and no method of this class awaits while it is half done.
 */
export class Process {
  readonly pid: PID;
  readonly uuid: string;
  readonly spec: ProcessSpec;
  readonly createdAtMs: number;
  /** Deadlines of what the process does are counted with it: it stands still while the process is paused. */
  readonly clock: ProcessClock;
  readonly fds = new FdTable<FileGrant>();
  readonly record: RunWriter;
  readonly children: PID[] = [];
  readonly childResults: ChildResult[];
  /** Those that no step record holds yet. */
  readonly newChildResults: ChildResult[] = [];

  /** 0 once its parent has gone before it, or was signalled alone to end. */
  ppid: PID;
  permissions: Permissions;
  /**
   * What its model is shown. What comes later is appended, and nothing is ever taken out or moved: a
   * provider's prompt cache must hit, and a tool that was withdrawn is refused when it is called.
   */
  readonly tools = new Map<string, ProcessTool>();
  /** Its model is shown the message tools: it has another process to write to, or names them. */
  messaging = false;
  /** The skills loaded so far: those of the agent and those the Skill tool brought. */
  readonly skills: SkillInfo[];

  step: number;
  /** The last step that its records hold: where a Resume would go on from. */
  recordedStep: number;
  /** Begun before it was laid down: its first step finishes it. */
  openStep: OpenStep | null;
  /** Said before it was laid down: its end is all that is missing. */
  answered: LastAnswer | null;
  toolCalls: number;
  usage: Usage;
  plan: string | null;
  /** What the Complete tool was given. */
  completion: string | null;
  /** How often its last word was asked for again, for it did not fit the output schema. */
  corrections: number;
  result: string | null = null;
  /** The result as the document that was asked for. */
  output: unknown = null;
  partial = false;
  checks: CheckResult[] = [];
  readonly filesChanged: Set<string>;
  filesChangedComplete = false;
  llmFd = -1;
  /** What the program that is its model may call, as long as it answers. */
  served: ServedTools | undefined;
  /** Those it was given, in the order of its first message. */
  images: readonly ImageRef[] = [];
  /** Asked of its model; undefined where its driver has no such setting. */
  effort: Effort | undefined;
  /** It comes to its end and takes no more children. */
  ending = false;
  /** Called when it is killed at once, also while it is ending already: its task may have something to leave out. */
  onKill: (() => void) | undefined;
  /** What it was spawned without, for whoever watches. */
  readonly notices: string[] = [];
  /** The process groups that it is in; the kernel's ProcGroupManager keeps them. */
  groups: ReadonlySet<string> = NO_GROUPS;
  /** Its conversation; allocated when it is built, freed at its reap. */
  ctxId = 0;

  /** Messages of the context that no step record holds yet. */
  readonly unrecorded: Message[] = [];

  /** How many tokens its model makes of what it is sent. */
  readonly estimate = new TokenEstimate();

  /** What was made of the context since the last step record. */
  readonly compactions: Compaction[] = [];
  /** What stands in it for all that was told before. */
  summary: Compaction["summary"] = null;
  /** Whoever has asked for a compaction waits for it: it is made before the next step. */
  compacting: PromiseWithResolvers<AppliedCompaction> | undefined;

  readonly watchers = new Set<Channel<ProcessEvent>>();
  readonly tracers = new Set<Channel<SyscallEvent>>();

  /** Its model. One that fails for good has the run stay with another from then on. */
  provider: ProviderChoice;
  /** What it can still fall back to, in order. */
  readonly fallbacks: ProviderChoice[];
  readonly switches: ModelSwitch[];
  readonly secrets: Secrets;

  readonly #clock: Clock;
  readonly #abort = new Abort();
  readonly #done = Promise.withResolvers<ExitStatus>();
  readonly #createdMono: number;
  #state: ProcessState = "created";
  #exit: ExitStatus | undefined;
  #settled = false;
  #stop: ExitStatus | undefined;
  #timeLimit: Timer | undefined;
  #resume: PromiseWithResolvers<void> | undefined;
  #pausedAtMs = 0;
  #endedAtMs: number | null = null;
  #endedElapsedMs = 0;

  constructor(spec: ProcessSpec) {
    this.spec = spec;
    this.pid = spec.pid;
    this.uuid = spec.uuid;
    this.ppid = spec.ppid;
    this.permissions = spec.permissions;
    this.provider = spec.opts.provider ?? NO_MODEL;
    this.fallbacks = [...(this.provider.fallbacks ?? [])];
    this.record = spec.record;
    this.secrets = spec.secrets ?? new Secrets();
    const { progress = initialProgress(spec.clock) } = spec;
    this.step = progress.step;
    this.recordedStep = progress.step;
    this.openStep = progress.openStep;
    this.answered = progress.answered;
    this.toolCalls = progress.toolCalls;
    this.usage = { ...progress.usage };
    this.plan = progress.plan;
    this.completion = progress.completion;
    this.corrections = progress.corrections;
    this.childResults = [...progress.children];
    this.filesChanged = new Set(progress.filesChanged);
    this.skills = [...spec.agent.skills, ...progress.skills];
    this.switches = [...progress.switches];
    this.#clock = spec.clock;
    this.clock = new ProcessClock(spec.clock, progress.elapsedMs);
    this.createdAtMs = progress.createdAtMs;
    this.#createdMono = spec.clock.monotonic() - Math.max(0, spec.clock.now() - progress.createdAtMs);
  }

  get state(): ProcessState {
    return this.#state;
  }

  /** Aborted when the process is told to stop, whatever the reason. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get exit(): ExitStatus | undefined {
    return this.#exit;
  }

  /** Its end is on disk, and whoever followed it has been told. */
  get settled(): boolean {
    return this.#settled;
  }

  /** Resolves when the process is a zombie, and its end is on disk. */
  get done(): Promise<ExitStatus> {
    return this.#done.promise;
  }

  /** Why it was told to stop; the first reason stands. */
  get stopped(): ExitStatus | undefined {
    return this.#stop;
  }

  get paused(): boolean {
    return this.#resume !== undefined;
  }

  /** Those of its children, ended and running, included. */
  get tokensUsed(): number {
    return this.spec.envelope.tokens;
  }

  get costUsd(): number | null {
    return this.spec.envelope.cost;
  }

  /** Running time in ms: what counts towards deadlines. Paused time is not in it. */
  get elapsedMs(): number {
    return this.#endedAtMs === null ? this.clock.monotonic() : this.#endedElapsedMs;
  }

  /** Ms since the spawn, for syscall events: paused and suspended time is in it. */
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
          `The run's time limit of ${limit} ms is used up. Give it more with --timeout.`,
          {
            pid: this.pid,
          },
        ),
      }),
    );
  }

  /**
   * Tells the reasoning task to end with this status. The first reason stands, but for a suspension under
   * way: who kills the run meanwhile does not want it to go on later. It is paused no more: what its end still
   * has to do has deadlines.
   */
  stop(status: ExitStatus): void {
    if (this.#state === "zombie" || this.#state === "dead") return;
    if (status.code === KILLED) this.onKill?.();
    if (this.#stop && this.#stop.reason !== "suspended") return;
    this.#stop = status;
    this.#abort.abort(
      new SyscallError("CANCELLED", cutOff(this.pid, status), {
        pid: this.pid,
      }),
    );
    this.resume();
  }

  /** Nothing for one that is paused already, or has been told to stop. */
  pause(): void {
    const alive = this.#state === "created" || this.#state === "running";
    if (!alive || this.paused || this.#stop) return;
    this.clock.stop();
    this.#pausedAtMs = this.#clock.now();
    this.#resume = Promise.withResolvers<void>();
  }

  /** Resume of a process that is not paused is nothing. */
  resume(): void {
    if (!this.#resume) return;
    this.clock.run();
    this.#pausedAtMs = 0;
    const gate = this.#resume;
    this.#resume = undefined;
    gate.resolve();
  }

  /** It never came to be, and its builder takes back what there was of it: who waits for it is told. */
  abandon(): void {
    this.#timeLimit?.cancel();
    this.#done.resolve(this.#stop ?? { code: 1, reason: "failed" });
  }

  /** Waits while paused. Returns at once when the process is told to stop. */
  async gate(): Promise<void> {
    while (this.#resume) await this.#resume.promise;
  }

  /** Running → Zombie. Whoever waits is told by `settle`, after the record is on disk. */
  terminate(exit: ExitStatus): void {
    // What has ended is not paused, and no later signal sets its clock going.
    this.resume();
    this.#state = transition(this.pid, this.#state, "zombie");
    this.#timeLimit?.cancel();
    this.#endedElapsedMs = this.elapsedMs;
    this.#endedAtMs = this.#clock.now();
    this.#exit = exit;
  }

  settle(): void {
    if (!this.#exit) return;
    this.#settled = true;
    this.#done.resolve(this.#exit);
  }

  /** Whatever still runs in its name is told to end, as it has itself (reap step 2). */
  cancel(): void {
    if (this.signal.aborted) return;
    this.#abort.abort(
      new SyscallError("CANCELLED", `Process ${this.pid} has ended.`, {
        pid: this.pid,
      }),
    );
  }

  /** Zombie → Dead. */
  reap(): void {
    this.#state = transition(this.pid, this.#state, "dead");
  }

  /** When it ended; null as long as it lives. */
  get endedAtMs(): number | null {
    return this.#endedAtMs;
  }

  /** Since when it is paused; 0 when it is not. */
  get pausedAtMs(): number {
    return this.#pausedAtMs;
  }

  /** One that was suspended before and gone on with has one result: its last. */
  childEnded(result: ChildResult): void {
    const before = this.childResults.findIndex(({ uuid }) => uuid === result.uuid);
    if (before >= 0) this.childResults.splice(before, 1);
    this.childResults.push(result);
    if (this.spec.kind === "agent") this.newChildResults.push(result);
  }

  /** Everything about it, as it is written to proc-info.json and sent on the wire. */
  info(): ProcInfo {
    return procInfoOf(this);
  }
}

/** What a program that is its model may call. */
interface ServedTools {
  list(): ToolDef[];
  call(name: string, input: Record<string, unknown>): Promise<ToolOutcome>;
}

const NO_GROUPS: ReadonlySet<string> = new Set();

/** The exit code of a SIGKILL. */
const KILLED = 137;

/** Why a call was cancelled: a model that is gone on with reads it. */
function cutOff(pid: PID, { reason }: ExitStatus): string {
  return reason === "suspended"
    ? "The run was suspended while this was under way: it was cut off, and may have been done in part."
    : `Process ${pid} was told to stop: ${reason}.`;
}

/** Of a process that is no agent. */
const NO_MODEL: ProviderChoice = {
  name: "",
  device: "",
  model: "",
  config: {},
  gateKey: "",
  because: "",
  secret: () => Promise.reject(new SyscallError("UNAVAILABLE", "This process has no model.")),
};
