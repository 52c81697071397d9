/** Starts and ends all programs of a kernel. */

import { isAbsolute, join } from "node:path";
import { type Lazy, lazy } from "../lib/caches.ts";
import { type Clock, realClock } from "../lib/clock.ts";
import { messageOf } from "../lib/error-detail.ts";
import type { ProgramChannel } from "../lib/program-channel.ts";
import { type Child, type ExecRequest, SyscallError } from "../plugin/index.ts";
import type { AdoptedUnit, UnitTrace } from "./adopted-unit.ts";
import { PLUGIN_ENV, residentBytes } from "./channel.ts";
import { couldNotEnd, killMarked } from "./end-processes.ts";
import { leaders } from "./leaders.ts";
import { Ledger } from "./ledger.ts";
import { Orphans } from "./orphans.ts";
import { Output, outputName, type Redactor } from "./output.ts";
import { outputKeeper } from "./output-keeper.ts";
import type { OwnProgram } from "./own-program.ts";
import {
  COOKIE,
  ownerOfProcess,
  type ProcessOwner,
  type ProcessTable,
  processTable,
  readCommand,
} from "./process-table.ts";
import { isSubreaper, type ProcessTag, tagOf, withTag } from "./process-tag.ts";
import {
  exitInside,
  type LimitKind,
  ProgramGroup,
  type ProgramLimits,
  programInside,
} from "./program-group.ts";
import { RunningChild, SharedChildren } from "./running-child.ts";
import { signal } from "./signal.ts";
import { type Spawned, type SpawnRequest, spawn } from "./spawn.ts";
import type { Starter, Starters } from "./starter.ts";

export { becomeSubreaper, leaveSubreaper } from "./process-tag.ts";

/** A program that runs in another PID namespace. */
interface ConfinedProgram {
  /** The requested command line, without the sandbox's own. */
  argv: readonly string[];
  /** The first process of the namespace, where the program shares it. */
  init?: number;
  /** The command line that starts a starter in this namespace, and the starters that run. */
  starter?: { argv: readonly string[]; all: Starters };
}

/** The process for which a program runs. */
interface ProgramOwner {
  uuid: string;
  /** The tool call, for programs that end with it. */
  call?: string;
  /** The call's key, for its programs (RNIX_CALL). A shared program serves many calls and has none. */
  callKey?: string;
  /** Absolute path of the folder for output files. Made when it is needed. */
  spillDir: string;
  /** Time between TERM and KILL; by default the kernel's. A shared program has the kernel's. */
  graceMs?: number;
  /** The clock for deadlines of its programs; by default the system's. */
  clock?: Pick<Clock, "timer">;
  /** What its programs may use together. */
  limits?: ProgramLimits;
  /** Makes a redactor for one output stream. */
  redactor?(): Redactor;
  confined?: ConfinedProgram | undefined;
  /** This program is ended after all other programs of its process. */
  last?: true;
}

export interface ChildrenOptions {
  /** The folder of ledgers: one file per kernel with its running programs. */
  ledgerDir: string;
  /** Unique: the IDs of programs begin with it. */
  kernelId: string;
  /** Between TERM and KILL. */
  graceMs: number;
  /** Maximum output of one program in memory and on disk (`maxOutput` of a request takes precedence). */
  memoryBytes: number;
  diskBytes: number;
  /** Milliseconds without output, after the exit, until the output counts as complete. */
  quietMs?: number;
  /** Maximum wait of a program for a reader that stopped reading. */
  readerMs?: number;
  /** Puts this binary on the PATH of every program. */
  ownProgram?: OwnProgram;
  /** Receives errors that no caller waits for. By default a warning of the runtime. */
  onFault?(error: SyscallError): void;
}

/** A program of a background unit. It ends with `end`, with `close`, or by itself. */
export interface UnitChild {
  pid: number;
  exited(): Promise<{ code: number | null; signal: string | null }>;
  /** Resolves when nothing of it runs any more. */
  gone: Promise<boolean>;
  end(): Promise<void>;
}

interface UnitOwner {
  unit: string;
  /** Records what another kernel finds it by. Where that fails, none takes it over: the next sweep ends it. */
  identified(trace: UnitTrace): boolean;
}

/** The unit that a running program becomes a part of. */
interface MovedTo extends UnitOwner {
  /** Receives what it prints while this process lives. */
  sink(data: Uint8Array): void;
  /** The open file that has the rest. */
  output: number;
}

