/** The services that methods use, and the booted server. */

import type { Env } from "../config/environment/paths.ts";
import type { Worktrees } from "../kernel/files/worktrees.ts";
import type { Kernel } from "../kernel/kernel.ts";
import type { ProviderChoice } from "../kernel/types.ts";
import type { Clock } from "../lib/clock.ts";
import type { Logger } from "../lib/logger.ts";
import type { ProcessOwner } from "../os/process-table.ts";
import type { Schedule } from "../plugin/index.ts";
import type { ProcChanges, ResumeRequest, SpawnRequest } from "../protocol/methods.ts";
import type { AnswerOf, FindRequest } from "../store/search/requests.ts";
import type { Instruments } from "../telemetry/instruments.ts";
import type { Catalog } from "./catalog/project-catalog.ts";
import type { CallPlace, CallPlan } from "./plan/plan-call.ts";
import type { SpawnPlan } from "./plan/plan-spawn.ts";
import type { Collector } from "./records/collector.ts";
import type { History } from "./records/history.ts";
import type { Run } from "./records/recorded-run.ts";
import type { RunChanges } from "./records/run-changes.ts";
import type { InitService } from "./recovery/init-service.ts";
import type { Recovery } from "./recovery/recovery.ts";
import type { Waker } from "./recovery/waker.ts";

export interface Services {
  /** The run whose program made the present request, if one did. */
  viewer?(): string | undefined;
  kernel: KernelApi;
  history(): Promise<History>;
  collector(): Promise<Pick<Collector, "collect">>;
  changes(): Promise<Pick<RunChanges, "diff" | "bySteps" | "undo">>;
  worktrees(): Promise<Pick<Worktrees, "take">>;
  catalog(): Promise<Catalog>;
  clock: Clock;
  /** In the answers of ping and daemon_status. */
  identity: { version: string; build: string; startedAtMs: number };
  host: Host;
  /** Absent where the server ends with its command. */
  init?: InitService;
  recovery: Pick<Recovery, "start" | "stop" | "busy">;
  /** The schedules of all projects. Absent where the server ends with its command. */
  cron?: { start(): void; readonly busy: boolean };
  /** Plans a spawn. INVALID, NOT_FOUND: exit 64. UNAVAILABLE: 69. */
  plan(request: SpawnRequest, unit: string | undefined): Promise<SpawnPlan>;
  planCall(place: Omit<CallPlace, "env"> & { env?: Env }): Promise<CallPlan>;
  planResume(run: Run, request: ResumeRequest): Promise<SpawnPlan>;
  /** Resolves the model that the user has chosen for a run. `current`: the one of a live run. */
  planModel(
    run: Run,
    request: Pick<ResumeRequest, "provider" | "model" | "env">,
    current?: ProviderChoice,
  ): Promise<ProviderChoice>;
  /** Plans a new run with the conversation of a foreign one. */
  planAdopt(run: Run, request: ResumeRequest): Promise<SpawnPlan>;
  /** The jobs of all projects, as their user sees them. Absent in tests without schedules. */
  schedules?: Pick<Schedule, "list" | "history" | "next">;
  /** Whether another kernel of the user lives. Absent in tests. */
  otherKernels?(): boolean;
  /** Finds the conversations of recorded runs that have these words. Absent in tests without an index. */
  searchRuns?(query: Pick<FindRequest, "text" | "since_ms" | "limit">): Promise<AnswerOf<"find">>;
  waker?: Waker;
  /** Resumes a suspended run that has its answer; keys are looked up in the caller's environment. Absent where the server ends with its command. */
  resumeAnswered?(uuid: string, env: Env | undefined): Promise<number>;
  /** Returns the owner of a client's process. Absent where the client is the server's own process. */
  ownerOf?(pid: number): ProcessOwner;
  /** Serves the dashboard, and returns an address that opens it once. Absent where the server ends with its command. */
  dashboard?(request: DashboardRequest): Promise<OpenedDashboard>;
  /** What runs have done since the server began. Absent in tests. */
  instruments?: Instruments;
  /** The changes of all processes. Absent where the server ends with its command. */
  procFeed?: { open(): Promise<ProcFeed>; wake(): void };
  /** Programs left by unknown runs. */
  strays?(): { pid: number; command: string }[];
  logger: Logger;
}

/** One stream of what changes of the live processes and the open questions, for all that watch it. */
export interface ProcFeed {
  /** The watcher gets the whole state soon, then changes. */
  watch(watcher: ProcWatcher): { whole(): ProcChanges; end(): void };
}

export interface ProcWatcher {
  send(change: ProcChanges): void;
  /** The feed has ended. */
  close(): void;
}

/** Where the dashboard is: an address that opens it once, and the one of its metrics with their token, if it was asked for. */
export interface OpenedDashboard {
  url: string;
  metrics?: { url: string; token: string };
}

export interface DashboardRequest {
  /** 0: a free one, or the one of the settings. */
  port: number;
  /** The token of /metrics is asked for: as it is, or a new one in its place. */
  metrics?: "token" | "new-token";
}

export interface BootedServer {
  system: Services;
  /** Ends what boot began, in reverse order. The processes are gone already. */
  close(): Promise<void>;
}

/** The host of the kernel: the daemon, or a command with `--no-daemon`. */
export interface Host {
  /** "" where there is no socket. */
  socket: string;
  /** The log file, "" where there is none. */
  log: string;
  connections(): number;
  /** How late timers fired in the last minute, in ms. */
  loopDelay(): { p50: number; max: number };
  /**
   * Begins the stop and returns the tool calls that it waits for. Processes are suspended, with `now` killed.
   * `restart`: another server follows.
   */
  stop(now: boolean, o?: { restart?: boolean }): Draining | undefined;
}

/** Running tool calls that may finish, and their time. */
export interface Draining {
  calls: number;
  ms: number;
}

/** The part of the kernel that the server uses. */
export type KernelApi = Pick<
  Kernel,
  "units" | "modelQueues" | "detail" | "doing" | "attach" | "attachDebug" | "shutdown"
> & {
  readonly processes: Pick<
    Kernel["processes"],
    | "spawn"
    | "kill"
    | "listProcs"
    | "infos"
    | "info"
    | "identity"
    | "count"
    | "flushEvents"
    | "inherited"
    | "requireEffects"
  >;
  readonly signals: Pick<Kernel["signals"], "signalTree">;
  readonly lifecycle: Pick<
    Kernel["lifecycle"],
    "answer" | "suspend" | "setWake" | "setModel" | "endSuspended" | "resume" | "callsUnderWay"
  >;
  readonly asks: Pick<Kernel["asks"], "list" | "answer">;
  readonly calls: Pick<Kernel["calls"], "call" | "callBy">;
  readonly capabilities: Pick<Kernel["capabilities"], "grant" | "revoke" | "allowUnasked" | "setMode">;
  readonly changes: Pick<Kernel["changes"], "refresh" | "isQuiet" | "undone">;
  readonly chats: Pick<Kernel["chats"], "send" | "takeBack" | "interrupt" | "setModel" | "compact" | "end">;
};
