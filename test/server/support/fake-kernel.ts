import { daemonNotFound } from "../../../src/daemons/daemon-state.ts";
import type { Resumed, ResumeOptions } from "../../../src/kernel/agents/run-resumer.ts";
import type { Rights } from "../../../src/kernel/capability-manager.ts";
import type { Interrupted, OutgoingMessage } from "../../../src/kernel/chat/chat-control.ts";
import { entriesOf } from "../../../src/kernel/events/log-entry.ts";
import { joinEvents } from "../../../src/kernel/events/process-events.ts";
import type { ShutdownOptions } from "../../../src/kernel/lifecycle-manager.ts";
import type { GateStatus } from "../../../src/kernel/llm/model-gate.ts";
import type {
  AgentInfo,
  AppliedCompaction,
  ExitReason,
  ExitStatus,
  PID,
  ProcessDetail,
  ProcInfo,
  SpawnOpts,
  SyscallEvent,
  Wake,
} from "../../../src/kernel/types.ts";
import type { AskMode } from "../../../src/lib/ask-modes.ts";
import { Channel } from "../../../src/lib/channel.ts";
import type { Signal } from "../../../src/lib/signals.ts";
import { SIGPAUSE, SIGRESUME } from "../../../src/lib/signals.ts";
import { SyscallError } from "../../../src/plugin/index.ts";
import type { LiveEvent, UserMessage } from "../../../src/run/live-event.ts";
import type { KernelApi } from "../../../src/server/services.ts";
import type { RunStore, RunWriter } from "../../../src/store/runs/run-store.ts";
import type { JournalEntry, StepRecord } from "../../../src/store/runs/schema.ts";
import { procInfo } from "../../support/samples.ts";

interface FakeProcess {
  info: ProcInfo;
  record: RunWriter;
  watchers: Set<Channel<LiveEvent>>;
  tracers: Set<Channel<SyscallEvent>>;
  done: PromiseWithResolvers<ExitStatus>;
  ending?: Promise<void>;
}

/**
 * A kernel whose processes are scripted by a test. An intent of "echo WORDS" is one step that answers the
 * words and ends by itself; every other process runs until it is signalled or `finish`ed.
 */
export class FakeKernel implements KernelApi {
  readonly #runs: RunStore;
  readonly #table = new Map<PID, FakeProcess>();
  #nextPid = 1;
  shutdowns: ShutdownOptions[] = [];
  callsUnderWay = 0;
  readonly processes = this;
  readonly signals = this;
  readonly lifecycle = this;
  readonly capabilities = this;
  readonly calls = this;
  readonly asks = {
    list: () => [],
    answer: () => null,
  };
  readonly compactions = this;
  readonly chats = this;
  /** What was sent to processes, by PID; a message's number is its position. */
  readonly sent = new Map<PID, OutgoingMessage[]>();
  readonly changes = { refresh: async () => undefined, isQuiet: () => true, undone: async () => undefined };
  /** Its processes have no background units. */
  readonly units: KernelApi["units"] = {
    ownerOf: (id) => {
      throw daemonNotFound(id);
    },
    stop: async (id) => Promise.reject(daemonNotFound(id)),
    output: async (id) => Promise.reject(daemonNotFound(id)),
    list: () => [],
    moveCalls: () => 0,
    isParked: () => false,
  };
  /** Processes that shutdown does not end, as if they were stuck. */
  readonly stuck = new Set<PID>();

  constructor(runs: RunStore) {
    this.#runs = runs;
  }

  get count(): number {
    return this.#table.size;
  }

  async call(): Promise<never> {
    throw new SyscallError("UNAVAILABLE", "The fake kernel has no devices.");
  }

  callBy(): Promise<never> {
    return this.call();
  }

  modelQueues(): GateStatus[] {
    return [];
  }