interface Program {
  child: RunningChild;
  owner: ProgramOwner;
  life: "call" | "process" | "shared" | "unit" | "plugin";
}

/** Programs that do not end with a process: their users, their unit or the plugin host decide. */
const OUTLIVES_PROCESS: ReadonlySet<Program["life"]> = new Set(["shared", "unit", "plugin"]);

/**
 * All programs of a kernel; no other code starts programs. Each has its own session and group, two cookies in its
 * environment (`RNIX_UNIT`: the process, `RNIX_CHILD`: the program) and a line in the ledger before it runs. When it
 * ends, its descendants are ended too.
 *
 * `life` says when it ends at the latest: "call" with `endCall`, "process" with `endOwner`. A shared program ends when
 * its key was not used for its idle time; all processes share the keys. `close` ends all programs.
 */
export class Children {
  readonly #o: ChildrenOptions;
  /** Made with the first program, as the next. */
  readonly #ledger: Lazy<Ledger>;
  readonly #table: ProcessTable = processTable();
  readonly #programs = new Map<string, Program>();
  readonly #shared = new SharedChildren();
  readonly #groups = new Map<string, ProgramGroup>();
  readonly #adopted = new Set<AdoptedUnit>();
  readonly #orphans: Lazy<Orphans>;
  #starters: Starters | undefined;
  #started = 0;
  #closing: Promise<void> | undefined;

