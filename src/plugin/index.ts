/**
 * `rnix/plugin`: the contract between the kernel and a driver. It imports nothing, so that it means the
 * same in source, in the compiled binary and inside a plugin's Worker. Only data and the handles declared
 * here cross it. `docs/plugins.md` explains it with examples; the conformance suite holds it.
 */

/** What crosses the contract. JSON and text travel as string; bytes only where they are bytes. */
export type Data = string | Uint8Array;

/** Where a document of the `store` service lives: beside the run, in the project's data, in the user's. */
export type Scope = "run" | "project" | "user";

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
/** The stable error codes. Programs decide by them and never by a message's text. */
export type Code = (typeof CODES)[number];

export interface SyscallErrorDetail {
  cause?: unknown;
  /** How long the other side asked us to wait before trying again. */
  retryAfterMs?: number;
  /** Unix time in ms at which a quota window ends. */
  resetAtMs?: number;
  /** True when the same request may succeed if it is simply made again. Absent: decided by the code. */
  retryable?: boolean;
  /** Of a model: the conversation is longer than it takes. A shorter one may succeed. */
  tooLong?: boolean;
  /** Filled in by the kernel: which syscall failed, for whom, on which device. */
  syscall?: string;
  pid?: number;
  device?: string;
}

/** The one error class (seeds 6.2). The message says what was expected, what came and what to do. */
export class SyscallError extends Error {
  override readonly name = "SyscallError";
  readonly code: Code;
  readonly retryAfterMs?: number;
  readonly resetAtMs?: number;
  readonly retryable?: boolean;
  readonly tooLong?: boolean;
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
 * One open file. Before a call reaches it the kernel has checked permission and, for a tool's device, the
 * input's schema. The kernel never has two calls in flight on one file, and gives up at the deadline even
 * if the driver does not react to the signal.
 */
export interface VFSFile {
  /** One operation: `{op, ...input}` as JSON for a tool, or plain bytes. Throws `SyscallError` only. */
  write(data: Data, signal: AbortSignal): Promise<void>;
  /** The next piece of the answer, at most `max` bytes (for strings: UTF-16 units). Empty is the end. */
  read(max: number, signal: AbortSignal): Promise<Data>;
  /** Called exactly once, also after an abort. Frees everything. Never throws. */
  close(): Promise<void>;
  stat(): Promise<FileStat>;
}

/** `subpath` is what follows the device's path, "" or beginning with "/". */
export type VFSFileFactory = (
  subpath: string,
  flags: OpenFlag,
  context: OpenContext,
) => VFSFile | Promise<VFSFile>;

/** A folder of records, trust, settings or keys. */
export interface GuardedFolder {
  dir: string;
  readable: boolean;
}

/** Who opened the file. Every service acts in that process's name: its rights, deadline and record. */
export interface OpenContext extends Partial<Services> {
  process: {
    pid: number;
    uuid: string;
    agent: string;
    depth: number;
    /** A person can be asked: a client with a terminal is attached. */
    attended: boolean;
    /** PID 0: a person's command, not an agent. */
    operator: boolean;
  };
  project: { id: string; dir: string; trusted: boolean };
  /** Absolute. A driver never looks at process.cwd() or process.env. */
  cwd: string;
  /** Further folders the run may touch (`--add`), absolute. */
  folders: readonly string[];
  /** Rnix's own folders, absolute: no driver writes there for a run, and none reads where it is not readable. */
  guarded: readonly GuardedFolder[];
  env: Readonly<Record<string, string>>;
  call?: { id: string; tool: string; deadlineMs: number };
  /** This plugin's part of config.yaml, checked against its configSchema. For a model device: the provider's entry. */
  config: unknown;
  progress(text: string): void;
  /** Tells the run that this file (absolute) was changed. */
  changed(file: string): void;
  log(level: "debug" | "info" | "warn", text: string): void;
  /**
   * Keeps data beside the run, each content once, in a file with the ending of this name; returns the absolute path.
   * EXHAUSTED when the run has kept too much.
   */
  spill(name: string, data: Data): Promise<string>;
  /**
   * Adds a text, at most 64 KiB, to the process's inbox: durable when it returns, told to the model once, at its next
   * step. EXHAUSTED when the inbox is full, CLOSED when the run is ending.
   */
  inbox(text: string): Promise<void>;
  /**
   * Decides by the process's present rules whether this call may have these files: for each path null, or why not.
   * A path is the real one (absolute, links resolved), read from the descriptor of what was opened: the kernel has
   * decided on the path as it was written, and a link in it may have changed since. `also`: tools whose deny patterns
   * count too, so that a search leaves out what Read may not read.
   */
  access(paths: readonly string[], also?: readonly string[]): Promise<(string | null)[]>;
}

/** What a driver may need of the system. A plugin names them in `needs`; the others are undefined. */
export interface Services {
  /** The only way to start a program. It dies with its owner, whatever it does. */
  exec(command: ExecRequest): Promise<Child>;
  store: Store;
  /** Model drivers only: the key of the provider entry that named them. UNAVAILABLE if there is none. */
  secret(): Promise<string>;
  /** Model drivers only, while they answer: for a program that is the model and calls tools by itself. */
  tools: ToolService;
  history: History;
}

/** The runs on disk, live ones and ended ones, of all projects the user has: what `rnix log` in the run's shell shows. */
export interface History {
  /**
   * Oldest first, at most `limit`. `uuid`: whose UUID begins so. `parent`: those that this run has spawned, by its
   * whole UUID. INVALID when neither is given.
   */
  runs(query: { uuid?: string; parent?: string; limit: number }): Promise<RunInfo[]>;
  /**
   * Records of finished steps beyond step `after`, in order, at most `max` (docs/plugins.md). One that can't be read
   * is left out: its number is missing. NOT_FOUND when there is no such run.
   */
  steps(uuid: string, after: number, max: number): Promise<object[]>;
}

/** A run by its record. */
export interface RunInfo {
  uuid: string;
  pid: number;
  parent_uuid: string | null;
  kind: "agent" | "supervisor" | "command";
  agent: string;
  intent: string;
  provider: string;
  model: string;
  /** Absolute, as the project's folder. */
  cwd: string;
  project: string;
  /** Unix ms; null as long as it lives. A suspended run has ended until it goes on. */
  ended_at_ms: number | null;
  exit_code: number | null;
  exit_reason: string | null;
}

/**
 * The process's own tools, as its loop calls them: its rights, its deadlines, its record. PERMISSION for a driver
 * that is not the process's model, CLOSED when its model is not being asked.
 */
export interface ToolService {
  /** What the model of this process may be shown, now. */
  list(): Promise<ToolDef[]>;
  /** What the model is to be told of the call. A call that fails is no exception, and says its `error` beside the text. */
  call(name: string, input: Record<string, unknown>): Promise<ToolOutcome>;
}

export interface ToolOutcome {
  text: string;
  error?: Code;
}

export interface ExecRequest {
  argv: string[];
  /** Absolute; the run's folder by default. */
  cwd?: string;
  /** Added to the run's environment. */
  env?: Record<string, string>;
  /** Bytes to send, then end; "pipe" to use Child.write; nothing for /dev/null. */
  stdin?: Data | "pipe";
  pty?: boolean;
  timeoutMs?: number;
  /** Bytes kept on disk of stdout and stderr together; beyond it the rest is counted and dropped. */
  maxOutput?: number;
  /** Who owns it: this call, the process, or a shared key that is kept until nobody used it for `idleMs`. */
  life: "call" | "process" | { shared: string; idleMs: number };
}

export interface ExitInfo {
  code: number | null;
  signal: string | null;
  timedOut: boolean;
  /** Absolute path of the whole output, when it was more than what is kept in memory. */
  outputFile?: string;
  /** Bytes that came, and of these the ones dropped because the cap was reached. */
  outputBytes: number;
  droppedBytes: number;
}

export interface Child {
  pid: number;
  /** A shared child that was running already. */
  reused: boolean;
  write(data: Data): Promise<void>;
  /** Ends its stdin. */
  end(): Promise<void>;
  /** The next piece of output; null when the child has exited and its output is drained. */
  read(): Promise<{ fd: 1 | 2; data: Uint8Array } | null>;
  exited(): Promise<ExitInfo>;
  /** TERM to the group, grace, KILL to the group, then whoever still holds the pipes or carries the cookie. */
  kill(): Promise<void>;
}

export interface Store {
  /** `doc` and `log` are names of letters, digits, ".", "_", "-" and "/" without "..". */
  read(scope: Scope, doc: string): Promise<{ text: string; version: string } | null>;
  /** Atomic. `ifVersion`: the version last read, null for "must not exist". INVALID when it has changed. */
  replace(scope: Scope, doc: string, text: string, ifVersion: string | null): Promise<string>;
  append(scope: Scope, log: string, line: object): Promise<void>;
  /** Lines after the first `after`, at most `max`. Torn or damaged lines are skipped and counted in the log. */
  lines(scope: Scope, log: string, after: number, max: number): Promise<object[]>;
}

export interface ToolAnnotations {
  readOnlyHint?: boolean;
  destructiveHint?: boolean;
  idempotentHint?: boolean;
  openWorldHint?: boolean;
}

export interface ToolDef {
  /** What the model sees: `Read`, `Bash`. */
  name: string;
  description: string;
  /** JSON Schema of the input. */
  input: object;
  /** Written to the device as `op`; default: the name. */
  op?: string;
  /** Name of the input field that is appended to the device's path at Open. */
  path?: string;
  /** Name of the input field that a pattern like `Bash(git *)` is matched against. */
  subject?: string;
  /**
   * `subject` is where a search begins, and the driver asks `access` for each file below it before it reads or names
   * it. Rules for those files then leave them out and do not refuse the call.
   */
  filters?: boolean;
  timeoutMs?: number;
  /** Characters of the result shown to the model; the rest is kept in a file. */
  maxResult?: number;
  /** May be shown by name only until it is searched for. This version shows every tool. */
  defer?: boolean;
  annotations?: ToolAnnotations;
}

export interface Device {
  factory: VFSFileFactory;
  /** "exact" by default. With "prefix" everything below the path is the device's too. */
  match?: "exact" | "prefix";
  tools?: ToolDef[];
  /** Makes the device a model provider. `detect` says whether this environment can use it, and its default model. */
  provider?: {
    detect(env: Record<string, string>): Promise<{ model: string } | null>;
    /** Its program works with tools of its own, which the process's rights do not bind: it takes the user's yes. */
    unconfined?: boolean;
  };
}

/** What `mount` opened: a table of devices that comes and goes and may change, such as an MCP server's tools. */
export interface Mounted {
  /**
   * By their place below the mount point: "" is the point itself, "/tools/search" lies below it. Their tools
   * are shown as `<type>__<name of the mount>__<tool>`, so that none takes the place of another.
   */
  devices: Record<string, Device>;
  /** Called once with whom to tell of a changed table: the whole new one. For a table that can change. */
  onChange?(tell: (devices: Record<string, Device>) => void): void;
  /**
   * Called once with whom to tell when it has ended by itself, and why. The kernel then opens it anew, at
   * growing intervals; until it is back, its devices answer UNAVAILABLE.
   */
  onEnd?(tell: (why: SyscallError) => void): void;
  /** Called exactly once, also after it has ended. Frees everything. Its programs are ended after it. */
  unmount(): Promise<void>;
}

/** Device tables of one type that can be mounted: at spawn, or for all processes of a project. */
export interface MountType {
  /** Letters and digits, the first a letter: they stand at `/mnt/<type>/…`. */
  type: string;
  /**
   * The context acts for no single process: others come to use what is opened, and it lives until the last of
   * them has let go. Programs have `life: "process"`: they are ended with the mount. Aborted: nobody waits any more.
   */
  open(config: object, context: OpenContext, signal: AbortSignal): Promise<Mounted>;
}

export interface Plugin {
  name: string;
  api?: 1;
  needs?: (keyof Services)[];
  /** JSON Schema of this plugin's part of config.yaml. */
  configSchema?: object;
  devices?: Record<string, Device>;
  mount?: MountType;
  dispose?(): Promise<void>;
}

/** Declares a plugin. Importing the module must open nothing and load nothing heavy. */
export function definePlugin<P extends Plugin>(plugin: P): P {
  return plugin;
}

// --- What is written to and read from a model device, /dev/llm/<provider> ------------------------------

export interface ToolCall {
  id: string;
  name: string;
  input: Record<string, unknown>;
  /** The model wrote arguments that are not a JSON object: the text, and why it could not be read. */
  invalid?: { text: string; reason: string };
  /**
   * What the driver wants to see again when the conversation goes on: what the model thought before this call, as its
   * provider signed it. Nobody else reads it.
   */
  opaque?: string;
}

export interface Message {
  role: "system" | "user" | "assistant" | "tool";
  content: string;
  /** On `tool`: which call this answers. */
  tool_call_id?: string;
  /** On `assistant`. */
  tool_calls?: ToolCall[];
  /** On `assistant`, where the model has paused: what its driver wants to see again. Nobody else reads it. */
  opaque?: string;
  /** On `user`: attached images, which are kept beside the run. A request carries the images themselves. */
  images?: ImageRef[];
}

export const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"] as const;
export type ImageType = (typeof IMAGE_TYPES)[number];

/** How the conversation names an image. */
export interface ImageRef {
  media_type: ImageType;
  /** Relative to the run's folder. */
  file: string;
  /** Of its content, in hex. */
  sha256: string;
  bytes: number;
  /** In pixels. */
  width: number;
  height: number;
}

/** An image as a model is sent it. */
export interface LLMImage {
  media_type: ImageType;
  /** Base64. */
  data: string;
}

/** A message as a model is sent it. */
export interface LLMMessage extends Omit<Message, "images"> {
  images?: LLMImage[];
}

export interface Usage {
  /** All input tokens, cached ones included. */
  input_tokens: number;
  output_tokens: number;
  cached_tokens: number;
  /** What it has cost, in USD, where the other side says so: it counts before any price that is configured. */
  cost_usd?: number;
}

export interface LLMTool {
  name: string;
  description: string;
  input: object;
}

export const EFFORTS = ["minimal", "low", "medium", "high", "max"] as const;
/** How much the model is to think before it answers. Absent: as the provider has it. */
export type Effort = (typeof EFFORTS)[number];

/** Written to the device as one JSON document (seeds 2.2, and tools, stream, max_output, effort, output_schema). */
export interface LLMRequest {
  intent: string;
  system_prompt: string;
  model: string;
  max_turns?: number;
  timeout_ms?: number;
  /**
   * How many answers the run has had before this one, those too that compaction has taken out of `messages`. null
   * where the answer is none of its steps, such as a summary.
   */
  turn?: number | null;
  messages: LLMMessage[];
  tools?: LLMTool[];
  max_output?: number;
  stream?: boolean;
  /** Only to a driver whose `stat` says `effort: true`. */
  effort?: Effort;
  /**
   * JSON Schema of the final answer. A driver whose provider can hold the model to it does so; the others leave it:
   * the prompt asks for it as well, and the kernel checks.
   */
  output_schema?: object;
}

/**
 * Why the model stopped. `end_turn` and `tool_calls` are the only regular ends. `paused`: the turn is not over, the
 * model is called again with this message as it is. `other`: for a reason that the driver does not know, named in
 * `stop_word`; what came is a partial answer, and no call in it is made. `unknown`: the stream ended without a word
 * on it, which is a cut answer.
 */
export type StopReason =
  | "end_turn"
  | "tool_calls"
  | "max_tokens"
  | "refusal"
  | "paused"
  | "other"
  | "unknown";

/** One rate limit of a provider, as the headers of its answer state it. What they do not say is absent. */
export interface RateLimit {
  /** So many in a window. */
  limit?: number;
  /** So many are left now. */
  remaining?: number;
  /** Ms from now until it is full again. */
  reset_ms?: number;
}

/** What a provider said of the limits of this key: of requests, and of tokens (input, where it tells them apart). */
export interface RateLimits {
  requests?: RateLimit;
  tokens?: RateLimit;
}

/** Read from the device when the request did not ask for a stream. */
export interface LLMAnswer {
  content: string;
  reasoning?: string;
  tool_calls: ToolCall[];
  stop_reason: StopReason;
  /** The provider's own word for it, where it is no regular end. */
  stop_word?: string;
  /** Where it has paused: see `Message`. */
  opaque?: string;
  usage: Usage;
  tokens_used: number;
  limits?: RateLimits;
}

/** One per read when the request asked for a stream; an empty read is the end. */
export type LLMEvent =
  | { type: "text_delta"; text: string }
  | { type: "reasoning_delta"; text: string }
  | { type: "tool_call"; call: ToolCall }
  /** Of a driver that uses the service `tools`: the model is asked anew, what it had called is answered. */
  | { type: "turn" }
  | { type: "usage"; usage: Usage }
  /** At most once an answer, before its first text: the pace of all who use this key follows it. */
  | { type: "limits"; limits: RateLimits }
  /** The last one. `word`, `opaque`: see `LLMAnswer`. */
  | { type: "stop"; reason: StopReason; word?: string; opaque?: string }
  | {
      type: "error";
      code: Code;
      message: string;
      retry_after_ms?: number;
      retryable?: boolean;
      too_long?: boolean;
    };