  async spawn(intent: string, agent: AgentInfo | null, opts: SpawnOpts): Promise<PID> {
    const pid = this.#nextPid++;
    const uuid = `00000000-0000-7000-8000-${String(pid).padStart(12, "0")}`;
    const info: ProcInfo = {
      ...structuredClone(BLANK),
      pid,
      uuid,
      intent,
      agent: agent?.name ?? "none",
      project: opts.project.dir,
      cwd: opts.cwd,
      max_steps: opts.max_steps ?? 10,
      notices: [...(opts.notices ?? [])],
    };
    const record = this.#runs.create(uuid);
    record.info(info);
    const proc: FakeProcess = {
      info,
      record,
      watchers: new Set(),
      tracers: new Set(),
      done: Promise.withResolvers(),
    };
    this.#table.set(pid, proc);
    if (intent.startsWith("echo ")) void this.#echo(pid, intent.slice(5));
    return pid;
  }

  kill(pid: PID, signal: Signal): void {
    const proc = this.#get(pid);
    if (signal === SIGPAUSE || signal === SIGRESUME) {
      const paused = signal === SIGPAUSE;
      proc.info = { ...proc.info, is_paused: paused, paused_at_ms: paused ? 1 : 0 };
      return;
    }
    const ends: Record<number, ExitStatus> = {
      1: { code: 143, reason: "terminated" },
      2: { code: 137, reason: "killed" },
      3: { code: 130, reason: "interrupted" },
    };
    void this.finish(pid, ends[signal] ?? { code: 1, reason: "failed" });
  }

  signalTree(pid: PID, signal: Signal): number {
    this.kill(pid, signal);
    return 1;
  }

  async suspend(pid: PID): Promise<ExitStatus> {
    const exit: ExitStatus = { code: 75, reason: "suspended" };
    await this.finish(pid, exit);
    return exit;
  }

  async send(pid: PID, message: OutgoingMessage): Promise<{ seq: number; suspended: boolean }> {
    const sent = [...(this.sent.get(pid) ?? []), message];
    this.sent.set(pid, sent);
    return { seq: sent.length, suspended: false };
  }

  async takeBack(pid: PID, seq: number): Promise<UserMessage> {
    const message = this.sent.get(pid)?.[seq - 1];
    if (!message) throw new SyscallError("NOT_FOUND", `No message ${seq}.`);
    return { seq, text: message.text, when: message.when };
  }

  async setModel(): Promise<never> {
    throw new SyscallError("UNAVAILABLE", "The fake kernel has no models.");
  }

  inherited(): never {
    throw new SyscallError("UNAVAILABLE", "The fake kernel has no models.");
  }

  requireEffects(): void {}

  async interrupt(): Promise<Interrupted> {
    return { interrupted: "tools", text_seen: false, put_back: [] };
  }

  async end(pid: PID): Promise<{ ended: boolean }> {
    await this.finish(pid, { code: 0, reason: "completed" });
    return { ended: true };
  }

  async answer(): Promise<void> {
    throw new SyscallError("NOT_FOUND", "The fake kernel has no questions.");
  }

  async compact(): Promise<AppliedCompaction> {
    return { tokensBefore: 9000, tokensAfter: 3000, by: "model" };
  }

