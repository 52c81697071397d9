import { isAbsolute, join } from "node:path";
import { type Child, type ExecRequest, SyscallError } from "../plugin/index.ts";
import { leaders } from "./adopted-processes.ts";
import { wouldNotGo } from "./end-processes.ts";
import { killMarked } from "./kill-marked.ts";
import { Ledger } from "./ledger.ts";
import { readCommand } from "./linux-table.ts";
import { Orphans } from "./orphans.ts";
import { Output, outputName, type Redactor } from "./output.ts";
import { ownerOfProcess, type ProcessOwner } from "./process-owner.ts";
import { COOKIE, type ProcessTable } from "./process-table.ts";
import { type ProcessTag, tagOf, withTag } from "./process-tag.ts";
import { RunningChild } from "./running-child.ts";
import { SharedChildren } from "./shared-children.ts";
import { type Spawned, spawn } from "./spawn.ts";
import { isSubreaper } from "./subreaper.ts";
import { type Ended, sweep } from "./sweep.ts";
import { processTable } from "./this-system.ts";
import type { Alarm } from "./wait.ts";

export { becomeSubreaper } from "./subreaper.ts";

/** For whom a program runs. */
interface Owner {
  /** The process. */
  uuid: string;
  /** Its tool call, for programs that end with it. */
  call?: string;
  /** The call's key, for its programs (RNIX_CALL). A shared program serves many calls and has none. */
  callKey?: string;
  /** Absolute; where output that memory does not hold is kept. Made when it is needed. */
  spillDir: string;
  /** What its programs get after TERM; the kernel's grace when absent. A shared one has the kernel's. */
  graceMs?: number;
  /** The owner's own time, which its programs' deadlines are counted in; the system's when absent. */
  clock?: { timer(ms: number, ring: () => void): Alarm };
  /** Takes out of what a program prints what nobody is to see: one for each stream. */
  redactor?(): Redactor;
}

export interface ChildrenOptions {
  /** One file per kernel is kept here, of what it has running. */
  ledgerDir: string;
  /** Never used twice: programs are told apart by it. */
  kernelId: string;
  /** Between TERM and KILL. */
  graceMs: number;
  /** Output of one program kept in memory, and on disk (`maxOutput` of a request goes before it). */
  memoryBytes: number;
  diskBytes: number;
  /** So long nothing must come after the exit until the output counts as complete. */
  quietMs?: number;
  /** A program waits so long for a reader that stopped reading. */
  readerMs?: number;
  /** What went wrong where nobody waits for an answer. By default a warning of the runtime. */
  onFault?(error: SyscallError): void;
}

interface Entry {
  child: RunningChild;
  owner: Owner;
  life: "call" | "process" | "shared";
  argv: string[];
  startedAt: string;
}

/**
 * Every program of a kernel, and the only place where programs are started. Each has its own session and
 * group, two cookies in its environment (`RNIX_UNIT`, the process; `RNIX_CHILD`, the program itself) and a
 * line in the ledger before it runs. When it ends, however it ends, everything it started is ended too.
 *
 * `life` says when it ends at the latest: "call" with `endCall`, "process" with `endOwner`, a shared one when
 * nobody has used its key for a while; the key is the same for all processes. `close` ends all of them.
 */
export class Children {
  readonly #o: ChildrenOptions;
  readonly #ledger: Ledger;
  readonly #table: ProcessTable = processTable();
  readonly #entries = new Map<string, Entry>();
  readonly #shared = new SharedChildren();
  readonly #orphans: Orphans;
  #started = 0;
  #closing: Promise<void> | undefined;

