import type { Clock } from "../lib/clock.ts";
import type { Children } from "../os/children.ts";
import type { GuardedFolder, History } from "../plugin/index.ts";
import type { RunStore } from "../store/runs/run-store.ts";
import type { Secrets } from "./process/secrets.ts";
import type { ChildPlan, ChildRequest, KernelCallbacks, PID, SpawnOpts } from "./types.ts";

/** What the kernel needs of the outside world, given at boot. */
export interface KernelPorts {
  version: string;
  /** Names the lock this kernel holds for its life. */
  kernelId: string;
  platform: string;
  /** Keys that commands have printed, for whichever run. */
  fetchedKeys?: Secrets;
  userDataDir: string;
  /** The user's settings, keys and records: no run writes there. */
  guarded: readonly GuardedFolder[];
  clock: Clock;
  random(): number;
  uuid(): string;
  pids: { next(): PID };
  children: Children;
  /** The records of one data folder; the same object for the same folder. */
  runs(dataDir: string): RunStore;
  /** The runs on disk, for drivers that read them. */
  history: History;
  /** Whether the kernel of this id is alive: its lock is held. */
  kernelAlive(kernelId: string): boolean;
  /** Ends the programs of all kernels that are dead by now; resolves when they are gone. It never rejects. */
  sweepPrograms(): Promise<void>;
  /** Settles what the child is made of that the agent with this UUID wants. */
  planChild(parentUuid: string, wish: ChildRequest): Promise<ChildPlan>;
  /** The same for a child of it that was laid down with it, and is gone on with. */
  planChildResume(parentUuid: string, childUuid: string): Promise<ChildPlan>;
  /** Notified before the first thing a run does, and after the last program of it has ended. Where `begin` rejects, the run does not begin. */
  runsIn?: {
    begin(project: SpawnOpts["project"]): Promise<void>;
    end(project: SpawnOpts["project"]): Promise<void>;
  };
  /** So many processes may live at the same time; absent: any number. */
  liveProcesses?: number | null;
  /** Model requests open at the same time, at most; absent: any number. */
  openRequests?: number;
  /** There is a waker, which goes on with what waits: what is suspended says so. */
  wakes?: boolean;
  /** A message has come for a suspended run that waits for one. */
  mailed?(uuid: string): void;
  callbacks?: KernelCallbacks;
  log?(level: "debug" | "info" | "warn", source: string, text: string): void;
}
