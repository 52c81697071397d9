/** The background units of all processes: starts, ends and records them, and delivers their signals. */

import type { CommandUnit } from "../../daemons/command-unit.ts";
import { DaemonState, daemonNotFound } from "../../daemons/daemon-state.ts";
import type { DriverUnit } from "../../daemons/driver-unit.ts";
import { newEventSignal, newLifecycleSignal } from "../../daemons/signal.ts";
import { childOf, isTerminal, keepsOwner } from "../../daemons/snapshot.ts";
import { messageOf } from "../../lib/error-detail.ts";
import {
  type Daemon,
  type DaemonKind,
  type DaemonSnapshot,
  type MoveRequest,
  type RegisterRequest,
  SyscallError,
  type UnitRequest,
  type Units as UnitService,
} from "../../plugin/index.ts";
import type { UnitLine } from "../../run/unit-schema.ts";
import { missingReports, type RecordedUnit, recordedUnits } from "../../store/runs/recorded-units.ts";
import type { InboxEntry } from "../../store/runs/schema.ts";
import type { Process } from "../process/process.ts";
import type { ResourceHolder } from "../process/resource-holder.ts";
import { hasEnded } from "../resume/saved-run.ts";
import type { Calls } from "../tiers/calls.ts";
import type { ExitStatus } from "../types.ts";
import { boundOutputs } from "./bound-outputs.ts";
import { Outbox } from "./outbox.ts";
import type { UnitOwner } from "./start-command.ts";

/** Snapshots of ended units that are kept in memory, per process. */
const MAX_ENDED = 200;
/** Outputs of full size that the ended units of a process may keep on disk. */
const OUTPUTS_KEPT = 8;

/** Characters of a teammate's answer that its owner reads. */
const MAX_ANSWER = 4000;

interface Owned {
  /** The process of the run; of a parked one, the last. */
  proc: Process;
  state: DaemonState;
  outbox: Outbox;
  parked: boolean;
  /** For each live unit a promise, which resolves when the unit has announced its end. */
  ends: Map<string, Promise<void>>;
  /** Units that have ended, oldest first. */
  ended: Map<string, { snapshot: DaemonSnapshot; daemon: Daemon }>;
  /** Called when the last unit is over and announced. */
  onIdle: (() => void) | undefined;
  starting: number;
  /** Children that are or were units. */
  agents: Set<string>;
}

export class Units implements ResourceHolder {
  readonly #parts: Calls;
  /** By the run's UUID: the units of a parked run go on without a process. */
  readonly #owned = new Map<string, Owned>();
  /** Live units that drivers run, by their ids. */
  readonly #driverUnits = new Map<string, DriverUnit>();

  constructor(parts: Calls) {
    this.#parts = parts;
  }

  get size(): number {
    return this.#owned.size;
  }

  /** Whether units live, or a signal of one is not in the inbox yet. */
  isBusy(proc: Process): boolean {
    const owned = this.#of(proc);
    if (!owned) return false;
    return owned.starting > 0 || holding(owned) > 0 || owned.outbox.busy;
  }

  /** Whether the run can be suspended while its units go on: all are programs, and a waker resumes it. */
  canPark(proc: Process): boolean {
    const owned = this.#of(proc);
    if (!owned || proc.spec.wakes !== true || owned.starting > 0 || owned.outbox.busy) return false;
    return owned.state.snapshot().every((unit) => childOf(unit) === undefined) && holding(owned) > 0;
  }

  /** Whether units of a suspended run go on, and none has reported anything. */
  isParked(uuid: string): boolean {
    const owned = this.#owned.get(uuid);
    return owned !== undefined && owned.state.len() > 0 && !owned.outbox.busy;
  }

  /** Live units, and with `terminal` those that have ended. */
  list(
    proc: Process,
    { kind, terminal = false }: { kind?: DaemonKind; terminal?: boolean } = {},
  ): DaemonSnapshot[] {
    const owned = this.#of(proc);
    if (!owned) return [];
    const live = kind === undefined ? owned.state.snapshot() : owned.state.snapshotByKind(kind);
    if (!terminal) return live;
    const over = [...owned.ended.values()].map(({ snapshot }) => snapshot);
    return [...over.filter((snapshot) => kind === undefined || snapshot.kind === kind), ...live];
  }

