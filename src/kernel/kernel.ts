import { ContextManager } from "../context/manager.ts";
import { assembleHead } from "../context/prompt.ts";
import type { Children } from "../os/children.ts";
import { O_RDWR, SyscallError } from "../plugin/index.ts";
import type { RunStore } from "../store/runs.ts";
import { DeviceRegistry } from "../vfs/registry.ts";
import { Changes } from "./changes.ts";
import { Channel } from "./channel.ts";
import { runChecks } from "./checks.ts";
import type { Clock } from "./clock.ts";
import { Debugger, namedError } from "./debugger.ts";
import { kernelTools } from "./devices/kernel-tools.ts";
import { procDevice } from "./devices/proc.ts";
import { FileSystem } from "./file-system.ts";
import { ModelGate } from "./llm/gate.ts";
import { OpenContexts } from "./open-context.ts";
import { Permissions } from "./permission/permissions.ts";
import { Process, type ProcessTool } from "./process.ts";
import { ProcessTable } from "./process-table.ts";
import { type ReapPorts, reapProcess } from "./reap.ts";
import { type LoopPorts, reason } from "./reasoning-loop.ts";
import type {
  AgentInfo,
  ExitStatus,
  KernelCallbacks,
  Limit,
  PID,
  ProcessDetail,
  ProcessEvent,
  ProcInfo,
  Signal,
  SpawnOpts,
  SyscallEvent,
} from "./types.ts";
import { SIGINT, SIGKILL, SIGPAUSE, SIGRESUME, SIGTERM } from "./types.ts";
import { killed, type Outcome, verdict } from "./verdict.ts";

/** What the kernel needs of the outside world, given at boot. */
export interface KernelPorts {
  version: string;
  /** Names the lock this kernel holds for its life. */
  kernelId: string;
  platform: string;
  userDataDir: string;
  clock: Clock;
  random(): number;
  uuid(): string;
  pids: { next(): PID };
  children: Children;
  /** The records of one data folder; the same object for the same folder. */
  runs(dataDir: string): RunStore;
  callbacks?: KernelCallbacks;
  log?(level: "debug" | "info" | "warn", source: string, text: string): void;
}

/** What an agent is that nobody named: no instructions, every tool. */
const GENERIC: AgentInfo = {
  name: "none",
  description: "",
  instructions: "",
  skills: [],
  deferredSkills: [],
  allowedTools: ["*"],
  checks: [],
  source: "kernel",
};

/** The kernel: the process table, and the syscalls as small parts put together here. */
export class Kernel {
  readonly contexts = new ContextManager();
  readonly debug = new Debugger();
  readonly files: FileSystem;

  readonly #ports: KernelPorts;
  readonly #table = new ProcessTable();
  readonly #devices = new DeviceRegistry();
  readonly #openContexts: OpenContexts;
  readonly #changes: Changes;
  readonly #gate: ModelGate;
  readonly #loop: LoopPorts;
  readonly #reap: ReapPorts;
  readonly #tasks = new WeakMap<Process, Promise<void>>();
  #closing = false;

