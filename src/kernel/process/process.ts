/** One live process. */

import { callTitle, firstLine } from "../../lib/call-title.ts";
import type { Channel } from "../../lib/channel.ts";
import { Abort, type Clock, type Timer } from "../../lib/clock.ts";
import { formatDuration } from "../../lib/duration.ts";
import { type ChecklistItem, SyscallError } from "../../plugin/index.ts";
import type { AskVerdict, OpenAsk } from "../../run/ask-schema.ts";
import type { Activity } from "../../run/live-event.ts";
import type { RunWriter } from "../../store/runs/run-store.ts";
import type { ProcInfo, SoFar } from "../../store/runs/schema.ts";
import { FdTable } from "../../vfs/namespace.ts";
import type { FileGrant } from "../permission/file-grant.ts";
import type { Permissions } from "../permission/permissions.ts";
import type { ExitStatus, PID, ProcessState, ProviderChoice, SyscallEvent } from "../types.ts";
import {
  Family,
  LiveConversation,
  LiveModel,
  LiveResult,
  LiveRun,
  Toolset,
  UserRequests,
} from "./live-state.ts";
import { PresentWork, ProcessActivity, ProcessClock, Watchers } from "./process-activity.ts";
import { procInfoOf } from "./process-info.ts";
import { initialProgress, type ProcessSpec } from "./process-spec.ts";
import { Secrets } from "./secrets.ts";

/**
 * One process: a live run, or a thread of the kernel such as a supervisor. Its private state changes in the methods
 * of this class alone. None of them awaits in the middle of a change, so no caller sees half of one. What other parts
 * know of it stands in groups, each with an owner.
 */
export class Process {
  readonly pid: PID;
  readonly uuid: string;
  readonly createdAtMs: number;
  /** Fixed when the process is built. */
  readonly spec: ProcessSpec;
  /** Running time: it stops while the process is paused. Deadlines of the process's own work use it. */
  readonly clock: ProcessClock;
  readonly record: RunWriter;
  readonly family: Family;
  readonly model: LiveModel;
  readonly conversation: LiveConversation;
  readonly toolset = new Toolset();
  readonly run: LiveRun;
  readonly result: LiveResult;
  /** The work that the user can interrupt. */
  readonly work: PresentWork;
  readonly requests = new UserRequests();

  // Rights. Written by the process table and mounts (permissions), the group manager and open contexts (secrets).

  permissions: Permissions;
  groups: ReadonlySet<string> = NO_GROUPS;
  /** Provider keys to redact; model drivers add keys that they fetch. */
  readonly secrets: Secrets;

  // The end of the process. The runner writes `ending`, the task the rest.

  /** The process is ending and accepts no more children. */
  ending = false;
  /** Set by the task; called on SIGKILL, also while the process is ending. */
  onKill: (() => void) | undefined;

  // Questions to a person. Written by the asks.

  /** Questions without a verdict, by id. */
  readonly asks: Map<string, OpenAsk>;
  /** Verdicts of calls that have not ended, by call; without an entry, the call has asked nothing. */
  readonly verdicts: Map<string, AskVerdict[]>;

  // Open files and watchers. Written by the file system, process events and the debugger.

  readonly fds = new FdTable<FileGrant>();
  readonly watchers = new Watchers();
  readonly tracers = new Set<Channel<SyscallEvent>>();
  /** What the process does now, for its clients. */
  readonly activity: ProcessActivity;
  /** Called when it is paused, continued or stopped, or begins or ends a wait. */
  onStanding: (() => void) | undefined;
  /** The task list of each plugin. Only the root process of a tree has them. */
  readonly checklists = new Map<string, readonly ChecklistItem[]>();
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
    const { progress = initialProgress() } = spec;
    this.spec = spec;
    this.pid = spec.pid;
    this.uuid = spec.uuid;
    this.record = spec.record;
    this.family = new Family(spec);
    this.model = new LiveModel(spec.opts.provider ?? NO_MODEL, progress);
    this.conversation = new LiveConversation([...spec.agent.skills, ...progress.skills]);
    this.run = new LiveRun(progress);
    this.result = new LiveResult(progress);
    this.work = new PresentWork(spec.pid, this.#abort);
    this.permissions = spec.permissions;
    this.secrets = spec.secrets ?? new Secrets();
    this.notices = [...(spec.opts.notices ?? [])];
    this.asks = new Map(progress.asks.map((ask) => [ask.id, ask]));
    this.verdicts = new Map([...(progress.openStep?.verdicts ?? []), ...(spec.opts.verdicts ?? [])]);
    this.#clock = spec.clock;
    this.clock = new ProcessClock(spec.clock, progress.elapsedMs);
    this.activity = new ProcessActivity(spec.clock.now());
    this.createdAtMs = progress.before?.created_at_ms ?? spec.clock.now();
    this.#createdMono = spec.clock.monotonic() - Math.max(0, spec.clock.now() - this.createdAtMs);
  }

  get state(): ProcessState {
    return this.#state;
  }

  /** Aborted when the process must stop, whatever the reason. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** The same, without a signal of the runtime. */
  get cancellation(): Abort {
    return this.#abort;
  }

  get exit(): ExitStatus | undefined {
    return this.#exit;
  }

  /** The end of the process is on disk, and its watchers have been notified. */
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

  /** Tokens that the process and all its children have used. */
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

  /** What it and its children have used, as its records say it. */
  get usageSoFar(): SoFar {
    const { corrections } = this.run;
    return {
      tokens_used: this.tokensUsed,
      cost_usd: this.costUsd,
      steps_used: this.spec.budget.steps,
      elapsed_ms: Math.round(this.elapsedMs),
      ...(corrections > 0 && { corrections }),
    };
  }

  /** Ms since the spawn, with paused and suspended time. Syscall events use it. */
  sinceSpawnMs(): number {
    return this.#clock.monotonic() - this.#createdMono;
  }

  /** Created → Running. The wall-time limit starts here. */
  start(): void {
    this.#state = transition(this.pid, this.#state, "running");
    const limit = this.spec.budget.limits.timeMs;
    if (limit === null) return;
    this.#timeLimit = this.clock.timer(limit - (this.spec.progress?.elapsedMs ?? 0), () =>
      this.stop({
        code: 1,
        reason: "timeout",
        error: new SyscallError(
          "TIMEOUT",
          `The run's time limit of ${formatDuration(limit)} is used up. Set a longer one with --timeout.`,
          { pid: this.pid },
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

  /** Whether the process waits for a message of its user. Its clock stands still meanwhile, also if it is not paused. */
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
    if (!this.#abort.aborted) this.#abortAll(`Process ${this.pid} has ended.`);
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

  /** What the process does now; null if it has ended or is no agent. */
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
      const text = "waiting for your message";
      return { kind: "input", text, since_ms: this.#waitsSinceMs, until_ms: null };
    }
    return this.activity.now(this.spec.opts.cwd);
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

/** The next state of each state (seeds 2.2). A paused process is running; only a record on disk is suspended. */
const NEXT: Readonly<Record<ProcessState, ProcessState | null>> = {
  created: "running",
  running: "zombie",
  zombie: "dead",
  dead: null,
};

export function transition(pid: number, from: ProcessState, to: ProcessState): ProcessState {
  if (NEXT[from] !== to) {
    throw new SyscallError("INTERNAL", `Process ${pid} cannot go from ${from} to ${to}.`, { pid });
  }
  return to;
}