  /** The service `units` of a process, for a call of this tool. A command of any other than Bash needs its right. */
  service(proc: Process, tool: string | undefined): UnitService {
    return {
      start: async (request) => {
        const refused =
          tool === SHELL_TOOL ? null : proc.permissions.toolRefusal(SHELL_TOOL, request.command);
        if (refused !== null) throw new SyscallError("PERMISSION", refused);
        return this.start(proc, request);
      },
      move: (request) => this.move(proc, request),
      register: (request) => this.register(proc, request),
      update: async (id, change) => this.#registered(proc, id)?.update(change),
      killed: async (id) => this.#registered(proc, id)?.killed,
      list: async (filter) => this.list(proc, filter),
      stop: (id) => this.stop(proc, id),
      output: (id) => this.output(proc, id),
    };
  }

  async start(proc: Process, request: UnitRequest): Promise<DaemonSnapshot> {
    return this.#begin(proc, ({ requireCommandKind, startCommand }, owner) => {
      requireCommandKind(request.kind);
      return startCommand(this.#parts, owner, request);
    });
  }

  /** Makes a running program of a call a unit. */
  move(proc: Process, request: MoveRequest): Promise<DaemonSnapshot> {
    return this.#begin(proc, ({ moveCommand }, owner) => moveCommand(this.#parts, owner, request));
  }

  /** Lists a unit that a driver runs itself. */
  register(proc: Process, request: RegisterRequest): Promise<DaemonSnapshot> {
    return this.#begin(proc, ({ registerUnit }, owner) => {
      const unit = registerUnit(this.#parts, owner, request);
      this.#driverUnits.set(unit.snapshot().id, unit);
      void unit.done.then(() => this.#driverUnits.delete(unit.snapshot().id));
      return unit;
    });
  }

  /** Undefined for one that has ended. */
  #registered(proc: Process, id: string): DriverUnit | undefined {
    return this.#of(proc)?.state.get(id) && this.#driverUnits.get(id);
  }

  /** Returns how many commands of a process's calls go to the background now. */
  moveCalls(uuid: string): number {
    return this.#parts.children.askToBackground(uuid);
  }

  async #begin(
    proc: Process,
    make: (commands: typeof import("./start-command.ts"), owner: UnitOwner) => CommandUnit | DriverUnit,
  ): Promise<DaemonSnapshot> {
    this.#requireRoom(proc);
    const owned = this.#ownedBy(proc);
    // Loaded with the first unit: most runs have none.
    owned.starting++;
    try {
      const commands = await import("./start-command.ts");
      if (proc.stopped || proc.ending)
        throw new SyscallError("CLOSED", `Process ${proc.pid} is ending and starts no units.`);
      const unit = make(commands, ownerOf(owned));
      const snapshot = unit.snapshot();
      owned.ends.set(snapshot.id, unit.done);
      owned.state.register(unit);
      return snapshot;
    } finally {
      owned.starting--;
    }
  }

  /** Makes a child agent, which runs already, a unit of its parent. */
  async startAgent(proc: Process, child: Process): Promise<DaemonSnapshot> {
    this.#requireRoom(proc);
    const { generateID } = await import("../../daemons/kind.ts");
    const { childKind } = await import("./agent-unit.ts");
    const id = generateID(childKind(child), this.#parts.uuid());
    return this.#agent(proc, child, id, this.#ts(), { isNew: true });
  }

  /** The children that run as units: their failures are none of their parent. */
  agents(proc: Process): ReadonlySet<string> {
    return this.#of(proc)?.agents ?? new Set();
  }

  /**
   * Takes over the units of a run that is resumed: the model reads once what became of each. Children that were resumed
   * are units again, and so are programs that still run.
   */
  async resumed(proc: Process, lines: readonly UnitLine[], unread: readonly InboxEntry[]): Promise<void> {
    if (lines.length === 0) return;
    proc.run.startedPrograms = true;
    const { lastState, RestoredUnit } = await import("./restored-unit.ts");
    const owned = this.#takeOver(proc) ?? this.#ownedBy(proc);
    const missing = missingReports(lines, unread, this.#ts());
    // A later kernel does not find entries that are read by then.
    for (const line of missing) proc.record.unit(line);
    for (const recorded of recordedUnits([...lines, ...missing])) {
      const { snapshot, announced } = recorded;
      if (owned.state.get(snapshot.id)) continue;
      const uuid = childOf(snapshot);
      const child = uuid === undefined ? undefined : this.#parts.table.findByUuid(uuid);
      if (uuid !== undefined) owned.agents.add(uuid);
      if (child && !isTerminal(snapshot.status)) {
        await this.#agent(proc, child, snapshot.id, snapshot.started_at, { isNew: false });
        continue;
      }
      const info =
        uuid === undefined ? null : await this.#parts.runs(proc.spec.opts.project.dataDir).info(uuid);
      // The user has suspended this child alone: it is resumed alone.
      if (info && !announced && !hasEnded(info)) continue;
      if (!announced && (snapshot.kind === "local_bash" || snapshot.kind === "monitor")) {
        await this.#adopt(owned, recorded);
        continue;
      }
      const unit = new RestoredUnit(proc, lastState(proc, snapshot, this.#ts(), info));
      if (announced) {
        owned.ended.set(snapshot.id, { snapshot: unit.snapshot(), daemon: unit });
        continue;
      }
      owned.state.register(unit);
      owned.state.emit(newLifecycleSignal(unit, unit.snapshot().status, this.#parts.clock.now()));
    }
    // The model reads something new, also when the run was resumed before its units had reported.
    if (unread.length === 0 && !owned.outbox.busy) this.#sayLive(owned);
    owned.outbox.release();
    await owned.outbox.settled();
  }

  /** The units of a run that was parked belong to its new process. */
  #takeOver(proc: Process): Owned | undefined {
    const owned = this.#owned.get(proc.uuid);
    if (!owned) return undefined;
    owned.proc = proc;
    owned.parked = false;
    return owned;
  }

  /** The program of a unit was started by a kernel that is dead now, and may still run. */
  async #adopt(owned: Owned, recorded: RecordedUnit): Promise<void> {
    const { adoptCommand } = await import("./start-command.ts");
    const { unit, runs } = await adoptCommand(this.#parts, ownerOf(owned), recorded);
    const { id } = recorded.snapshot;
    owned.ends.set(id, unit.done);
    owned.state.register(unit);
    if (runs) owned.state.emit(newLifecycleSignal(unit, "running", this.#parts.clock.now()));
    else await unit.done;
  }

  #sayLive({ state }: Owned): void {
    for (const { id } of state.snapshot()) {
      const unit = state.get(id);
      if (unit) state.emit(newLifecycleSignal(unit, "running", this.#parts.clock.now()));
    }
  }

  async #agent(
    proc: Process,
    child: Process,
    id: string,
    startedAt: string,
    { isNew }: { isNew: boolean },
  ): Promise<DaemonSnapshot> {
    const { clock, warn } = this.#parts;
    const { AgentUnit } = await import("./agent-unit.ts");
    const owned = this.#ownedBy(proc);
    owned.agents.add(child.uuid);
    const unit = new AgentUnit({
      id,
      agentId: proc.uuid,
      child,
      startedAt,
      clock,
      emit: (signal) => owned.state.emit(signal),
      onFault: (thrown) => warn(`PID ${proc.pid}`, `unit ${id}: ${messageOf(thrown)}`),
    });
    const snapshot = unit.snapshot();
    if (isNew) proc.record.unit({ t: "started", ts: this.#ts(), snapshot });
    owned.ends.set(id, unit.done);
    owned.state.register(unit);
    return snapshot;
  }

  async stop(proc: Process, id: string): Promise<DaemonSnapshot> {
    const owned = this.#of(proc);
    const over = owned?.ended.get(id);
    if (over) throw new SyscallError("CLOSED", `Unit ${id} has already ended: ${over.snapshot.status}.`);
    if (!owned) throw daemonNotFound(id);
    const before = owned.state.get(id)?.snapshot();
    // The end of a program that ignores TERM takes the whole grace: the caller does not wait for that.
    void owned.state.stop(id).catch((thrown) => this.#parts.warn(`PID ${proc.pid}`, messageOf(thrown)));
    if (!before) throw daemonNotFound(id);
    return before;
  }

  async output(proc: Process, id: string): Promise<{ snapshot: DaemonSnapshot; text: string }> {
    const owned = this.#of(proc);
    const daemon = owned?.state.get(id) ?? owned?.ended.get(id)?.daemon;
    if (!daemon) throw daemonNotFound(id);
    return { snapshot: daemon.snapshot(), text: await daemon.output() };
  }

  /** The process that owns a unit; of a parked run, its last. Fails with NOT_FOUND if there is none. */
  ownerOf(id: string): Process {
    const owner = this.#owned
      .values()
      .find(({ state, ended }) => state.get(id) !== undefined || ended.has(id));
    if (!owner) throw daemonNotFound(id);
    return owner.proc;
  }

  /** The live units of a run, also of a parked one. */
  ofRun(uuid: string, filter?: { terminal?: boolean }): DaemonSnapshot[] {
    const owned = this.#owned.get(uuid);
    return owned ? this.list(owned.proc, filter) : [];
  }

  /** Calls `f` when no unit lives and every signal is in the inbox. */
  onIdle(proc: Process, f: (() => void) | undefined): void {
    const owned = this.#of(proc);
    if (owned) owned.onIdle = f;
  }

  /** A teammate has answered: its owner reads the answer once. */
  answered(child: Process, text: string): void {
    const found = this.#teammate(child);
    if (!found) return;
    const { owned, unit } = found;
    const cut =
      text.length > MAX_ANSWER
        ? `${text.slice(0, MAX_ANSWER)}\n[…; the record of process ${child.pid} has the rest]`
        : text;
    owned.state.emit(newEventSignal(unit, cut, false, this.#parts.clock.now()));
  }

  /** A teammate waits for a message: it keeps its owner alive no longer. */
  idled(child: Process): void {
    const owned = this.#teammate(child)?.owned;
    if (owned && !this.isBusy(owned.proc)) owned.onIdle?.();
  }

  #teammate(child: Process): { owned: Owned; unit: Daemon } | undefined {
    if (!child.spec.opts.chat) return undefined;
    for (const owned of this.#owned.values()) {
      if (!owned.agents.has(child.uuid)) continue;
      const of = owned.state.snapshot().find((snapshot) => childOf(snapshot) === child.uuid);
      const unit = of && owned.state.get(of.id);
      return unit && { owned, unit };
    }
    return undefined;
  }

  /** Whether the process is a teammate: it waits as long as its owner lives. */
  isTeammate(child: Process): boolean {
    return this.#teammate(child) !== undefined;
  }

  /** Ends all units of a process, and resolves when their ends are recorded. */
  async end(proc: Process): Promise<void> {
    const owned = this.#of(proc);
    if (!owned) return;
    if (waitsForUnit(proc.stopped)) {
      // The agent reads after the resume that they were killed.
      for (const { id } of owned.state.snapshotByKind("lsp")) {
        this.#driverUnits.get(id)?.leave();
        owned.ends.delete(id);
        owned.state.evict(id);
      }
      owned.parked = true;
      return owned.outbox.hold();
    }
    await endAll(owned);
  }

  /** Units of a run that waits for one go on without a process. */
  clear(proc: Process): void {
    const owned = this.#of(proc);
    if (!owned) return;
    owned.parked = waitsForUnit(proc.exit) && owned.state.len() > 0;
    if (!owned.parked) {
      this.#owned.delete(proc.uuid);
      void owned.outbox.hold().then(() => endAll(owned));
    } else if (owned.outbox.busy) this.#parts.mailed?.(proc.uuid);
  }

  /** A suspended run waits for its units no longer: ends them. */
  async endParked(uuid: string): Promise<void> {
    const owned = this.#owned.get(uuid);
    if (!owned?.parked) return;
    this.#owned.delete(uuid);
    await endAll(owned);
  }

  /** Undefined for the new process of a parked run that has not taken its units over. */
  #of(proc: Process): Owned | undefined {
    const owned = this.#owned.get(proc.uuid);
    return owned?.proc === proc ? owned : undefined;
  }

  #requireRoom(proc: Process): void {
    const most = proc.spec.opts.limits.live_units;
    const owned = this.#of(proc);
    const live = (owned?.state.len() ?? 0) + (owned?.starting ?? 0);
    if (most === null || live < most) return;
    const message = `Process ${proc.pid} has ${live} live units, and the limit is ${most} (live_units). Stop one with DaemonStop, or wait for the end of one.`;
    throw new SyscallError("EXHAUSTED", message);
  }

  #ownedBy(proc: Process): Owned {
    const known = this.#of(proc);
    if (known) return known;
    const { clock, inboxes, mailed, warn, watchers } = this.#parts;
    const state = new DaemonState(() => (owned.parked ? mailed?.(owned.proc.uuid) : owned.outbox.wake()));
    const owned: Owned = {
      proc,
      state,
      outbox: new Outbox({
        clock,
        inboxes,
        state,
        warn,
        owner: () => owned.proc,
        over: (id) => this.#evict(owned, id),
        idle: () => void (holding(owned) === 0 && owned.onIdle?.()),
      }),
      parked: false,
      ends: new Map(),
      ended: new Map(),
      onIdle: undefined,
      starting: 0,
      agents: new Set(),
    };
    state.subscribe(({ op, snapshot }) =>
      watchers.emit(owned.proc, { event: "unit", step: owned.proc.run.step, op, snapshot }),
    );
    this.#owned.set(proc.uuid, owned);
    return owned;
  }

  #evict(owned: Owned, id: string): void {
    const daemon = owned.state.get(id);
    if (!daemon) return;
    owned.ends.delete(id);
    owned.ended.set(id, { snapshot: daemon.snapshot(), daemon });
    const [oldest] = owned.ended.keys();
    const isFull = owned.ended.size > MAX_ENDED && oldest !== undefined;
    if (isFull) owned.ended.delete(oldest);
    owned.state.evict(id);
    const { record, spec } = owned.proc;
    try {
      if (isFull) boundOutputs(record.unitDir, [oldest], 0);
      boundOutputs(record.unitDir, [...owned.ended.keys()], OUTPUTS_KEPT * spec.opts.limits.shell_disk);
    } catch (thrown) {
      this.#parts.warn(`PID ${owned.proc.pid}`, `the outputs of ended units: ${messageOf(thrown)}`);
    }
  }

  #ts(): string {
    return new Date(this.#parts.clock.now()).toISOString();
  }
}

/** Live units that the agent waits for: those of drivers end with its run. */
function holding({ state }: Owned): number {
  return state.snapshot().filter(keepsOwner).length;
}

function ownerOf(owned: Owned): UnitOwner {
  return { proc: owned.proc, owner: () => owned.proc, emit: (signal) => owned.state.emit(signal) };
}

async function endAll({ state, ends, outbox }: Owned): Promise<void> {
  const live = state.snapshot().map(({ id }) => state.get(id));
  await Promise.all(live.map((daemon) => daemon?.kill()));
  await Promise.all(ends.values());
  await outbox.settled();
}

function waitsForUnit(exit: ExitStatus | undefined): boolean {
  return exit?.suspended?.wake.on === "unit";
}

/** Rules of this tool hold for every command. */
const SHELL_TOOL = "Bash";