  constructor(ports: KernelPorts) {
    this.#ports = ports;
    this.#openContexts = new OpenContexts({
      children: ports.children,
      userDataDir: ports.userDataDir,
      log: (level, source, text) => ports.log?.(level, source, text),
      progress: (proc, tool, text) => this.#emit(proc, { type: "notice", text: `${tool}: ${text}` }),
    });
    this.files = new FileSystem({ debug: this.debug, contexts: this.#openContexts, clock: ports.clock });
    this.#changes = new Changes(this.#openContexts);
    this.#gate = new ModelGate({ clock: ports.clock, random: ports.random });
    this.#loop = this.#loopPorts();
    this.#reap = {
      table: this.#table,
      contexts: this.contexts,
      children: ports.children,
      task: (proc) => this.#tasks.get(proc) ?? Promise.resolve(),
    };
    this.#registerDevices();
  }

  /** Live processes. */
  get active(): number {
    return this.#table.size;
  }

  /**
   * Creates a process and starts its reasoning (seeds 1.2). The device lease becomes the kernel's: it is
   * released at the reap, or here when the spawn fails. Nothing of a failed spawn is left behind.
   */
  async spawn(intent: string, agent: AgentInfo | null, opts: SpawnOpts): Promise<PID> {
    const undo: (() => void)[] = [() => opts.devices.release()];
    try {
      const proc = await this.#create(intent, agent ?? GENERIC, opts, undo);
      await this.#openModel(proc, undo);
      this.#start(proc);
      return proc.pid;
    } catch (thrown) {
      for (const step of undo.reverse()) step();
      throw namedError(thrown, "Spawn", 0);
    }
  }

  /** Sends a signal. A process that has ended already takes none, and that is no error (seeds 1.2). */
  kill(pid: PID, signal: Signal): void {
    this.#deliver(this.#table.get(pid), signal);
  }

  /** Sends a signal to a process and all below it; returns how many it reached. */
  signalTree(pid: PID, signal: Signal): number {
    const tree = this.#table.tree(this.#table.get(pid)).filter((proc) => proc.state === "running");
    for (const proc of tree) this.#deliver(proc, signal);
    return tree.length;
  }

  /** Ends a run so that it can be gone on with later: exit 75. Resolves when its record is on disk. */
  async suspend(pid: PID): Promise<ExitStatus> {
    const proc = this.#table.get(pid);
    proc.stop({ code: 75, reason: "suspended" });
    return await proc.done;
  }

  /** Waits for the end, then for the reap, which whoever comes first does (seeds 1.2). */
  async wait(pid: PID): Promise<ExitStatus> {
    const proc = this.#table.get(pid);
    const exit = await proc.done;
    await reapProcess(this.#reap, proc);
    return exit;
  }

  listProcs(): ProcInfo[] {
    return this.#table.all().map((proc) => proc.info());
  }

  procInfo(pid: PID): ProcInfo {
    return this.#table.get(pid).info();
  }

  /** The live process with this UUID, or with the only one that begins so. */
  findPid(uuidOrPrefix: string): PID | undefined {
    return this.#table.findByUuid(uuidOrPrefix)?.pid;
  }

  detail(pid: PID): ProcessDetail {
    const proc = this.#table.get(pid);
    const info = proc.info();
    return {
      info,
      fds: proc.fds.list().map(({ fd, path }) => ({ fd, path })),
      env: info.env,
      permissions: info.permissions,
      context: {
        messages: this.contexts.messageCount(proc.spec.ctxId),
        estimated_tokens: proc.usage.input_tokens,
      },
      checks: info.checks,
    };
  }

  /** Everything a process tells from now on; where it stands is told first. Ends with `complete`. */
  attach(pid: PID): Channel<ProcessEvent> {
    const proc = this.#table.get(pid);
    const channel: Channel<ProcessEvent> = new Channel(256, () => proc.watchers.delete(channel));
    channel.push({ type: "spawn", info: proc.info() });
    if (proc.step > 0) channel.push({ type: "step", step: proc.step, total: proc.spec.maxSteps });
    if (proc.exit) channel.end({ type: "complete", info: proc.info() });
    else proc.watchers.add(channel);
    return channel;
  }

  /** AttachDebug: live syscall events until the process is reaped. */
  attachDebug(pid: PID): Channel<SyscallEvent> {
    return this.debug.attach(this.#table.get(pid));
  }

  /**
   * Ends all processes, suspended so that they can be gone on with, or killed with `now`; takes no new
   * ones. Resolves when the last is reaped. The owner of the ports closes them afterwards.
   */
  async shutdown({ now = false }: { now?: boolean } = {}): Promise<void> {
    this.#closing = true;
    const live = this.#table.all();
    for (const proc of live)
      proc.stop(now ? killed(SIGKILL, proc.paused) : { code: 75, reason: "suspended" });
    await Promise.all(live.map((proc) => proc.done.then(() => reapProcess(this.#reap, proc))));
  }

  #registerDevices(): void {
    const stand = { plugin: "kernel", layer: "kernel", needs: [] } as const;
    const tools = kernelTools((uuid) => this.#table.getByUuid(uuid));
    for (const [path, device] of Object.entries(tools)) this.#devices.register({ ...stand, path, device });
    const proc = procDevice({
      info: (pid) => this.#table.find(pid)?.info(),
      contextSummary: (pid) => this.contexts.summary(this.#table.get(pid).spec.ctxId),
    });
    this.#devices.register({ ...stand, path: "/proc", device: proc });
  }

  #loopPorts(): LoopPorts {
    const { clock, callbacks } = this.#ports;
    return {
      clock,
      contexts: this.contexts,
      files: this.files,
      debug: this.debug,
      gate: this.#gate,
      tools: {
        files: this.files,
        clock,
        endCall: (uuid, callId) => this.#ports.children.endCall(uuid, callId),
        beforeEffect: (proc) => this.#changes.begin(proc),
        onStart: (proc, call, path) =>
          this.#logTool(proc, `${call.name} ${path} ${JSON.stringify(call.input)}`),
        onEnd: (proc, record) => this.#logResult(proc, record.error ?? record.result ?? ""),
      },
      onStep: (proc) => {
        callbacks?.onStep(proc.pid, proc.step, proc.spec.maxSteps);
        this.#emit(proc, { type: "step", step: proc.step, total: proc.spec.maxSteps });
      },
      emit: (proc, event) => this.#emit(proc, event),
    };
  }

  // --- spawn -------------------------------------------------------------------------------------------

  /** The one constructor: no process comes to be without its project, environment, rights and limits. */
  async #create(intent: string, agent: AgentInfo, opts: SpawnOpts, undo: (() => void)[]): Promise<Process> {
    if (this.#closing)
      throw new SyscallError("UNAVAILABLE", "The kernel is shutting down and takes no new processes.");
    const parent = this.#parentOf(opts);
    const namespace = opts.devices.namespace.over(this.#devices);
    const named = namespace.tools();
    const known = {
      tools: named.map(({ tool, entry }) => ({
        name: tool.name,
        subject: tool.subject ?? tool.path,
        path: entry.path,
      })),
      devices: namespace.entries().map((entry) => entry.path),
    };
    const allow = [...agent.allowedTools, ...(opts.allow ?? [])];
    const deny = opts.deny ?? [];
    const permissions = parent
      ? parent.permissions.child(allow, deny)
      : Permissions.of({ allow, deny, projectDir: opts.project.dir, cwd: opts.cwd, ...known });
    const tools = new Map<string, ProcessTool>();
    for (const { tool, entry } of named) {
      if (!permissions.showsTool(tool.name)) continue;
      if (tool.name === "Skill" && agent.deferredSkills.length === 0) continue;
      tools.set(tool.name, { tool, entry });
    }
    const head = await this.#head(agent, opts);
    const ctxId = this.contexts.ctxAlloc(Number.POSITIVE_INFINITY);
    undo.push(() => this.contexts.ctxFree(ctxId));
    this.contexts.setSystemPrompt(ctxId, head);

    const uuid = this.#ports.uuid();
    const record = this.#ports.runs(opts.project.dataDir).create(uuid);
    undo.push(() => record.discard());
    const proc = new Process({
      pid: this.#ports.pids.next(),
      uuid,
      ppid: parent?.pid ?? 0,
      parentUuid: parent?.uuid ?? null,
      depth: parent ? parent.spec.depth + 1 : 0,
      intent,
      agent,
      opts,
      namespace,
      tools,
      permissions,
      ctxId,
      record,
      maxSteps: within(
        firstLimit(opts.maxSteps, agent.maxSteps, opts.limits.maxSteps),
        parent?.spec.maxSteps,
      ),
      contextBudget: within(
        firstLimit(opts.contextBudget, agent.contextBudget, opts.limits.contextBudget),
        parent ? left(parent.spec.contextBudget, parent.tokensUsed) : null,
      ),
      timeoutMs: within(
        firstLimit(opts.timeoutMs, agent.timeoutMs, opts.limits.timeoutMs),
        parent ? left(parent.spec.timeoutMs, parent.elapsedMs) : null,
      ),
      checks: [...agent.checks, ...(opts.checks ?? [])],
      kernelId: this.#ports.kernelId,
      version: this.#ports.version,
      clock: this.#ports.clock,
    });
    this.#begin(proc, head);
    this.#table.add(proc);
    parent?.children.push(proc.pid);
    undo.push(() => {
      this.#table.remove(proc);
      parent?.children.splice(parent.children.indexOf(proc.pid), 1);
    });
    return proc;
  }

  #parentOf(opts: SpawnOpts): Process | undefined {
    if (!opts.parentPid) return undefined;
    const parent = this.#table.find(opts.parentPid);
    if (parent?.state !== "running") {
      throw new SyscallError(
        "NOT_FOUND",
        `The parent process ${opts.parentPid} does not exist or has ended.`,
      );
    }
    const { spawnDepth, liveChildren } = parent.spec.opts.limits;
    if (parent.spec.depth + 1 > spawnDepth) {
      throw new SyscallError(
        "EXHAUSTED",
        `Process ${parent.pid} stands at the spawn depth of ${spawnDepth} and may spawn no deeper.`,
      );
    }
    if (parent.children.filter((pid) => this.#table.find(pid)?.state === "running").length >= liveChildren) {
      throw new SyscallError(
        "EXHAUSTED",
        `Process ${parent.pid} has ${liveChildren} live children and may have no more at once.`,
      );
    }
    return parent;
  }

  async #head(agent: AgentInfo, opts: SpawnOpts): Promise<string> {
    const skills = await Promise.all(
      agent.skills.map(async (skill) => ({ name: skill.name, dir: skill.dir, body: await skill.body() })),
    );
    return assembleHead({
      instructions: agent.instructions,
      skills,
      deferredSkills: agent.deferredSkills,
      systemPrompt: opts.systemPrompt,
      projectDoc: opts.projectDoc,
      environment: {
        project: opts.project.dir,
        cwd: opts.cwd,
        date: new Date(this.#ports.clock.now()).toISOString().slice(0, 10),
        platform: this.#ports.platform,
      },
    });
  }

  /** The first words of the conversation, and the record's first files. */
  #begin(proc: Process, head: string): void {
    const { intent, opts, ctxId } = proc.spec;
    const content = opts.input === undefined ? intent : `${intent}\n\n<input>\n${opts.input}\n</input>`;
    this.contexts.appendMessage(ctxId, { role: "user", content });
    proc.unrecorded.push({ role: "user", content });
    proc.record.meta({
      v: 1,
      system_prompt: head,
      tools: [...proc.spec.tools.values()].map(({ tool }) => ({
        name: tool.name,
        description: tool.description,
        input: { ...tool.input },
      })),
    });
    proc.record.info(proc.info());
  }

  async #openModel(proc: Process, undo: (() => void)[]): Promise<void> {
    undo.push(() => void this.files.closeAll(proc));
    proc.llmFd = await this.files.open(proc, proc.provider.device, O_RDWR, { kind: "kernel" });
  }

  #start(proc: Process): void {
    const { intent } = proc.spec;
    proc.start();
    proc.record.info(proc.info());
    this.#ports.callbacks?.onSpawn(proc.pid, intent, proc.provider.name, proc.provider.model);
    this.#tasks.set(proc, this.#run(proc));
  }

  // --- life and end ------------------------------------------------------------------------------------

  /** The reasoning task: thinks, finishes, and is followed by the automatic reap. It never rejects. */
  async #run(proc: Process): Promise<void> {
    const outcome = await reason(this.#loop, proc).catch(
      (defect): Outcome => broken(namedError(defect, "ReasonStep", proc.pid)),
    );
    await this.#finish(proc, outcome).catch((defect) =>
      this.#ports.log?.("warn", `PID ${proc.pid}`, `finish: ${String(defect)}`),
    );
    // Not awaited: the reap waits for this very task.
    void reapProcess(this.#reap, proc).catch((defect) =>
      this.#ports.log?.("warn", `PID ${proc.pid}`, `reap: ${String(defect)}`),
    );
  }

  /** What belongs to the process ends first, then the verdict is written, then the world is told. */
  async #finish(proc: Process, ran: Outcome): Promise<void> {
    await this.#endChildren(proc);
    const outcome = await this.#conclude(proc, ran).catch((thrown) =>
      broken(namedError(thrown, "Check", proc.pid)),
    );
    await this.#ports.children.endOwner(proc.uuid);
    await this.files
      .closeAll(proc)
      .catch((thrown) => this.#ports.log?.("warn", `PID ${proc.pid}`, `close: ${String(thrown)}`));
    const exit = verdict(outcome, proc.checks, proc.childResults);
    const written = await this.#terminate(proc, exit);
    this.#tellParent(proc, written);
    if (written.error) this.#ports.callbacks?.onError(proc.pid, written.error);
    this.#ports.callbacks?.onComplete(proc.pid, proc.result ?? "", written);
    const complete: ProcessEvent = { type: "complete", info: proc.info() };
    for (const watcher of [...proc.watchers]) watcher.end(complete);
    proc.settle();
  }

  /** Checks and the list of changed files, while the process may still start programs. */
  async #conclude(proc: Process, ran: Outcome): Promise<Outcome> {
    if (ran.kind === "finished") proc.checks = await runChecks(this.#openContexts, proc);
    await this.#changes.end(proc);
    return ran.kind === "finished" && proc.stopped ? { kind: "stopped", status: proc.stopped } : ran;
  }

  /** Running → Zombie with its record durable; a record that can't be written is itself the verdict. */
  async #terminate(proc: Process, exit: ExitStatus): Promise<ExitStatus> {
    proc.terminate(exit);
    try {
      proc.record.info(proc.info());
      await proc.record.close();
      return exit;
    } catch (thrown) {
      const error = namedError(thrown, "Record", proc.pid);
      this.#ports.log?.("warn", `PID ${proc.pid}`, `the end could not be recorded: ${error.message}`);
      return exit;
    }
  }

  /** A process that ends first ends its children: TERM, and KILL for those that do not go in time. */
  async #endChildren(proc: Process): Promise<void> {
    const live = proc.children.map((pid) => this.#table.find(pid)).filter((child) => child !== undefined);
    for (const child of live) this.#deliver(child, SIGTERM);
    await Promise.all(live.map((child) => child.done));
  }

  #tellParent(proc: Process, exit: ExitStatus): void {
    const parent = this.#table.find(proc.ppid);
    if (!parent) return;
    parent.childTokens += proc.tokensUsed;
    parent.childResults.push({
      uuid: proc.uuid,
      pid: proc.pid,
      agent: proc.spec.agent.name,
      exit_code: exit.code,
      exit_reason: exit.reason,
      tokens_used: proc.tokensUsed,
    });
  }

  #deliver(proc: Process, signal: Signal): void {
    switch (signal) {
      case SIGTERM:
      case SIGINT:
      case SIGKILL:
        proc.stop(killed(signal, proc.paused));
        return;
      case SIGPAUSE:
        proc.pause();
        break;
      case SIGRESUME:
        proc.resume();
        break;
      default:
        throw new SyscallError(
          "INVALID",
          `Signal ${String(signal)} does not exist. Expected 1 (TERM), 2 (KILL), 3 (INT), 4 (PAUSE) or 5 (RESUME).`,
        );
    }
    if (proc.state === "running") proc.record.info(proc.info());
  }

  // --- telling -----------------------------------------------------------------------------------------

  #emit(proc: Process, event: ProcessEvent): void {
    for (const watcher of proc.watchers) watcher.push(event);
  }

  #logTool(proc: Process, text: string): void {
    this.#log(proc, "tool", text);
  }

  #logResult(proc: Process, text: string): void {
    this.#log(proc, "result", text);
  }

  #log(proc: Process, kind: "tool" | "result", text: string): void {
    if (proc.watchers.size === 0) return;
    const ts = new Date(this.#ports.clock.now()).toISOString();
    this.#emit(proc, { type: "log", entry: { ts, step: proc.step, kind, text: text.slice(0, LOGGED) } });
  }
}

/** Of a call or a result so much is shown in the log; the record has the whole. */
const LOGGED = 2000;

function broken(error: SyscallError): Outcome {
  return { kind: "broken", reason: "failed", error };
}

/** The first limit somebody spoke of; null is a word too: no limit. */
function firstLimit(...limits: (Limit | undefined)[]): Limit {
  return limits.find((limit) => limit !== undefined) ?? null;
}

/** No child's limit is wider than what its parent has. */
function within(limit: Limit, bound: Limit | undefined): Limit {
  if (bound === null || bound === undefined) return limit;
  return limit === null ? bound : Math.min(limit, bound);
}

function left(limit: Limit, used: number): Limit {
  return limit === null ? null : Math.max(0, limit - used);
}
