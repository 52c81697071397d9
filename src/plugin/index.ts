/**
 * `rnix/plugin`: the contract between the kernel and a driver. It imports nothing, so it is the same in source, in the
 * compiled binary and inside a plugin's Worker. Only data and the handles declared here cross it. `docs/plugins.md`
 * explains it with examples; a conformance suite tests it.
 */

/** The data of reads and writes: a string for JSON and text, bytes for binary data. */
export type Data = string | Uint8Array;

/**
 * Where the `store` service keeps a document: beside the run, beside the root run of its tree, in the project's data, or in
 * the user's. A fork gets a copy of "run" and "tree".
 */
export type Scope = "run" | "tree" | "project" | "user";

export const CODES = [
  "NOT_FOUND",
  "INVALID",
  "PERMISSION",
  "TIMEOUT",
  "DRIVER",
  "INTERNAL",
  "CLOSED",
  "EXHAUSTED",
  "UNAVAILABLE",
  "CANCELLED",
] as const;
/** The stable error codes. Programs decide by the code, never by a message's text. */
export type Code = (typeof CODES)[number];

export interface SyscallErrorDetail {
  cause?: unknown;
  /** How long the other side asks to wait before a retry. */
  retryAfterMs?: number;
  /** Unix time in ms at which a quota window ends. */
  resetAtMs?: number;
  /** True when a retry of the same request may succeed. Absent: the code decides. */
  retryable?: boolean;
  /** The conversation is too long for the model. A shorter one may succeed. */
  tooLong?: boolean;
  /** What the call had produced until then: the model is shown it with the error, and it is in the record. */
  output?: string;
  /** Set by the kernel: the syscall that failed, its process and its device. */
  syscall?: string;
  pid?: number;
  device?: string;
}

/** The only error class (seeds 6.2). The message says what was expected, what came and what to do. */
export class SyscallError extends Error {
  override readonly name = "SyscallError";
  readonly code: Code;
  readonly retryAfterMs?: number;
  readonly resetAtMs?: number;
  readonly retryable?: boolean;
  readonly tooLong?: boolean;
  readonly output?: string;
  readonly syscall?: string;
  readonly pid?: number;
  readonly device?: string;

  constructor(code: Code, message: string, detail: SyscallErrorDetail = {}) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause });
    this.code = code;
    this.retryAfterMs = detail.retryAfterMs;
    this.resetAtMs = detail.resetAtMs;
    this.retryable = detail.retryable;
    this.tooLong = detail.tooLong;
    this.output = detail.output;
    this.syscall = detail.syscall;
    this.pid = detail.pid;
    this.device = detail.device;
  }
}

export const O_RDONLY = 0;
export const O_WRONLY = 1;
export const O_RDWR = 2;
export type OpenFlag = 0 | 1 | 2;

export interface FileStat {
  name: string;
  /** Bytes, 0 where a device has no size. */
  size: number;
  isDevice: boolean;
  devicePath: string;
  [more: string]: unknown;
}

/**
 * One open file. Before each call the kernel checks permission and, for a tool's device, the input's schema. It never
 * makes two calls on one file at the same time. It gives up at the deadline, even if the driver ignores the signal.
 */
export interface VFSFile {
  /** Starts one operation: `{op, ...input}` as JSON for a tool, or plain bytes. Throws only `SyscallError`. */
  write(data: Data, signal: AbortSignal): Promise<void>;
  /** Returns the next part of the answer, at most `max` bytes (UTF-16 units of a string). Empty is the end. */
  read(max: number, signal: AbortSignal): Promise<Data>;
  /** Called exactly once, also after an abort. Frees everything. Never throws. */
  close(): Promise<void>;
  stat(): Promise<FileStat>;
}

/** Opens a file of a device. `subpath`: the rest of the path after the device's, "" or beginning with "/". */
export type VFSFileFactory = (
  subpath: string,
  flags: OpenFlag,
  context: OpenContext,
) => VFSFile | Promise<VFSFile>;

/** A folder of Rnix itself: records, trust, settings or keys. */
export interface GuardedFolder {
  dir: string;
  readable: boolean;
}

/** The process that opened the file. Services act for that process, with its rights, deadline and record. */
export interface OpenContext extends Partial<Services> {
  process: {
    pid: number;
    uuid: string;
    /** UUID of the root run of its tree of agents; its own for a root. */
    tree: string;
    agent: string;
    depth: number;
    /** A client with a terminal is attached, so the user can be asked. */
    attended: boolean;
    /** PID 0: a command of the user, not an agent. */
    operator: boolean;
  };
  project: { id: string; dir: string; trusted: boolean };
  /** Absolute. A driver never looks at process.cwd() or process.env. */
  cwd: string;
  /** Further folders the run may touch (`--add`), absolute. */
  folders: readonly string[];
  /** Rnix's own folders, absolute. A driver must not write there, and must not read where `readable` is false. */
  guarded: readonly GuardedFolder[];
  env: Readonly<Record<string, string>>;
  /**
   * The tool call. `key` names this call among all calls of all runs. It is the same when the call is repeated after a
   * crash or a resume, so a service that remembers it can drop the second of two.
   */
  call?: { id: string; tool: string; deadlineMs: number; key: string };
  /** The plugin's settings from config.yaml, checked against its configSchema. For a model device: the provider's entry. */
  config: unknown;
  /** Shows the user a line about the call. */
  progress(text: string): void;
  /**
   * Shows output of the call while it runs. It is not part of the result. Attached clients get it coalesced; of much
   * output, the newest. `skipped`: how many lines before it the driver has left out.
   */
  output(text: string, skipped?: number): void;
  /**
   * Shows this list to the clients of the whole tree of the process, in place of the plugin's list before; [] removes it. It
   * is not recorded: store what must last. At most 200 items of 200 characters.
   */
  checklist(items: readonly ChecklistItem[]): void;
  /** Keeps this file (absolute) as it is, so that the user can take the change back. Call it before the change. */
  changing(file: string): Promise<void>;
  /** Reports that the driver changed this file (absolute). */
  changed(file: string): void;
  log(level: "debug" | "info" | "warn", text: string): void;
  /**
   * Stores data beside the run, each content once, in a file with this name's extension. Returns the absolute path.
   * Fails with EXHAUSTED when the run has stored too much.
   */
  spill(name: string, data: Data): Promise<string>;
  /**
   * Adds a text, at most 64 KiB, to the process's inbox. It is durable when this returns, and the model gets it once, at
   * its next step. Fails with EXHAUSTED when the inbox is full, and CLOSED when the run is ending.
   */
  inbox(text: string): Promise<void>;
  /**
   * Checks these files against the process's rules: for each path null, or why it is denied. Paths are real paths
   * (absolute, links resolved), read from the open descriptor. The kernel has already checked the path as written, but a
   * link in it may have changed since. `also`: tools whose deny patterns count too, so that a search leaves out what Read
   * may not read.
   */
  access(paths: readonly string[], also?: readonly string[]): Promise<(string | null)[]>;
}

