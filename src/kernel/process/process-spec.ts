import type { Clock } from "../../lib/clock.ts";
import type { ToolDef } from "../../plugin/index.ts";
import type { RunWriter } from "../../store/runs/run-store.ts";
import type { Namespace } from "../../vfs/namespace.ts";
import type { DeviceEntry } from "../../vfs/registry.ts";
import type { TreeBudget } from "../budget/budget.ts";
import type { Permissions } from "../permission/permissions.ts";
import type { AgentInfo, Limit, PID, ProcessKind, SpawnOpts } from "../types.ts";
import type { RunProgress } from "./run-progress.ts";
import type { Secrets } from "./secrets.ts";

/** A tool as the model of this process sees it, and where it leads. */
export interface ProcessTool {
  tool: ToolDef;
  entry: DeviceEntry;
}

/** What is fixed when a process is built. */
export interface ProcessSpec {
  pid: PID;
  uuid: string;
  ppid: PID;
  parentUuid: string | null;
  /** UUID of the process at the root of its tree: whose turn it is where trees take turns. */
  tree: string;
  /** The run whose steps it began with. */
  originUuid: string | null;
  depth: number;
  intent: string;
  kind: ProcessKind;
  agent: AgentInfo;
  opts: SpawnOpts;
  namespace: Namespace;
  permissions: Permissions;
  /** Keys that it does not show. */
  secrets?: Secrets;
  record: RunWriter;
  maxSteps: Limit;
  /** What the process and all below it may use, and have used. */
  budget: TreeBudget;
  timeoutMs: Limit;
  checks: readonly string[];
  kernelId: string;
  /** Whoever embeds this kernel has a waker. */
  wakes?: boolean;
  version: string;
  clock: Clock;
  /** Of a run that is gone on with. */
  progress?: RunProgress;
}