  async setWake(uuid: string, _dataDir: string, reason: string, wake: Wake = { on: "never" }): Promise<void> {
    const info = await this.#runs.info(uuid);
    if (info) (await this.#runs.reopen(uuid)).info({ ...info, suspended: { reason, cause: "asked", wake } });
  }

  async endSuspended({ uuid }: ProcInfo, _dataDir: string, signal: Signal): Promise<number> {
    const info = await this.#runs.info(uuid);
    if (!info) return 0;
    const ended = { state: "dead", exit_code: 143, exit_reason: `by ${signal}`, suspended: null } as const;
    (await this.#runs.reopen(uuid)).info({ ...info, ...ended });
    return 1;
  }

  /** The same process with a new PID and the new message; a fork is another process without its steps. */
  async resume(
    uuid: string,
    _agent: AgentInfo | null,
    opts: SpawnOpts,
    o: ResumeOptions = {},
  ): Promise<Resumed> {
    const before = await this.#runs.info(uuid);
    if (!before) throw new SyscallError("NOT_FOUND", `There is no run ${uuid}.`);
    const pid = this.#nextPid++;
    const own = o.fork ? { uuid: Bun.randomUUIDv7(), origin_uuid: uuid } : { uuid };
    const earlier_pids = o.fork ? [] : [...before.earlier_pids, before.pid];
    const info: ProcInfo = {
      ...before,
      ...RUNNING,
      ...own,
      pid,
      earlier_pids,
      intent: o.input ?? before.intent,
      notices: [...(opts.notices ?? [])],
    };
    const record = await (o.fork ? this.#runs.create(info.uuid) : this.#runs.reopen(uuid));
    record.info(info);
    const watchers: FakeProcess["watchers"] = new Set();
    this.#table.set(pid, { info, record, watchers, tracers: new Set(), done: Promise.withResolvers() });
    if (o.input?.startsWith("echo ")) void this.#echo(pid, o.input.slice(5), info.steps + 1);
    return { pid, uuid: info.uuid, step: o.fork?.step ?? info.steps };
  }

  async grant(pid: PID, rules: readonly string[]): Promise<Rights> {
    const { info } = this.#get(pid);
    info.allowed_tools = [...new Set([...info.allowed_tools, ...rules])];
    info.permissions.deny = info.permissions.deny.filter((rule) => !rules.includes(rule));
    return { allowed: info.allowed_tools, denied: info.permissions.deny };
  }

  allowUnasked(pid: PID, rules: readonly string[]): void {
    this.#get(pid).info.permissions.always = [...rules];
  }

  async setMode(pid: PID, mode: AskMode): Promise<AskMode> {
    this.#get(pid).info.permissions.ask_mode = mode;
    return mode;
  }

  async revoke(pid: PID, rules: readonly string[]): Promise<Rights> {
    const { info } = this.#get(pid);
    info.allowed_tools = info.allowed_tools.filter((tool) => !rules.includes(tool));
    info.permissions.deny = [...info.permissions.deny, ...rules];
    return { allowed: info.allowed_tools, denied: info.permissions.deny };
  }

  listProcs(): ProcInfo[] {
    return this.infos();
  }

  infos(): ProcInfo[] {
    return [...this.#table.values()].map(({ info }) => info);
  }

  info(pid: PID): ProcInfo {
    return this.#get(pid).info;
  }

  identity(pid: PID): ProcInfo {
    return this.info(pid);
  }

  detail(pid: PID): ProcessDetail {
    const { info } = this.#get(pid);
    return {
      info,
      fds: [{ fd: 3, path: "/dev/llm/fake" }],
      mounts: [],
      env: info.env,
      permissions: info.permissions,
      context: { messages: 1 },
    };
  }

  doing(): null {
    return null;
  }

  flushEvents(): void {}

  attach(pid: PID): Channel<LiveEvent> {
    const proc = this.#get(pid);
    const channel: Channel<LiveEvent> = new Channel(256, () => proc.watchers.delete(channel), {
      join: joinEvents,
    });
    channel.push({ event: "spawn", info: proc.info });
    for (const text of proc.info.notices) channel.push({ event: "notice", text });
    proc.watchers.add(channel);
    return channel;
  }

  attachDebug(pid: PID): Channel<SyscallEvent> {
    const proc = this.#get(pid);
    const channel: Channel<SyscallEvent> = new Channel(256, () => proc.tracers.delete(channel));
    proc.tracers.add(channel);
    return channel;
  }

  async shutdown(o: ShutdownOptions = {}): Promise<void> {
    this.shutdowns.push(o);
    const exit: ExitStatus = o.now ? { code: 137, reason: "killed" } : { code: 75, reason: "suspended" };
    const procs = [...this.#table.entries()];
    for (const [pid] of procs) if (o.now || !this.stuck.has(pid)) await this.finish(pid, exit);
    await Promise.all(procs.map(([, { done }]) => done.promise));
  }

  // --- what a test does to a process -------------------------------------------------------------------

  emit(pid: PID, event: LiveEvent): void {
    for (const watcher of this.#get(pid).watchers) watcher.push(event);
  }

  syscall(pid: PID, event: SyscallEvent): void {
    const proc = this.#get(pid);
    proc.record.event(event);
    for (const tracer of proc.tracers) tracer.push(event);
  }

  step(pid: PID, step: StepRecord): void {
    const proc = this.#get(pid);
    proc.info = { ...proc.info, steps: step.step, tool_calls: proc.info.tool_calls + step.tool_calls.length };
    proc.record.step(step);
  }

  journal(pid: PID, entry: JournalEntry): void {
    this.#get(pid).record.journal(entry);
  }

  /** From now on, what is recorded of its steps is emitted. */
  publish(pid: PID): void {
    const { record } = this.#get(pid);
    record.watch((events) => {
      for (const entry of events.filter(({ t }) => t !== "read").flatMap(entriesOf))
        this.emit(pid, { event: "log", entry });
    });
  }

  watchers(pid: PID): number {
    return this.#table.get(pid)?.watchers.size ?? 0;
  }

  /** Ended, and not reaped yet. */
  zombie(pid: PID): void {
    const proc = this.#get(pid);
    proc.info = { ...proc.info, ...ENDED, state: "zombie", exit_code: 0, exit_reason: "completed" };
  }

  /** Ends it and takes it out of the table; what is left is on disk. */
  async finish(pid: PID, exit: { code: number; reason: ExitReason; result?: string }): Promise<void> {
    const proc = this.#table.get(pid);
    if (!proc) return;
    proc.ending ??= this.#end(pid, proc, exit);
    await proc.ending;
  }

  async #end(
    pid: PID,
    proc: FakeProcess,
    exit: { code: number; reason: ExitReason; result?: string },
  ): Promise<void> {
    proc.info = {
      ...proc.info,
      state: exit.reason === "suspended" ? "suspended" : "dead",
      exit_code: exit.code,
      exit_reason: exit.reason,
      result: exit.result ?? null,
      ...ENDED,
    };
    proc.record.info(proc.info);
    await proc.record.close();
    this.#table.delete(pid);
    for (const watcher of [...proc.watchers]) watcher.end({ event: "complete", info: proc.info });
    for (const tracer of [...proc.tracers]) tracer.end();
    proc.done.resolve(exit);
  }

  async #echo(pid: PID, words: string, step = 1): Promise<void> {
    // A turn of the loop, as a model would take: the spawning client is attached by then.
    await new Promise<void>((resolve) => setImmediate(resolve));
    this.emit(pid, {
      event: "step",
      step,
      total: 10,
      tokens_used: 0,
      cost_usd: null,
      context_tokens: null,
      context_window: null,
    });
    this.emit(pid, { event: "text_delta", step, text: words });
    this.syscall(pid, { timestamp_ms: 1, pid, syscall: "Read", args: { fd: 3 }, duration_ms: 2 });
    this.step(pid, stepRecord(step, words));
    await this.finish(pid, { code: 0, reason: "completed", result: words });
  }

  #get(pid: PID): FakeProcess {
    const proc = this.#table.get(pid);
    if (!proc) throw new SyscallError("NOT_FOUND", `There is no live process ${pid}.`);
    return proc;
  }
}

/** A finished step with the given answer, after one call of Read. */
export function stepRecord(step: number, words: string): StepRecord {
  return {
    v: 1,
    step,
    ts: "2026-01-01T00:00:00.000Z",
    messages: [{ role: "assistant", content: words }],
    raw_response: words,
    action: "tool_call",
    summary: `said ${words}`,
    tool_calls: [
      {
        id: `call-${step}`,
        name: "Read",
        path: "/dev/fs",
        input: { path: "a.txt" },
        result: "contents",
        error: null,
        error_code: null,
        started_at: "2026-01-01T00:00:01.000Z",
        duration_ms: 5,
        state: "done",
      },
    ],
    usage: { input_tokens: 10, output_tokens: 2, cached_tokens: 0 },
    tokens_used: 12,
  };
}

const BLANK = procInfo({
  provider: "fake",
  max_steps: 10,
  tokens_used: 12,
  usage: { input_tokens: 10, output_tokens: 2, cached_tokens: 0 },
  timeout_ms: null,
  allowed_devices: ["*"],
  versions: { rnix: "0.0.0" },
  kernel: "fake-kernel",
});

const RUNNING = { state: "running", ended_at_ms: null, exit_code: null, exit_reason: null } as const;

/** A second after it began. */
const ENDED = { ended_at_ms: BLANK.created_at_ms + 1000, elapsed_ms: 1000 };