/** A line of a list that a plugin shows while a run works. */
export interface ChecklistItem {
  text: string;
  state: "open" | "active" | "done" | "dropped";
  /** Who works on it, or what it waits for. */
  note?: string;
}

/** The services of the kernel. A plugin names those it uses in `needs`; the others are undefined. */
export interface Services {
  /** The only way to start a program. The program always ends with its owner. */
  exec(command: ExecRequest): Promise<Child>;
  store: Store;
  /**
   * With a name: the key of this name, one of the plugin's `secrets`. Without one, for model drivers: the key of the
   * provider's entry. Fails with UNAVAILABLE without a key.
   */
  secret(name?: string): Promise<string>;
  /** For model drivers while they answer, when their program calls tools by itself. */
  tools: ToolService;
  history: History;
  search: Search;
  /** The scheduled jobs of the process's project, with the process's rights. */
  schedule: Schedule;
  ask: Ask;
  llm: Llm;
}

/** Asks the process's own model: one request, within the run's budget and limits, and in its record. */
export interface Llm {
  /**
   * Fails with EXHAUSTED when the budget does not cover it, with DRIVER for an answer that breaks off or does not fit the
   * schema, and with UNAVAILABLE where there is no model: a command of the user, a mount, a part of the prompt.
   */
  ask(request: LlmRequest): Promise<LlmReply>;
}

export interface LlmRequest {
  prompt: string;
  system?: string;
  /** Maximum tokens of the answer. */
  max_output?: number;
  /** JSON Schema of the answer. `text` is then one JSON document that fits it. */
  output_schema?: object;
}

export interface LlmReply {
  text: string;
  usage: Usage;
}

/** Asks the user. Without a client that can answer, `--on-ask` decides: no answer, the defaults, or the run waits on disk. */
export interface Ask {
  /**
   * Resolves with one answer for each question, in order. A call asks one list of questions after the other. A run that
   * is suspended meanwhile makes the call again when it resumes, with the answers so far: ask before the call acts.
   */
  ask(questions: AskQuestion[]): Promise<AskReply>;
}

/** A question to the user, who may always answer in their own words. */
export interface AskQuestion {
  question: string;
  /** Some words for a small space. */
  header?: string;
  /** None: the answer is a text. */
  options?: { label: string; description?: string }[];
  /** Several options may be chosen. */
  multi_select?: boolean;
  /** What counts when no answer comes: labels of options; a text where there are none. */
  default?: string | string[];
}

export interface AskReply {
  /** `answer`: the chosen labels, then the user's own words. Empty: no answer. */
  answers: { question: string; answer: string[] }[];
  /** `default`, `denied`: the user could not be asked. `expiry`: no answer came in time, so the defaults count. */
  by: "user" | "default" | "expiry" | "denied";
  /** For the model: why answers are missing, and what to do then. */
  note?: string;
}

/** The recorded runs of all the user's projects, live and ended, as `rnix log` in the run's shell shows them. */
export interface History {
  /** Oldest first. Absent fields of the query take all runs. */
  runs(query: RunQuery): Promise<RunInfo[]>;
  /**
   * The records of finished steps after step `after`, in order, at most `max` (docs/plugins.md). An unreadable record is
   * left out, so its number is missing. Fails with NOT_FOUND for an unknown run.
   */
  steps(uuid: string, after: number, max: number): Promise<object[]>;
}

/** Which runs are wanted. A foreign run, which another user's Rnix recorded, is one of them. */
export interface RunQuery {
  /** The beginning of a UUID. */
  uuid?: string;
  /** The UUID of the parent. */
  parent?: string;
  /** A project's folder, absolute. */
  project?: string;
  agent?: string;
  /** The `exit_reason`, such as `completed` or `check_failed`. */
  verdict?: string;
  /** Of the spawn, in Unix ms: from `since_ms`, and before `until_ms`. */
  since_ms?: number;
  until_ms?: number;
  /** The UUID of the last run of the page before. */
  after?: string;
  /** At most 1,000. */
  limit: number;
}

/**
 * Full-text search of the plugin's documents and of recorded runs. It is a derived index: the plugin's files, and the
 * records of the runs, stay the truth. The index may be empty at any time, for example after a user has deleted it;
 * compare `sources` with the files and `put` what is missing before each search.
 */