  constructor(o: ChildrenOptions) {
    this.#o = o;
    this.#ledger = new Ledger(o.ledgerDir, o.kernelId);
    this.#orphans = new Orphans({
      programs: () => this.#entries.values().map(({ child }) => child),
      gave: (mark) => this.#isMine(mark),
      table: this.#table,
      graceMs: o.graceMs,
      onStuck: (left) => this.#fault(wouldNotGo(left)),
    });
  }

  /**
   * Starts a program. `request.env` is the whole of its environment (but for BUN_*, which is taken out) and
   * `request.cwd` is given. Nothing is waited for before it runs, so an owner that ends afterwards sees it.
   */
  async exec(owner: Owner, request: ExecRequest): Promise<Child> {
    if (this.#closing)
      throw new SyscallError("CLOSED", "This kernel is shutting down and starts no more programs.");
    const { life } = request;
    if (typeof life === "string") return handle(this.#start(owner, request, life), false);
    const running = this.#shared.use(life.shared, life.idleMs, owner);
    if (running) return handle(running, true);
    const child = this.#start(owner, request, "shared");
    this.#shared.add(life.shared, life.idleMs, owner, child);
    return handle(child, false);
  }

  /** Ends the programs of one tool call. */
  async endCall(uuid: string, call: string): Promise<void> {
    this.#shared.leave(uuid, call);
    await this.#end(
      (entry) => entry.owner.uuid === uuid && entry.owner.call === call && entry.life === "call",
    );
  }

  /** Ends all programs of a process, but for shared ones. */
  async endOwner(uuid: string): Promise<void> {
    this.#shared.leave(uuid);
    await this.#end((entry) => entry.owner.uuid === uuid && entry.life !== "shared");
  }

  /** Ends the grace of a process's programs: what is being ended, or will be, is killed at once. */
  hurryOwner(uuid: string): void {
    for (const { owner, life, child } of this.#entries.values()) {
      if (owner.uuid === uuid && life !== "shared") child.hurry();
    }
  }

  /** Ends everything; afterwards nothing can be started. Safe to call again. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  list(): { pid: number; argv: string[]; uuid: string; startedAt: string }[] {
    return [...this.#entries.values()].map(({ child, argv, owner, startedAt }) => ({
      pid: child.pid,
      argv,
      uuid: owner.uuid,
      startedAt,
    }));
  }

  /** Whether a program of this owner runs: asked of the system, as an end may not have been heard of yet. */
  async isRunning(uuid: string): Promise<boolean> {
    for (const { child, owner } of this.#entries.values()) {
      if (owner.uuid !== uuid || !child.runs) continue;
      const found = await this.#table.find(child.pid);
      if (found && !found.zombie) return true;
    }
    return false;
  }

  /** Whose program this process of the system is. */
  originOf(pid: number): ProcessOwner {
    const entries = [...this.#entries.values()];
    return ownerOfProcess(pid, {
      byLeader: (leader) => entries.find(({ child }) => child.pid === leader && child.runs)?.owner.uuid,
      byMark: (mark) => entries.find(({ child }) => child.mark === mark)?.owner.uuid,
      byCookie: (id) => this.#entries.get(id)?.owner.uuid,
      gave: (mark) => this.#isMine(mark),
      named: (id) => id.startsWith(`${this.#o.kernelId}.`),
    });
  }

  /** What runs have left of which nothing tells whose it is: it ends with the last program that could own it. */
  strays(): { pid: number; command: string }[] {
    return this.#orphans.unattributed().map(({ pid }) => ({ pid, command: readCommand(pid) }));
  }

  async #close(): Promise<void> {
    await this.#end(() => true);
    await this.#orphans.close();
    this.#ledger.close();
  }

  async #end(which: (entry: Entry) => boolean): Promise<void> {
    await Promise.all([...this.#entries.values()].filter(which).map((entry) => entry.child.end()));
  }

  #start(owner: Owner, request: ExecRequest, life: Entry["life"]): RunningChild {
    const argv = [...request.argv];
    const cwd = checked(request);
    this.#started += 1;
    const id = `${this.#o.kernelId}.${this.#started}`;
    const mark = tagOf(this.#o.kernelId, this.#started);
    const startedAt = new Date().toISOString();
    const callKey = life === "shared" ? undefined : owner.callKey;
    const env = environment(request.env ?? {}, { uuid: owner.uuid, callKey }, id);
    this.#ledger.intent({ id, uuid: owner.uuid, call: owner.call, mark, argv, cwd, at: startedAt });

    let child: RunningChild | undefined;
    let start: { started: Spawned; marked: boolean };
    try {
      start = withTag(mark, () => spawn(request, cwd, env, (data) => child?.fromTerminal(data)));
    } catch (error) {
      this.#note(() => this.#ledger.ended(id));
      throw error;
    }
    leaders.set(start.started.pid, start.marked ? mark : null);
    child = this.#watch(start.started, id, start.marked ? mark : null, owner, request);
    this.#entries.set(id, { child, owner, life, argv, startedAt });
    return child;
  }

  #watch(
    spawned: Spawned,
    id: string,
    mark: ProcessTag | null,
    owner: Owner,
    request: ExecRequest,
  ): RunningChild {
    const onFault = (error: SyscallError): void => this.#fault(error);
    const limits = {
      memoryBytes: this.#o.memoryBytes,
      diskBytes: request.maxOutput ?? this.#o.diskBytes,
      readerMs: this.#o.readerMs ?? READER_MS,
    };
    const child = new RunningChild(spawned, {
      id,
      mark,
      output: new Output(join(owner.spillDir, outputName(id)), limits, onFault, owner.redactor),
      table: this.#table,
      graceMs: (typeof request.life === "string" ? owner.graceMs : undefined) ?? this.#o.graceMs,
      quietMs: this.#o.quietMs ?? QUIET_MS,
      timeoutMs: request.timeoutMs,
      // A shared program outlives who started it.
      clock: typeof request.life === "string" ? owner.clock : undefined,
      orphans: (of) => this.#orphans.of(of),
      strike: (of) => (isSubreaper() ? this.#orphans.strike(of) : killMarked(of.mark)),
      onFault,
    });
    void spawned.exited.then(() => leaders.delete(spawned.pid));
    void child.identity.then((identity) => {
      if (identity) this.#note(() => this.#ledger.started(id, identity));
    });
    void child.gone.then((clean) => {
      this.#entries.delete(id);
      if (clean) this.#note(() => this.#ledger.ended(id));
      this.#orphans.endUnowned();
    });
    this.#orphans.watch();
    return child;
  }

  /** True for the marks this kernel gave. */
  #isMine(mark: ProcessTag): boolean {
    const number = BigInt(mark) - BigInt(tagOf(this.#o.kernelId, 0));
    return number > 0n && number <= BigInt(this.#started);
  }

  /** For the ledger's later lines: the program runs, or has ended, whether they can be written or not. */
  #note(write: () => void): void {
    try {
      write();
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      this.#fault(
        new SyscallError("INTERNAL", `The list of running programs cannot be kept: ${why}`, { cause }),
      );
    }
  }

  #fault(error: SyscallError): void {
    if (this.#o.onFault) this.#o.onFault(error);
    else process.emitWarning(error);
  }
}

/**
 * Ends what dead kernels left running, and removes their ledgers. Called at start, when this kernel holds its
 * own lock. A program counts as the one of the ledger only when PID, start time and boot agree, or when it
 * carries the ledger's cookie or mark: a PID that went to somebody else is left alone.
 */
export function sweepChildren(
  ledgerDir: string,
  kernelAlive: (kernelId: string) => boolean,
  o: { graceMs?: number } = {},
): Promise<Ended[]> {
  return sweep(ledgerDir, kernelAlive, processTable(), o.graceMs ?? SWEEP_GRACE_MS);
}

const QUIET_MS = 50;
const READER_MS = 10_000;
const SWEEP_GRACE_MS = 2000;

function checked({ argv, cwd, timeoutMs, maxOutput }: ExecRequest): string {
  if (argv.length === 0 || argv[0] === "") throw invalid("argv names no program");
  if (argv.some((argument) => argument.includes("\0"))) throw invalid("argv holds a zero byte");
  if (cwd === undefined || !isAbsolute(cwd))
    throw invalid(`cwd must be an absolute path, not ${cwd ?? "absent"}`);
  if (timeoutMs !== undefined && !(timeoutMs > 0))
    throw invalid(`timeoutMs must be above 0, not ${timeoutMs}`);
  if (maxOutput !== undefined && !(maxOutput >= 0))
    throw invalid(`maxOutput must be 0 or more, not ${maxOutput}`);
  return cwd;
}

function invalid(what: string): SyscallError {
  return new SyscallError("INVALID", `The program was not started: ${what}.`);
}

/** A key that the spawner's own environment has is that of another call. */
function environment(
  given: Record<string, string>,
  { uuid, callKey }: Pick<Owner, "uuid" | "callKey">,
  id: string,
): Record<string, string> {
  const { RNIX_CALL: _, ...env } = withoutBun(given);
  return { ...env, RNIX_UNIT: uuid, ...(callKey !== undefined && { RNIX_CALL: callKey }), [COOKIE]: id };
}

/** BUN_OPTIONS and its like would run code in every program made with Bun, ourselves included. */
function withoutBun(env: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith("BUN_")));
}

function handle(child: RunningChild, reused: boolean): Child {
  return {
    pid: child.pid,
    reused,
    write: (data) => child.write(data),
    end: () => child.endInput(),
    read: () => child.read(),
    exited: () => child.exited(),
    kill: () => child.end(),
  };
}
