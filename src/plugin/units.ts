/** The service `units`: background units, which run beside an agent. Names and meanings: seed `daemon`. */

/** The variants of a unit. The last four are reserved: starting one fails with UNAVAILABLE. */
export const DAEMON_KINDS = [
  "local_bash",
  "local_agent",
  "monitor",
  "lsp",
  "remote_agent",
  "in_process_teammate",
  "local_workflow",
  "dream",
] as const;
export type DaemonKind = (typeof DAEMON_KINDS)[number];

/** `completed`, `failed` and `killed` are terminal: a unit never leaves them. */
export type DaemonStatus = "pending" | "running" | "completed" | "failed" | "killed";

export interface LocalBashMeta {
  command: string;
  /** null while it runs, when a signal ended it, and when it is unknown. */
  exit_code: number | null;
  /** The end of stdout and stderr, at most 64 KiB. */
  output: string;
}

export interface LocalAgentMeta {
  agent_type: string;
  prompt: string;
  async: boolean;
  /** What the agent does now; beside the status. */
  phase: string;
  /** Its final answer. */
  summary: string;
  err: string;
  /** Its process. */
  uuid: string;
}

export interface MonitorMeta {
  command: string;
  /** Lines so far. */
  event_count: number;
  persistent: boolean;
  /** The newest lines. */
  recent_lines: readonly string[];
}

export interface LSPMeta {
  server_name: string;
  command: string;
  /** "starting", "running", "error". */
  state: string;
  exit_code: number | null;
  restart_count: number;
  max_restarts: number;
}

/** Of the reserved kinds. */
export interface ReservedMeta {
  name: string;
  phase: string;
  summary: string;
}

/** Of a workflow, a teammate or a dream, whose run is a child of the unit's owner. */
export interface LocalWorkflowMeta extends ReservedMeta {
  err: string;
  uuid: string;
}

/** The payload of each kind. */
export interface DaemonMetadata {
  local_bash: LocalBashMeta;
  local_agent: LocalAgentMeta;
  monitor: MonitorMeta;
  lsp: LSPMeta;
  remote_agent: ReservedMeta;
  in_process_teammate: LocalWorkflowMeta;
  local_workflow: LocalWorkflowMeta;
  dream: LocalWorkflowMeta;
}

/** The state of one unit at one time. Times are RFC 3339. */
export type DaemonSnapshot = {
  [K in DaemonKind]: {
    id: string;
    kind: K;
    status: DaemonStatus;
    description: string;
    /** UUID of the process that owns it. */
    agent_id: string;
    started_at: string;
    /** null until it is terminal. */
    ended_at: string | null;
    metadata: DaemonMetadata[K];
  };
}[DaemonKind];

/** A background unit. It emits its own signals. */
export interface Daemon {
  snapshot(): DaemonSnapshot;
  /** Asks it to end; its lifecycle signal follows when it has ended. */
  kill(): Promise<void>;
  /** Text for a reader, by kind. */
  output(): string | Promise<string>;
}

/** What a driver asks the kernel to start: a command whose output goes to a file. */
export interface UnitRequest {
  kind: "local_bash" | "monitor";
  /** As the model wrote it. */
  command: string;
  argv: string[];
  description: string;
  /** Absolute. By default the run's folder. */
  cwd?: string;
  /** Added to the run's environment. */
  env?: Record<string, string>;
  /** Of a monitor: it lives as long as its owner. */
  persistent?: boolean;
  /** It is killed after this time. Absent: it lives as long as its owner. */
  timeoutMs?: number;
  /** Of a monitor: a silence of this length is one event. */
  stallMs?: number;
}

/** A unit that a driver runs itself. */
export interface RegisterRequest {
  kind: "lsp";
  description: string;
  metadata: LSPMeta;
}

export interface UnitUpdate {
  metadata?: LSPMeta;
  /** Is appended: the newest 64 KiB stay. */
  output?: string;
  event?: string;
  status?: "completed" | "failed" | "killed";
}

/** A program of a call, which becomes a unit. */
export interface MoveRequest extends Pick<UnitRequest, "command" | "description"> {
  pid: number;
}

/** The units of the process that opened the device. */
export interface Units {
  /** Fails with EXHAUSTED at the limit of live units, UNAVAILABLE for a reserved kind or where no units can run. */
  start(request: UnitRequest): Promise<DaemonSnapshot>;
  /** Its program outlives its call, without a time limit. Fails like `start`, and with NOT_FOUND if it has exited. */
  move(request: MoveRequest): Promise<DaemonSnapshot>;
  /** The agent does not wait for such a unit: it ends with the run. Fails like `start`. */
  register(request: RegisterRequest): Promise<DaemonSnapshot>;
  /** Does nothing for a unit that has ended. */
  update(id: string, change: UnitUpdate): Promise<void>;
  /** Resolves when it is to end, or has ended. Its driver calls `update` with the status within the run's grace. */
  killed(id: string): Promise<void>;
  /** Sorted by start. Terminal ones follow with `terminal`. */
  list(filter?: { kind?: DaemonKind; terminal?: boolean }): Promise<DaemonSnapshot[]>;
  /** The state before the kill. Fails with NOT_FOUND for an unknown unit, CLOSED for a terminal one. */
  stop(id: string): Promise<DaemonSnapshot>;
  /** Also of a unit that has ended. Fails with NOT_FOUND. */
  output(id: string): Promise<{ snapshot: DaemonSnapshot; text: string }>;
}