export interface Search {
  /** The indexed sources of a collection of the plugin, with the version that `put` was given. Sorted by `source`. */
  sources(scope: SearchScope, collection: string): Promise<{ source: string; version: string }[]>;
  /**
   * Replaces all documents of one source, such as a file; `[]` removes it. `fields` are returned with a hit; the filter
   * `agent` compares the field `agent`. Fails with INVALID for a text of more than 65,536 characters.
   */
  put(
    scope: SearchScope,
    collection: string,
    source: string,
    version: string,
    documents: SearchDocument[],
  ): Promise<void>;
  /** Ranked, best first: see `SearchQuery`. */
  find(query: SearchQuery): Promise<SearchResult>;
}

/** The index beside the project's data, or beside the user's. */
export type SearchScope = "project" | "user";

export interface SearchDocument {
  /** Unique in its source. */
  id: string;
  text: string;
  time_ms?: number;
  fields?: Record<string, string>;
}

/**
 * Nothing in `text` is syntax. Best are the documents with all words (BM25; the last word may be the beginning of one),
 * then those with all words when one typo in each word of 5 letters or more is tolerated, then those with some of them.
 */
export interface SearchQuery {
  text: string;
  /** The plugin's own collections, of the project and of the user. Absent: no documents. */
  collections?: string[];
  /** Also the conversations of recorded runs of all the user's projects. */
  runs?: boolean;
  /** Only documents and runs of this project (its folder, absolute); documents of the user count, too. */
  project?: string;
  agent?: string;
  since_ms?: number;
  until_ms?: number;
  /** At most 1,000. */
  limit: number;
}

export interface SearchResult {
  hits: SearchHit[];
  /** How many runs are not yet indexed completely: a later search may find more. */
  pending: number;
}

export interface SearchHit {
  kind: "run" | "document";
  /** null for a run. */
  collection: string | null;
  /** For a document: where it is; null for a run. */
  scope: SearchScope | null;
  /** The document's source, or the run's UUID. */
  source: string;
  id: string;
  /** The part of the text with the words, on one line. */
  snippet: string;
  /** Higher is better. Comparable within one answer only. */
  score: number;
  time_ms: number | null;
  /** Of a document. */
  fields: Record<string, string>;
  run?: { uuid: string; pid: number; agent: string; project: string; step: number };
}

/** The summary of a recorded run. */
export interface RunInfo {
  uuid: string;
  pid: number;
  parent_uuid: string | null;
  kind: "agent" | "supervisor" | "command";
  agent: string;
  intent: string;
  provider: string;
  model: string;
  /** Absolute, as `project` is. */
  cwd: string;
  project: string;
  /** Unix ms, of the spawn. */
  created_at_ms: number;
  /** Unix ms; null for a live run. A suspended run counts as ended until it is resumed. */
  ended_at_ms: number | null;
  exit_code: number | null;
  exit_reason: string | null;
}

/**
 * Scheduled jobs. Names are unique in a project. Fails with NOT_FOUND for an unknown name, and with PERMISSION for a change
 * that the process may not make: inside a run, a job of the user or of another run.
 */
export interface Schedule {
  /**
   * Checks everything that a run of the job needs, then adds it. Fails with INVALID, naming every problem. `replace` edits
   * a job of this name; its history stays.
   */
  add(job: JobRequest): Promise<AddedJob>;
  list(query?: { all_projects?: boolean }): Promise<JobInfo[]>;
  remove(name: string): Promise<JobInfo>;
  /** Also resumes a paused, blocked or done job. Instants of the time in which it was not enabled are not made up for. */
  enable(name: string): Promise<JobInfo>;
  disable(name: string): Promise<JobInfo>;
  /** One extra instant, now. Fails with UNAVAILABLE where no daemon runs schedules. */
  run(name: string): Promise<LedgerRow>;
  /** The latest row of each attempt, newest last. */
  history(query: {
    name?: string;
    since_ms?: number;
    limit: number;
    all_projects?: boolean;
  }): Promise<LedgerRow[]>;
  /** The next instants of a job, or of an expression that no job has yet. */
  next(query: { name?: string; expression?: string; tz?: string; count: number }): Promise<NextInstants>;
}

export interface NextInstants {
  /** RFC 3339, UTC. */
  instants: string[];
  /** Questions that the expression leaves open, such as both day fields set. */
  warnings: string[];
}

export interface AddedJob {
  job: JobInfo;
  /** The next five instants. */
  next: string[];
  warnings: string[];
}

/** What makes an instant of a job. Times without an offset are in `tz`, by default the zone of this machine. */
export type JobTrigger =
  /** Five fields, six with seconds, or a name such as @daily. */
  | { cron: string; tz?: string }
  /** Counts from the job's creation. */
  | { every: string }
  /** Once: RFC 3339, or without an offset in `tz`. */
  | { at: string; tz?: string }
  /** Globs below the project's folder. `debounce`: how long the files must be unchanged, by default 2s. */
  | { on_change: string[]; debounce?: string }
  /** A name: lines of a FIFO and POST requests. */
  | { on_hook: string }
  /** The end of another job's run. `on`: which end, by default success. */
  | { after: string; on?: "success" | "failure" | "any" };

export interface JobDelivery {
  /** A shell command, an address, or the absolute path of a file, behind `>>` to append to it. */
  to: string;
  when: "always" | "on-change" | "on-failure";
}

