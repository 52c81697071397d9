/** What the kernel needs from the outside world. */

import type { Clock } from "../lib/clock.ts";
import type { Children } from "../os/children.ts";
import type { GuardedFolder, History, Schedule, Search } from "../plugin/index.ts";
import type { Resolve } from "../proxy/addresses.ts";
import type { LiveAsk } from "../run/live-event.ts";
import type { RunStore } from "../store/runs/run-store.ts";
import type { ProcInfo } from "../store/runs/schema.ts";
import type { Secrets } from "./process/secrets.ts";
import type { ChildPlan, ChildRequest, KernelCallbacks, PID, ProjectHandle, SpawnOpts } from "./types.ts";

/** What the kernel needs from the outside world. */
export interface KernelPorts {
  version: string;
  /** The name of the lock that this kernel holds while it lives. */
  kernelId: string;
  platform: string;
  /** Keys printed by key commands, for all runs. */
  fetchedKeys?: Secrets;
  userDataDir: string;
  /** The user's settings, keys and records: no run writes there. */
  guarded: readonly GuardedFolder[];
  /** What every sandbox hides and offers; absent: no process has a sandbox. */
  sandboxing?: Sandboxing;
  clock: Clock;
  random(): number;
  uuid(): string;
  pids: { next(): PID };
  children: Children;
  /** Absent: no network can be limited. */
  network?: NetworkPorts;
  /** The records of one data folder; the same object for the same folder. */
  runs(dataDir: string): RunStore;
  /** The runs on disk, for drivers that read them. */
  history: History;
  /** The derived index, for drivers that search. */
  search(plugin: string, project: { dir: string; dataDir: string }): Search;
  /** The scheduled jobs as a process sees them; absent: there are none. */
  schedule?(caller: ScheduleCaller): Schedule;
  /** Whether the kernel of this id is alive: its lock is held. */
  kernelAlive(kernelId: string): boolean;
  /** Ends the programs of all dead kernels; resolves when they are gone. It never rejects. */
  sweepPrograms(): Promise<void>;
  planChild(parentUuid: string, wish: ChildRequest, childUuid: string): Promise<ChildPlan>;
  planChildResume(parentUuid: string, childUuid: string): Promise<ChildPlan>;
  /** Called before a run begins and after its last program has ended. If `begin` rejects, the run does not begin. */
  runsIn?: {
    begin(project: SpawnOpts["project"]): Promise<void>;
    end(project: SpawnOpts["project"]): Promise<void>;
  };
  /** The worktrees of agents, loaded with the first; absent: there are none. */
  worktrees?(): Promise<AgentWorktrees>;
  /** Maximum live processes; absent: no limit. */
  liveProcesses?: number | null;
  /** Maximum open model requests; absent: no limit. */
  openRequests?: number;
  /** Ms that a stock plugin's mount stays open without a user; absent: 0. */
  mountsKeptMs?: number;
  /** Whether programs, model requests and MCP calls get a `traceparent` of their run's trace. */
  traces?: boolean;
  /** Whether a waker resumes suspended runs; their records say so. */
  wakes?: boolean;
  /** What the server does for questions to a person; absent: nothing is stored for a project. */
  asker?: Asker;
  /** A message arrived for a suspended run that waits for messages. */
  mailed?(uuid: string): void;
  callbacks?: KernelCallbacks;
  log?(level: "debug" | "info" | "warn", source: string, text: string): void;
  /** Logs what the program behind a mount prints. Absent: `log` gets it. */
  mountLog?(mount: string, text: string): void;
}

/** What the server does for questions. */
export interface Asker {
  /** A run is suspended until it is answered, and no client can answer it. Must not throw. */
  parked(ask: LiveAsk): void;
  /** Stores what a person has allowed in every run of the project. Returns the files that it has written. */
  allowInProject(
    project: SpawnOpts["project"],
    rules: readonly string[],
  ): Promise<NonNullable<SpawnOpts["outputs"]>>;
}

/** What the kernel needs to limit the network of a run's programs. */
export interface NetworkPorts {
  /** The folder for the sockets of proxies. Its path is short: that of a socket has a limit. */
  folder: string;
  /** The command line that starts this binary. */
  program: readonly string[];
  resolve: Resolve;
}

/** What every sandbox of this kernel hides and offers. */
export interface Sandboxing {
  /** Rnix's own folders. */
  own: readonly string[];
  userHome: string;
  socket: string;
  /** The path of the running rnix binary. */
  binary: string;
}

/** The process that uses the service `schedule`. */
export interface ScheduleCaller {
  project: ProjectHandle;
  cwd: string;
  env: Readonly<Record<string, string>>;
  /** The run that calls; null for PID 0, which is the user. */
  run: ProcInfo | null;
  /** The job whose run, or an ancestor of it, this is. */
  jobId: string | null;
}

/** The worktrees of agents. The folder of a run's record has its patch. */
export interface AgentWorktrees {
  /** The run has ended: writes its patch into its record, and removes the worktree, if it has one. */
  end(uuid: string, recordDir: string): Promise<void>;
  /** What a run changed in its worktree. Fails with NOT_FOUND for a run that had none, or has not ended. */
  patch(recordDir: string): Promise<Buffer>;
  /** Applies the patch of a run to a project, file by file. */
  take(recordDir: string, project: string, query: TakeQuery): Promise<TakenFile[]>;
}

export interface TakeQuery {
  /** Files and folders, absolute; empty: all. */
  files: readonly string[];
  dryRun: boolean;
  /** Why a file, absolute, may not be written; null: it may. */
  refusal?(file: string): string | null;
}

/** What became of a file of a patch. A conflict leaves the project's file as it is. */
export interface TakenFile {
  path: string;
  done: "taken" | "unchanged" | "conflict" | "refused";
  reason: string | null;
}
