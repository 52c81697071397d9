/** The services that methods use, and the booted server. */

import type { Env } from "../config/paths.ts";
import type { Kernel } from "../kernel/kernel.ts";
import type { Clock } from "../lib/clock.ts";
import type { Logger } from "../lib/logger.ts";
import type { ProcessOwner } from "../os/process-owner.ts";
import type { ResumeRequest, SpawnRequest } from "../protocol/methods.ts";
import type { Catalog } from "./catalog/project-catalog.ts";
import type { CallPlace, CallPlan } from "./plan/plan-call.ts";
import type { SpawnPlan } from "./plan/plan-spawn.ts";
import type { Collector } from "./records/collector.ts";
import type { History } from "./records/history.ts";
import type { Run } from "./records/recorded-run.ts";
import type { InitService } from "./recovery/init-service.ts";
import type { Recovery } from "./recovery/recovery.ts";
import type { Waker } from "./recovery/waker.ts";

/** What the methods act on: made once, by boot. */
export interface Services {
  kernel: KernelApi;
  history: History;
  collector: Pick<Collector, "collect">;
  catalog: Catalog;
  clock: Clock;
  identity: Identity;
  host: Host;
  init: InitService;
  recovery: Pick<Recovery, "start" | "stop" | "busy">;
  /** Everything that is settled before a process exists. INVALID, NOT_FOUND: exit 64. UNAVAILABLE: 69. */
  plan(request: SpawnRequest, unit: string | undefined): Promise<SpawnPlan>;
  /** Everything that is settled before PID 0 makes a call. */
  planCall(place: Omit<CallPlace, "env"> & { env?: Env }): Promise<CallPlan>;
  /** The same for a run that is resumed. */
  planResume(run: Run, request: ResumeRequest): Promise<SpawnPlan>;
  /** The same for a new run with the conversation of a foreign one. */
  planAdopt(run: Run, request: ResumeRequest): Promise<SpawnPlan>;
  /** Resumes waiting runs. Absent where the server ends with its command. */
  waker?: Waker;
  /** Returns the owner of a client's process. Absent where the client is the server's own process. */
  ownerOf?(pid: number): ProcessOwner;
  /** Programs left by runs, whose run is unknown. */
  strays?(): { pid: number; command: string }[];
  logger: Logger;
}

/** What boot makes: the system, and how it is taken down. */
export interface BootedServer {
  system: Services;
  /** Ends what boot began, in reverse order. The processes are gone already. */
  close(): Promise<void>;
}

/** The server's identity, in the answers of ping and daemon_status. */
interface Identity {
  version: string;
  build: string;
  startedAtMs: number;
}

/** The long-running process around the kernel, or the command that plays it. */
export interface Host {
  /** "" where there is no socket. */
  socket: string;
  /** The log file, "" where there is none. */
  log: string;
  connections(): number;
  /** How late timers fired in the last minute, in ms. */
  loopDelay(): { p50: number; max: number };
  /**
   * Begins the end and returns: running processes are suspended, with `now` killed. `restart`: another follows.
   * Answers what is waited for before that.
   */
  stop(now: boolean, o?: { restart?: boolean }): Draining | undefined;
}

/** Tool calls under way that may finish, and how long they have. */
export interface Draining {
  calls: number;
  ms: number;
}

/** The kernel, as far as the server uses it. */
export type KernelApi = Pick<Kernel, "modelQueues" | "detail" | "attach" | "attachDebug" | "shutdown"> & {
  readonly processes: Pick<
    Kernel["processes"],
    "spawn" | "kill" | "listProcs" | "infos" | "info" | "count" | "flushEvents"
  >;
  readonly signals: Pick<Kernel["signals"], "signalTree">;
  readonly lifecycle: Pick<
    Kernel["lifecycle"],
    "suspend" | "setWake" | "endSuspended" | "resume" | "callsUnderWay"
  >;
  readonly calls: Pick<Kernel["calls"], "call" | "callBy">;
  readonly capabilities: Pick<Kernel["capabilities"], "grant" | "revoke">;
  readonly compactions: Pick<Kernel["compactions"], "compact">;
};