/** A job as it is requested. Durations are texts such as `90s` or `1h30m`. */
export interface JobRequest {
  /** Letters, digits, ".", "_" and "-". */
  name: string;
  trigger: JobTrigger;
  intent: string;
  /**
   * A spawn request without its intent, in snake_case as on the wire: agent, provider, model, max_cost, checks, … Here `env`
   * has only the variables given for the job, and `env_names` names those to take from the user's environment.
   */
  run: Record<string, unknown>;
  /** What happens to an instant while the run of an earlier one is live. By default skip. */
  overlap?: "skip" | "queue" | "replace" | "allow";
  /** What happens to instants later than `grace`: by default one run for all of them. */
  misfire?: "none" | "one" | "all";
  /** By default 1m. */
  grace?: string;
  /** `max` further attempts, with growing waits between `from` and `to`. `safe`: also after calls that act. */
  retry?: { max: number; from: string; to: string; safe?: boolean };
  /** The time from the instant in which its run must have ended, with all attempts. */
  deadline?: string;
  /** Tokens per day of the job's zone. */
  budget_per_day?: number;
  /** USD per day. */
  max_cost_per_day?: number;
  /** A shell command that decides first: another exit code than 0 skips the instant. */
  if?: string;
  /** The run gets the command's output as input. */
  if_input?: boolean;
  /** A shell command or an address: notified of failures, of a pause and of a block. */
  on_failure?: string;
  /** Without a successful run for this long the job is silent. */
  expect_every?: string;
  on_silence?: string;
  /** Failures in a row after which the job is paused, by default 5; 0: never. */
  pause_after?: number;
  /** Each instant resumes one conversation instead of starting a new run. */
  continue?: boolean;
  deliver?: JobDelivery[];
  /** RFC 3339. Later instants are skipped. */
  expires_at?: string;
  replace?: boolean;
}

export interface JobInfo extends Omit<JobRequest, "replace"> {
  id: string;
  /** The project's folder. */
  project: string;
  creator: JobCreator;
  state: "enabled" | "disabled" | "paused" | "blocked" | "done";
  /** Why it is in this state; null for enabled. */
  reason: string | null;
  created_at: string;
  next_at: string | null;
  last: LedgerRow | null;
  /** Of a job with `on_hook`, for the user: where events are written or posted. */
  hook?: HookAddress;
}

export interface HookAddress {
  /** Absolute. Each line that is written to it is an event. */
  fifo: string;
  /** POST with `Authorization: Bearer <secret>`; null where no daemon serves it. */
  url: string | null;
  secret: string;
}

export type JobCreator = { kind: "user" } | { kind: "run"; uuid: string; agent: string };

/** One attempt of one instant of a job. */
export interface LedgerRow {
  v: 1;
  job: string;
  job_id: string;
  /** The instant: RFC 3339 with milliseconds, UTC. Unique in a job. */
  due: string;
  state: "due" | "running" | "ran" | "failed" | "parked" | "skipped" | "missed" | "blocked";
  reason: string | null;
  late_ms: number;
  uuid: string | null;
  started: string | null;
  ended: string | null;
  exit_code: number | null;
  exit_reason: string | null;
  /** Of this instant alone, with the children of its run. */
  tokens_used: number;
  cost_usd: number | null;
  /** From 1. */
  attempt: number;
  /** More than one instant, in a row of state missed: the last of them, and how many. */
  until?: string;
  count?: number;
  /** Asked for by `Schedule.run`. */
  extra?: true;
  /** It is accepted and waits for its turn, however late it gets. */
  queued?: true;
  /** For `continue`: what the conversation had used before this instant. */
  used_before?: { tokens_used: number; cost_usd: number | null };
  /** Of the job's budgets of the day, what the run may use; null: it has no such budget. */
  reserved?: { tokens: number | null; cost: number | null };
  /** A retry waits until then. */
  not_before?: string;
  /** What made an instant that no clock has: a hook's delivery id, changed files, another job's instant. */
  cause?: string;
  /** The file with the body of a hook's delivery, below the project's data folder. */
  body?: string;
  delivery?: DeliveryState[];
  /** The first 2,000 characters. */
  result?: string;
  /** A hash of the whole answer. */
  answer?: string;
}

export interface DeliveryState {
  to: string;
  state: "due" | "delivered" | "failed";
  tries: number;
  error: string | null;
}

/**
 * The process's own tools, with its rights, deadlines and record. Fails with PERMISSION for a driver that is not the
 * process's model, and with CLOSED outside a model call.
 */
export interface ToolService {
  /** The tools that the model of this process may use now. */
  list(): Promise<ToolDef[]>;
  /** Calls a tool and returns its text for the model. A failed call does not throw; it has an `error` code. */
  call(name: string, input: Record<string, unknown>): Promise<ToolOutcome>;
}

export interface ToolOutcome {
  text: string;
  error?: Code;
}

export interface ExecRequest {
  argv: string[];
  /** Absolute. By default the run's folder. */
  cwd?: string;
  /** Added to the run's environment. */
  env?: Record<string, string>;
  /** Data to send before the end; "pipe" to use Child.write; absent for /dev/null. */
  stdin?: Data | "pipe";
  pty?: boolean;
  timeoutMs?: number;
  /** The limit of bytes kept on disk, of stdout and stderr together. The rest is counted and dropped. */
  maxOutput?: number;
  /** The owner: this call, the process, or a shared key. A shared program ends after `idleMs` without use. */
  life: "call" | "process" | { shared: string; idleMs: number };
}

export interface ExitInfo {
  code: number | null;
  signal: string | null;
  timedOut: boolean;
  /** Absolute path of the whole output, if it was larger than the part kept in memory. */
  outputFile?: string;
  /** All bytes of output, and how many of them were dropped at the limit. */
  outputBytes: number;
  droppedBytes: number;
}

export interface Child {
  pid: number;
  /** A shared program that was already running. */
  reused: boolean;
  write(data: Data): Promise<void>;
  /** Ends its stdin. */
  end(): Promise<void>;
  /** The next output; null when the program has exited and all its output was read. */
  read(): Promise<{ fd: 1 | 2; data: Uint8Array } | null>;
  exited(): Promise<ExitInfo>;
  /** Sends TERM to the group, waits the grace, sends KILL to the group, then kills remaining descendants. */
  kill(): Promise<void>;
}