  constructor(o: ChildrenOptions) {
    this.#o = o;
    this.#ledger = lazy(() => new Ledger(o.ledgerDir, o.kernelId));
    this.#orphans = lazy(
      () =>
        new Orphans({
          programs: () => this.#programs.values().map(({ child }) => child),
          issued: (mark) => this.#issued(mark),
          table: this.#table,
          graceMs: o.graceMs,
          onStuck: (left) => this.#fault(couldNotEnd(left)),
        }),
    );
  }

  /**
   * Starts a program. `request.env` is its whole environment (BUN_* variables are removed), and `request.cwd` is
   * required. The program is registered before the first `await`, so an owner that ends later ends it too.
   */
  async exec(owner: ProgramOwner, request: ExecRequest): Promise<Child> {
    this.#requireOpen();
    const { life } = request;
    if (typeof life === "string") {
      const starter = this.#starterFor(owner, request);
      const started = starter && (await this.#startBy(starter, owner, request));
      return handle(started ?? this.#start(owner, request, life), false);
    }
    const running = this.#shared.use(life.shared, life.idleMs, owner);
    if (running) return handle(running, true);
    const child = this.#start(owner, request, "shared");
    this.#shared.add(life.shared, life.idleMs, owner, child);
    return handle(child, false);
  }

  /** Starts the program of a background unit: it prints into the open file `output`, and has no stdin. */
  startUnit(owner: ProgramOwner & UnitOwner, request: Omit<SpawnRequest, "life">): UnitChild {
    this.#requireOpen();
    return unitChild(this.#start(owner, { ...request, life: "process" }, "unit"));
  }

  /** Starts the process of a plugin, which belongs to no run. */
  startPlugin(
    argv: string[],
    onMessage: (message: unknown) => void,
    confined?: readonly string[],
  ): ProgramChannel {
    this.#requireOpen();
    const owner = { uuid: "", spillDir: "", confined: confined && { argv: confined } };
    const child = this.#start(
      owner,
      { argv, cwd: "/", env: PLUGIN_ENV, life: "process", onMessage },
      "plugin",
    );
    const { channel } = child;
    if (!channel) throw new SyscallError("INTERNAL", "A plugin was started without a channel.");
    return {
      send: channel.send,
      hold: channel.hold,
      ended: confined ? child.exited().then(exitInside) : child.exited(),
      kill() {
        child.hurry();
        void child.end();
      },
      memory: () => residentBytes(confined ? programInside(child.pid) : child.pid),
    };
  }

  #requireOpen(): void {
    if (this.#closing)
      throw new SyscallError("CLOSED", "This kernel is shutting down and starts no more programs.");
  }

  /** Asks the programs of a process's calls to go to the background. Returns how many do. */
  askToBackground(uuid: string): number {
    const isOwn = ({ owner, life }: Program): boolean => owner.uuid === uuid && life === "call";
    return [...this.#programs.values()].filter((one) => isOwn(one) && one.child.askToBackground()).length;
  }

  /** What makes a running program of a call one of a unit. Undefined: it has exited. */
  movable(uuid: string, pid: number): ((move: MovedTo) => UnitChild) | undefined {
    const program = [...this.#programs.values()].find(
      ({ owner, life, child }) => child.pid === pid && owner.uuid === uuid && life === "call" && child.stays,
    );
    if (!program) return undefined;
    return (move) => {
      const { child } = program;
      program.life = "unit";
      child.move(move.sink);
      const kept = this.#keep(program, move).catch((cause: unknown) =>
        this.#fault(
          new SyscallError("INTERNAL", `The next kernel will not find unit ${move.unit}.`, { cause }),
        ),
      );
      const unit = unitChild(child);
      return {
        ...unit,
        gone: unit.gone.then((isGone) => kept.then(() => isGone)),
        end: async () => {
          await unit.end();
          await kept;
        },
      };
    };
  }

  /** Makes a moved program one that another kernel can take over. Resolves when what keeps its output has ended. */
  async #keep({ child, owner }: Program, { unit, output, identified }: MovedTo): Promise<void> {
    const keeper = outputKeeper(child.outputs);
    if (!keeper) return;
    const { argv, inherit, release } = keeper;
    const request = {
      argv,
      inherit,
      output,
      cwd: "/",
      env: { PATH: "/usr/bin:/bin" },
      life: "process",
    } as const;
    let own: RunningChild;
    try {
      own = this.#start({ ...owner, unit, confined: undefined, limits: undefined }, request, "unit");
    } catch (thrown) {
      release.ended();
      throw thrown;
    } finally {
      release.started();
    }
    const ended = child.exited().then(() => own.end());
    void own.gone.then(release.ended);
    const [identity, kept] = [await child.identity, await own.identity];
    if (identity && kept && identified({ child: child.id, mark: child.mark, ...identity, keeper: kept }))
      this.#tryLedger(() => this.#ledger().moved(child.id, unit));
    await ended;
    await own.gone;
  }

  /** Takes over the program of a unit that a dead kernel has started; null when it does not run any more. */
  async adoptUnit(
    trace: UnitTrace,
    graceMs = this.#o.graceMs,
  ): Promise<Pick<AdoptedUnit, "gone" | "end"> | null> {
    const { AdoptedUnit } = await import("./adopted-unit.ts");
    if (!(await AdoptedUnit.isThere(this.#table, trace))) return null;
    // The kernel may have died while it took the program into its group.
    signal(-trace.pid, "SIGCONT");
    const onFault = (error: SyscallError): void => this.#fault(error);
    const unit = new AdoptedUnit({ table: this.#table, trace, graceMs, onFault });
    this.#adopted.add(unit);
    this.#o.ownProgram?.standIn(trace.pid);
    void unit.gone.then(() => this.#adopted.delete(unit));
    return unit;
  }

  async endCall(uuid: string, call: string): Promise<void> {
    if (this.#programs.size === 0) return;
    this.#shared.leave(uuid, call);
    await this.#end(({ owner, life }) => owner.uuid === uuid && owner.call === call && life === "call");
  }

  /** Ends all programs of a process except shared ones and those of its units. */
  async endOwner(uuid: string): Promise<void> {
    this.#shared.leave(uuid);
    this.#starters?.forget(uuid);
    await this.#end((entry) => entry.owner.uuid === uuid && !OUTLIVES_PROCESS.has(entry.life));
    if (this.#programs.values().every(({ owner }) => owner.uuid !== uuid)) this.#removeGroup(uuid);
  }

  /** Which limits the programs of a process have reached together since the last call; null: none has started since. */
  takeHits(uuid: string): LimitKind[] | null {
    const group = this.#groups.get(uuid);
    const hits = group?.takeHits() ?? [];
    return group?.takeStart() || hits.length > 0 ? hits : null;
  }

  /** Cancels the grace period of a process's programs: they are killed without it, now or when they are ended. */
  hurryOwner(uuid: string): void {
    for (const { owner, life, child } of this.#programs.values()) {
      if (owner.uuid === uuid && life !== "shared") child.hurry();
    }
  }

  /** Ends all programs; no program can be started afterwards. Safe to call again. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  list(): { pid: number; uuid: string }[] {
    return [...this.#programs.values()].map(({ child, owner }) => ({ pid: child.pid, uuid: owner.uuid }));
  }

  /** Returns true when a program of this owner runs. Asks the system, because Bun may not have reported an end yet. */
  async isRunning(uuid: string): Promise<boolean> {
    for (const { child, owner } of this.#programs.values()) {
      if (owner.uuid !== uuid || !child.runs) continue;
      const found = await this.#table.find(child.pid);
      if (found && !found.zombie) return true;
    }
    return false;
  }

  ownerOf(pid: number): ProcessOwner {
    const entries = [...this.#programs.values()];
    return ownerOfProcess(pid, {
      byLeader: (leader) => entries.find(({ child }) => child.pid === leader && child.runs)?.owner.uuid,
      byMark: (mark) => entries.find(({ child }) => child.mark === mark)?.owner.uuid,
      byCookie: (id) => this.#programs.get(id)?.owner.uuid,
      issuedMark: (mark) => this.#issued(mark),
      issuedId: (id) => id.startsWith(`${this.#o.kernelId}.`),
    });
  }

  /** Returns orphans of runs whose program is unknown. Each ends with the last program that may have left it. */
  orphans(): { pid: number; command: string }[] {
    return this.#orphans()
      .unattributed()
      .map(({ pid }) => ({ pid, command: readCommand(pid) }));
  }

  async #close(): Promise<void> {
    await Promise.all([this.#end(() => true), ...[...this.#adopted].map((unit) => unit.end())]);
    await this.#orphans.end()?.close();
    for (const uuid of [...this.#groups.keys()]) this.#removeGroup(uuid);
    this.#ledger.end()?.close();
    this.#o.ownProgram?.close();
  }

  async #end(which: (entry: Program) => boolean): Promise<void> {
    const ending = [...this.#programs.values()].filter(which);
    await Promise.all(ending.filter(({ owner }) => !owner.last).map(({ child }) => child.end()));
    for (const { owner, child } of ending) if (owner.last) await child.endInput();
    await Promise.all(ending.map(({ child }) => child.end()));
  }

  #removeGroup(uuid: string): void {
    this.#groups.get(uuid)?.remove();
    this.#groups.delete(uuid);
  }

  /** For programs of calls. */
  #starterFor(owner: ProgramOwner, { argv, cwd, life, stdin, pty }: ExecRequest): Starter | undefined {
    const { uuid, confined } = owner;
    if (!confined?.starter || life !== "call" || stdin !== undefined || pty) return undefined;
    const within = argv.slice(0, -confined.argv.length);
    this.#starters = confined.starter.all;
    return this.#starters.find(uuid, JSON.stringify([within, cwd]), (socket, onMessage) => {
      const own = [...(confined.starter?.argv ?? [])];
      const { call: _, callKey: __, ...process } = owner;
      const as = { ...process, confined: { argv: own, init: confined.init }, last: true } as const;
      const program = { argv: [...within, ...own], cwd: "/", env: PLUGIN_ENV };
      return this.#start(
        as,
        { ...program, life: "process", onMessage, inherit: [socket], givesMarks: true },
        "process",
      );
    });
  }

  async #startBy(starter: Starter, owner: ProgramOwner, request: ExecRequest): Promise<RunningChild | null> {
    const { uuid, confined } = owner;
    const named = this.#name(owner, request, "call");
    const { id, mark, cwd, env } = named;
    const left = (): void => this.#tryLedger(() => this.#ledger().ended(id));
    try {
      const started = await starter.start({ argv: confined?.argv ?? request.argv, cwd, env, mark });
      if (started) {
        this.#groups.get(uuid)?.begin();
        return this.#watch(started.spawned, id, started.isMarked ? mark : null, owner, request, "call");
      }
    } catch (thrown) {
      killMarked(mark);
      left();
      throw thrown;
    }
    left();
    if (this.#starters?.has(uuid)) return null;
    throw new SyscallError("CLOSED", `${request.argv[0]} was not started: its process has ended.`);
  }

  #start(
    owner: ProgramOwner & Partial<UnitOwner>,
    request: SpawnRequest,
    life: Program["life"],
  ): RunningChild {
    const { id, mark, cwd, env } = this.#name(owner, request, life);
    const { limits, uuid } = owner;
    const group =
      limits && life !== "shared"
        ? this.#groups.getOrInsertComputed(uuid, () => new ProgramGroup(uuid, limits))
        : undefined;
    group?.prepare();
    let child: RunningChild | undefined;
    let start: { started: Spawned; marked: boolean };
    try {
      start = withTag(
        mark,
        () => spawn(request, cwd, env, (data) => child?.fromTerminal(data)),
        request.givesMarks,
      );
    } catch (error) {
      this.#tryLedger(() => this.#ledger().ended(id));
      throw error;
    }
    const { started, marked } = start;
    group?.begin();
    void group
      ?.add(started.pid)
      .catch((cause: unknown) =>
        this.#fault(new SyscallError("INTERNAL", `Program ${started.pid} is not limited.`, { cause })),
      );
    leaders.set(started.pid, marked ? mark : null);
    void started.exited.then(() => leaders.delete(started.pid));
    child = this.#watch(started, id, marked ? mark : null, owner, request, life);
    return child;
  }

  /** And its line in the ledger. */
  #name(
    owner: ProgramOwner & Partial<UnitOwner>,
    request: SpawnRequest,
    life: Program["life"],
  ): { id: string; mark: ProcessTag; cwd: string; env: Record<string, string> } {
    const cwd = checked(request);
    this.#started += 1;
    const id = `${this.#o.kernelId}.${this.#started}`;
    const mark = tagOf(this.#o.kernelId, this.#started);
    const callKey = life === "shared" ? undefined : owner.callKey;
    const given = this.#o.ownProgram?.onPath(request.env ?? {}) ?? request.env ?? {};
    this.#ledger().intent({
      id,
      uuid: owner.uuid,
      call: owner.call,
      unit: owner.unit,
      mark,
      argv: [...(owner.confined?.argv ?? request.argv)],
      cwd,
      at: new Date().toISOString(),
    });
    return { id, mark, cwd, env: environment(given, { uuid: owner.uuid, callKey }, id) };
  }

  #watch(
    spawned: Spawned,
    id: string,
    mark: ProcessTag | null,
    owner: ProgramOwner & Partial<UnitOwner>,
    request: ExecRequest,
    life: Program["life"],
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
      confined: owner.confined,
      // A shared program outlives the process that started it.
      clock: (typeof request.life === "string" ? owner.clock : undefined) ?? realClock,
      orphans: (of) => this.#orphans().of(of),
      killAsFound: (of) => (isSubreaper() ? this.#orphans().killAsFound(of) : killMarked(of.mark)),
      onFault,
    });
    this.#programs.set(id, { child, owner, life });
    void child.identity.then((identity) => {
      if (!identity || owner.identified?.({ child: id, mark, ...identity }) === false) return;
      this.#tryLedger(() => this.#ledger().started(id, identity));
    });
    void child.gone.then((clean) => {
      this.#programs.delete(id);
      if (clean) this.#tryLedger(() => this.#ledger().ended(id));
      this.#orphans().endUnowned();
    });
    this.#orphans().watch();
    return child;
  }

  #issued(mark: ProcessTag): boolean {
    const number = BigInt(mark) - BigInt(tagOf(this.#o.kernelId, 0));
    return number > 0n && number <= BigInt(this.#started);
  }

  /** Writes a later line of the ledger. A failure is only reported: the program runs or has ended already. */
  #tryLedger(write: () => void): void {
    try {
      write();
    } catch (cause) {
      const message = `The list of running programs cannot be written: ${messageOf(cause)}`;
      this.#fault(new SyscallError("INTERNAL", message, { cause }));
    }
  }

  #fault(error: SyscallError): void {
    if (this.#o.onFault) this.#o.onFault(error);
    else process.emitWarning(error);
  }
}

const QUIET_MS = 50;
const READER_MS = 10_000;

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

/** Removes the spawner's own RNIX_CALL: it is the key of another call. */
function environment(
  given: Record<string, string>,
  { uuid, callKey }: Pick<ProgramOwner, "uuid" | "callKey">,
  id: string,
): Record<string, string> {
  // BUN_OPTIONS and others would run code in every program made with Bun, this binary included.
  const kept = Object.entries(given).filter(([name]) => name !== "RNIX_CALL" && !name.startsWith("BUN_"));
  const call = callKey !== undefined && { RNIX_CALL: callKey };
  return { ...Object.fromEntries(kept), RNIX_UNIT: uuid, ...call, [COOKIE]: id };
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
    toBackground: () => child.toBackground(),
  };
}

function unitChild(child: RunningChild): UnitChild {
  const { pid, gone } = child;
  return { pid, gone, exited: () => child.exited(), end: () => child.end() };
}