export interface Store {
  /** `doc` and `log` are names of letters, digits, ".", "_", "-" and "/" without "..". */
  read(scope: Scope, doc: string): Promise<{ text: string; version: string } | null>;
  /** Replaces the document atomically. `ifVersion`: the version last read, null for a new one. Fails with INVALID when it has changed. */
  replace(scope: Scope, doc: string, text: string, ifVersion: string | null): Promise<string>;
  append(scope: Scope, log: string, line: object): Promise<void>;
  /** The absolute path of a document or log, existing or not, to name it to the user. */
  path(scope: Scope, doc: string): Promise<string>;
  /** The lines after the first `after`, at most `max`. Damaged lines are skipped, and the daemon's log counts them. */
  lines(scope: Scope, log: string, after: number, max: number): Promise<object[]>;
}

export interface ToolAnnotations {
  readOnlyHint?: boolean;
  destructiveHint?: boolean;
  idempotentHint?: boolean;
  openWorldHint?: boolean;
}

export interface ToolDef {
  /** The name that the model sees: `Read`, `Bash`. */
  name: string;
  description: string;
  /** JSON Schema of the input. */
  input: object;
  /** The `op` that is written to the device. By default the name. */
  op?: string;
  /** The input field that is appended to the device's path at Open. */
  path?: string;
  /** The input field that a pattern like `Bash(git *)` is matched against. */
  subject?: string;
  /**
   * `subject` is the root of a search, and the driver calls `access` for each file below it before it reads or names the
   * file. Denied files are then left out instead of failing the call.
   */
  filters?: boolean;
  /** A `subject` below /proc is read from the kernel's /proc, with this tool's rules, and not from the device. */
  proc?: boolean;
  timeoutMs?: number;
  /** Characters of the result shown to the model; the rest is kept in a file. */
  maxResult?: number;
  /** The model first sees only the name, in the description of ToolSearch, which loads the tool before its use. */
  defer?: boolean;
  annotations?: ToolAnnotations;
}

export interface Device {
  factory: VFSFileFactory;
  /** "exact" by default. With "prefix" the device also serves all paths below its own. */
  match?: "exact" | "prefix";
  tools?: ToolDef[];
  /** Makes the device a model provider. */
  provider?: DriverFacts & {
    /** Returns the default model if the driver can be used in this environment, else null. */
    detect(env: Record<string, string>): Promise<{ model: string } | null>;
  };
}

/** Prices in USD per million tokens. */
export interface TokenPrice {
  input: number;
  /** Input that is read from the provider's cache. */
  cached: number;
  /** Input that is written to the provider's cache. Absent: as `input`. */
  cacheWrite?: number;
  output: number;
}

export interface ModelPrice extends TokenPrice {
  /** The prices of a request with more than `above` input tokens: they apply to all its tokens. */
  long?: TokenPrice & { above: number };
}

export interface DriverModel {
  /** Tokens of a request and its answer together. */
  contextWindow?: number;
  /** Tokens of the longest answer. */
  maxOutput?: number;
  price?: ModelPrice;
}

/** A model that a service offers, with what the service says of it. */
export interface ListedModel extends DriverModel {
  id: string;
}

/** What is written to a model device to ask for the service's models, if the driver `listsModels`. */
export interface ModelListRequest {
  op: "models";
}

/** The answer to it, as one JSON document. */
export interface ModelList {
  models: ListedModel[];
}

/** What Rnix knows of a model driver without calling it. An entry of providers.yaml changes it for one provider. */
export interface DriverFacts {
  /** The variables that hold its key. The first one that is set counts. No tool gets them, and their values are redacted. */
  keyEnvs?: readonly string[];
  /** A run without a key fails at its start. */
  needsKey?: boolean;
  /** The variable of its address, which is a URL. */
  baseUrlEnv?: string;
  /** The address if no other is set. Absent: the driver has its own. */
  baseUrl?: string;
  /** There is no default address: the user has to give one. */
  needsBaseUrl?: boolean;
  /** The origin of the service that it calls if no address is set. The known prices of this service count. */
  service?: string;
  /** Facts of the models at its default address, by the model's name. */
  models?: Readonly<Record<string, DriverModel>>;
  /** Its device answers a `ModelListRequest`, which costs nothing. */
  listsModels?: boolean;
  /** Maximum concurrent requests with one key. */
  concurrency?: number;
  /** It runs a program that must be on the PATH. The program has its own names for models, and its own context window. */
  isProgram?: boolean;
  /** Its program uses its own tools, outside the process's rights. The user has to allow it. */
  unconfined?: boolean;
  /** It plays a recording, which costs nothing. Children of its run use it too, and it has no fallback. */
  plays?: boolean;
}

/** An open mount: a table of devices that may change, such as an MCP server's tools. */
export interface Mounted {
  /**
   * The devices by their path below the mount point: "" is the point itself. Their tools are shown as
   * `<type>__<name of the mount>__<tool>`, so that names cannot collide.
   */
  devices: Record<string, Device>;
  /** Registers the listener for changes, once. The driver calls it with the whole new table. */
  onChange?(notify: (devices: Record<string, Device>) => void): void;
  /**
   * Registers the listener for an unexpected end, once. The kernel then opens the mount again, at growing intervals.
   * Meanwhile its devices fail with UNAVAILABLE.
   */
  onEnd?(notify: (why: SyscallError) => void): void;
  /** Frees everything. Called exactly once, also after an unexpected end. Its programs are ended afterwards. */
  unmount(): Promise<void>;
}

/** A type of device tables that can be mounted: at spawn, or for all processes of a project. */
export interface MountType {
  /** Letters and digits, the first a letter. Mounts of this type are at `/mnt/<type>/…`. */
  type: string;
  /**
   * Opens a mount. The context belongs to the mount, not to one process: processes share it, and it lives until the last
   * one releases it. Programs with `life: "process"` end with the mount. `signal` aborts when no process waits for it.
   */
  open(config: object, context: OpenContext, signal: AbortSignal): Promise<Mounted>;
}

/** A plugin's part of a prompt head. */
export interface PromptPart {
  /** One line, at most 100 characters. */
  title: string;
  /** At most 16,384 characters. */
  text: string;
}

/** A command of the command line for a plugin's device: `rnix NAME ACTION …`. Data only. */
export interface CommandSpec {
  /** Lowercase letters, digits and hyphens; no name of a built-in command. */
  name: string;
  /** One line, as all summaries. */
  summary: string;
  actions: Record<string, CommandAction>;
  /** The action of a command line that names none. */
  default?: string;
}

/** What one action calls, and how its result is printed. */
export interface CommandAction {
  summary: string;
  /** A command line. */
  example: string;
  args?: CommandArgument[];
  /** By their names on the command line. `json` and `no-daemon` exist for all. */
  flags?: Record<string, CommandFlag>;
  /**
   * A tool of the plugin, or a path of one of its devices. The input is `input` with each given argument and flag, under
   * its `field`; a path is written the same as JSON.
   */
  call: { tool: string } | { path: string };
  input?: Record<string, unknown>;
  /** Further input without --json, such as a field that asks the tool for text instead of JSON. */
  text_input?: Record<string, unknown>;
  /** "text", by default: the result as it is. --json prints the result as JSON. */
  output?: "text" | CommandTable;
}

export interface CommandArgument {
  name: string;
  summary: string;
  /**
   * "run": a PID, a UUID or the beginning of one, by default the project's last run. It is no input: the call is about this
   * run, so that `process.tree` and the scope "tree" of the store, for reading, are those of its tree.
   */
  type?: "string" | "number" | "run";
  required?: boolean;
  /** Takes all further arguments: true as a list, "text" joined by spaces. */
  rest?: boolean | "text";
  /** The input field. By default the name in lowercase, with "_" for "-". */
  field?: string;
}

export interface CommandFlag {
  /** A list is given by the flag several times. */
  type: "string" | "boolean" | "number" | "list";
  summary: string;
  values?: string[];
  /** The input field. By default the name, with "_" for "-". */
  field?: string;
}

/** A table of a result that is JSON. */
export interface CommandTable {
  /** The field that holds the rows. Absent: the result is the rows. */
  rows?: string;
  columns: CommandColumn[];
  /** The line that is printed when there is no row. */
  empty?: string;
}

export interface CommandColumn {
  title: string;
  /** A field of the row; "last.state" is a field of a field. */
  field: string;
  /** "time": ISO 8601 or Unix ms, printed as local time; "age": the same, printed as the time since then. */
  as?: "text" | "time" | "age" | "count" | "usd" | "tokens";
}

export interface Plugin {
  name: string;
  api?: 1;
  needs?: (keyof Services)[];
  /**
   * Names of the plugin's own keys, such as JIRA_TOKEN, for the service `secret`. Their values are in the caller's
   * environment or in `~/.config/rnix/env`. No tool gets them in its environment, and records have them redacted.
   */
  secrets?: string[];
  /** JSON Schema of the plugin's settings in config.yaml. */
  configSchema?: object;
  devices?: Record<string, Device>;
  mount?: MountType;
  /**
   * One part of the prompt's head, between AGENTS.md and the environment. Asked once at spawn, if the process may use one of
   * the plugin's tools. A resume keeps it, a fork asks again. null: nothing. A part that fails or takes more than 2 seconds
   * is left out with a notice. The context has no call, and `exec` fails: the process does not run yet.
   */
  prompt?(context: OpenContext, signal: AbortSignal): Promise<PromptPart | null>;
  commands?: CommandSpec[];
  dispose?(): Promise<void>;
}

/**
 * Declares a plugin. The import of its module must open nothing and be fast. `tools`: tools of `defineTool`, at
 * `/dev/<name of the plugin>`.
 */
export function definePlugin<P extends Plugin & { tools?: readonly Tool[] }>(plugin: P): Omit<P, "tools"> {
  const { tools, ...rest } = plugin;
  return tools === undefined ? rest : { ...rest, ...withTools(plugin, tools) };
}

// --- A tool without a device of its own -----------------------------------------------------------

/** The input of a tool: JSON Schema of an object. */
export interface InputSchema {
  type: "object";
  properties?: Readonly<Record<string, unknown>>;
  required?: readonly string[];
  readonly [keyword: string]: unknown;
}

/** The values that fit a JSON Schema; unknown where types can't tell. */
export type FromSchema<S> = S extends { enum: readonly (infer E)[] }
  ? E
  : S extends { type: "string" }
    ? string
    : S extends { type: "number" | "integer" }
      ? number
      : S extends { type: "boolean" }
        ? boolean
        : S extends { type: "array" }
          ? (S extends { items: infer I } ? FromSchema<I> : unknown)[]
          : S extends { type: "object"; properties: infer P }
            ? FieldsOf<P, S extends { required: readonly (infer R)[] } ? R : never>
            : S extends { type: "object" }
              ? Record<string, unknown>
              : unknown;

type FieldsOf<P, R> = { -readonly [K in keyof P as K extends R ? K : never]: FromSchema<P[K]> } & {
  -readonly [K in keyof P as K extends R ? never : K]?: FromSchema<P[K]>;
};

/** What a tool's `run` gets: the context of the call, the services of `needs`, and a signal that ends the work. */
export type ToolContext<N extends keyof Services = never> = OpenContext &
  Pick<Services, N> & { signal: AbortSignal };

/** A text, or its parts. */
export type ToolResult = string | AsyncIterable<string>;

/** A tool and the function that answers its calls. */
export interface ToolSpec<S extends InputSchema, N extends keyof Services>
  extends Omit<ToolDef, "input" | "op" | "path"> {
  /** JSON Schema. The kernel checks the input of each call before `run` gets it. */
  input: S;
  needs?: readonly N[];
  /** Names of the plugin's own keys: see `Plugin`. */
  secrets?: readonly string[];
  /** JSON Schema of the plugin's settings in config.yaml. They are in `context.config`. */
  configSchema?: object;
  /** Returns the result, whole or in parts. Throws a SyscallError to fail the call. */
  run(input: FromSchema<S>, context: ToolContext<N>): ToolResult | Promise<ToolResult>;
}

/** The result of `defineTool`: a plugin by itself as the default export, or one of the `tools` of a plugin. */
export interface Tool {
  readonly tool: ToolDef;
  readonly plugin: Pick<Plugin, "needs" | "secrets" | "configSchema">;
  readonly run: (input: object, context: ToolContext) => unknown;
}

/** Declares a tool by one function. As the default export it is a whole plugin, with the name of its file. */
export function defineTool<const S extends InputSchema, const N extends keyof Services = never>(
  spec: ToolSpec<S, N>,
): Tool {
  const { needs, secrets, configSchema, run, ...tool } = spec;
  if (typeof run !== "function") {
    throw new SyscallError("INVALID", "defineTool: expected a function run(input, context).");
  }
  // The request to the device names its tool by this field.
  if (Object.hasOwn(tool.input.properties ?? {}, "op")) {
    throw new SyscallError("INVALID", 'defineTool: the input can have no field "op". Choose another name.');
  }
  return {
    tool,
    plugin: {
      ...(needs && { needs: [...needs] }),
      ...(secrets && { secrets: [...secrets] }),
      ...(configSchema && { configSchema }),
    },
    // The kernel has checked the input against the schema, and the services are those of `needs`.
    run: (input, context) => Reflect.apply(run, spec, [input, context]),
  };
}

/** The parts of a plugin that come with its tools: one device for all of them. */
function withTools(
  { name, needs = [], secrets = [], configSchema, devices }: Plugin,
  tools: readonly Tool[],
): Partial<Plugin> {
  const path = `/dev/${name}`;
  const schemas = tools.flatMap(({ plugin }) => plugin.configSchema ?? []);
  return {
    needs: [...new Set([...needs, ...tools.flatMap(({ plugin }) => plugin.needs ?? [])])],
    secrets: [...new Set([...secrets, ...tools.flatMap(({ plugin }) => plugin.secrets ?? [])])],
    configSchema: configSchema ?? schemas[0],
    devices: {
      ...devices,
      [path]: {
        tools: tools.map(({ tool }) => tool),
        factory: (_subpath, _flags, context) => new ToolFile(path, tools, context),
      },
    },
  };
}

/** One call of a tool: the write runs it, the reads return its result. */
class ToolFile implements VFSFile {
  readonly #path: string;
  readonly #tools: readonly Tool[];
  readonly #context: OpenContext;
  readonly #end = new AbortController();
  #parts: AsyncIterator<unknown> | undefined;
  #text = "";

  constructor(path: string, tools: readonly Tool[], context: OpenContext) {
    this.#path = path;
    this.#tools = tools;
    this.#context = context;
  }

  async write(data: Data, signal: AbortSignal): Promise<void> {
    const { tool, input } = this.#called(typeof data === "string" ? data : new TextDecoder().decode(data));
    const context = { ...this.#context, signal: this.#end.signal };
    const result = await this.#until(signal, async () => tool.run(input, context));
    if (isAsyncIterable(result)) this.#parts = result[Symbol.asyncIterator]();
    else this.#text = textOf(tool, result);
  }

  async read(max: number, signal: AbortSignal): Promise<string> {
    while (this.#text === "" && this.#parts) {
      const parts = this.#parts;
      const next = await this.#until(signal, () => parts.next());
      if (next.done) this.#parts = undefined;
      else this.#text = textOf(this.#tools[0], next.value);
    }
    const part = this.#text.slice(0, max);
    this.#text = this.#text.slice(part.length);
    return part;
  }

  /** Ends a result that was not read to its end. Its errors are logged, because the call is over. */
  async close(): Promise<void> {
    this.#end.abort(new SyscallError("CLOSED", "The call is over."));
    try {
      await this.#parts?.return?.();
    } catch (thrown) {
      this.#context.log("warn", `after the call: ${String(thrown)}`);
    }
  }

  async stat(): Promise<FileStat> {
    return { name: this.#path.slice("/dev/".length), size: 0, isDevice: true, devicePath: this.#path };
  }

  /** The tool by the request's `op`. A tool that is alone needs none. */
  #called(text: string): { tool: Tool; input: object } {
    const { op, ...input } = requestOf(text);
    const [first, ...others] = this.#tools;
    const tool = this.#tools.find(({ tool: { name } }) => name === op);
    const called = tool ?? (others.length === 0 && op === undefined ? first : undefined);
    if (called) return { tool: called, input };
    const names = this.#tools.map(({ tool: { name } }) => name).join(", ");
    throw new SyscallError("INVALID", `${this.#path}: expected {"op": "…", …} with one of ${names} as op.`);
  }

  /** Runs a part of the call. Its signal ends the whole call. */
  async #until<T>(signal: AbortSignal, run: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const end = () => this.#end.abort(signal.reason);
    signal.addEventListener("abort", end, { once: true });
    try {
      return await run();
    } finally {
      signal.removeEventListener("abort", end);
    }
  }
}

function requestOf(text: string): { op?: unknown } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new SyscallError("INVALID", `Expected a JSON object, got ${text.slice(0, 100)}`, { cause });
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  throw new SyscallError("INVALID", `Expected a JSON object, got ${text.slice(0, 100)}`);
}

function textOf(tool: Tool | undefined, value: unknown): string {
  if (typeof value === "string") return value;
  throw new SyscallError(
    "DRIVER",
    `run() of ${tool?.tool.name} returned ${value === null ? "null" : typeof value}. Expected a text, or an async iterable of texts; for data, JSON.stringify(…).`,
  );
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

// --- The requests and answers of a model device, /dev/llm/<provider> ------------------------------

export interface ToolCall {
  id: string;
  name: string;
  input: Record<string, unknown>;
  /** Set when the model's arguments are not a JSON object: their text, and the reason. */
  invalid?: { text: string; reason: string };
  /**
   * Data that the driver gets back with the conversation, such as the provider's signature of the model's reasoning. Only
   * the driver reads it.
   */
  opaque?: string;
}

export interface Message {
  role: "system" | "user" | "assistant" | "tool";
  content: string;
  /** On `tool`: the call that this answers. */
  tool_call_id?: string;
  /** On `assistant`. */
  tool_calls?: ToolCall[];
  /** On `assistant`, when the model has paused: data that only the driver reads. */
  opaque?: string;
  /** On `user`: attached images, stored beside the run. A request contains the images themselves. */
  images?: ImageRef[];
}

export const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"] as const;
export type ImageType = (typeof IMAGE_TYPES)[number];

/** The reference of a conversation to an image. */
export interface ImageRef {
  media_type: ImageType;
  /** Relative to the run's folder. */
  file: string;
  /** The hash of the content, in hex. */
  sha256: string;
  bytes: number;
  /** In pixels. */
  width: number;
  height: number;
}

/** An image in a request. */
export interface LLMImage {
  media_type: ImageType;
  /** Base64. */
  data: string;
}

/** A message in a request. */
export interface LLMMessage extends Omit<Message, "images"> {
  images?: LLMImage[];
}

export interface Usage {
  /** All input tokens, cached ones included. */
  input_tokens: number;
  output_tokens: number;
  cached_tokens: number;
  /** Of the input tokens, those that were written to the provider's cache, if the provider reports them. */
  cache_write_tokens?: number;
  /** The cost in USD, if the provider reports it. It counts before any configured price. */
  cost_usd?: number;
}

export interface LLMTool {
  name: string;
  description: string;
  input: object;
}

export const EFFORTS = ["minimal", "low", "medium", "high", "max"] as const;
/** How much the model should reason before it answers. Absent: the provider's default. */
export type Effort = (typeof EFFORTS)[number];

/** Written to the device as one JSON document (seeds 2.2, and tools, stream, max_output, effort, output_schema). */
export interface LLMRequest {
  intent: string;
  system_prompt: string;
  model: string;
  max_turns?: number;
  timeout_ms?: number;
  /**
   * The number of earlier answers in the run, including those that compaction has removed from `messages`. null when the
   * answer is not a step, such as a summary.
   */
  turn?: number | null;
  messages: LLMMessage[];
  tools?: LLMTool[];
  max_output?: number;
  stream?: boolean;
  /** Only to a driver whose `stat` says `effort: true`. */
  effort?: Effort;
  /**
   * JSON Schema of the final answer. A driver enforces it if its provider can. The prompt asks for it too, and the kernel
   * checks the answer.
   */
  output_schema?: object;
}

/**
 * Why the model stopped. `end_turn` and `tool_calls` are the only regular reasons. `paused`: the turn is not over, and
 * the model is called again with this message unchanged. `other`: a reason that the driver does not know, named in
 * `stop_word`; the answer is partial, and its calls are not run. `unknown`: the stream ended without a reason, so the
 * answer is truncated.
 */
export type StopReason =
  | "end_turn"
  | "tool_calls"
  | "max_tokens"
  | "refusal"
  | "paused"
  | "other"
  | "unknown";

/** One rate limit of a provider, from the headers of its answer. Unknown values are absent. */
export interface RateLimit {
  /** The maximum per window. */
  limit?: number;
  /** How many are left now. */
  remaining?: number;
  /** Ms from now until it is full again. */
  reset_ms?: number;
}

/** The rate limits that a provider reports for this key: of requests, and of tokens (input tokens if separate). */
export interface RateLimits {
  requests?: RateLimit;
  tokens?: RateLimit;
}

/** The answer to a request without `stream`. */
export interface LLMAnswer {
  content: string;
  reasoning?: string;
  tool_calls: ToolCall[];
  stop_reason: StopReason;
  /** The provider's own name of the reason, if it is not a regular one. */
  stop_word?: string;
  /** Set when the model has paused: see `Message`. */
  opaque?: string;
  usage: Usage;
  tokens_used: number;
  limits?: RateLimits;
}

/** The answer to a request with `stream`: one event per read. An empty read is the end. */
export type LLMEvent =
  | { type: "text_delta"; text: string }
  | { type: "reasoning_delta"; text: string }
  | { type: "tool_call"; call: ToolCall }
  /** From a driver that uses the service `tools`: its calls are answered, and a new model request begins. */
  | { type: "turn" }
  | { type: "usage"; usage: Usage }
  /** At most once per answer, before its first text. The kernel adapts the request rate of this key to it. */
  | { type: "limits"; limits: RateLimits }
  /** The last event. `word`, `opaque`: see `LLMAnswer`. */
  | { type: "stop"; reason: StopReason; word?: string; opaque?: string }
  | {
      type: "error";
      code: Code;
      message: string;
      retry_after_ms?: number;
      retryable?: boolean;
      too_long?: boolean;
    };
