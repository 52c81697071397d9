/** Starts the program of a unit that is a command. Loaded with the first unit. */

import { appendFileSync, closeSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import {
  CommandUnit,
  type CommandUnitFacts,
  firstSnapshot,
  type UnitProgram,
} from "../../daemons/command-unit.ts";
import { DriverUnit } from "../../daemons/driver-unit.ts";
import { generateID, requireCommandKind } from "../../daemons/kind.ts";
import { OutputFile } from "../../daemons/output-file.ts";
import type { Signal } from "../../daemons/signal.ts";
import { messageOf } from "../../lib/error-detail.ts";
import type { UnitTrace } from "../../os/adopted-unit.ts";
import { libc } from "../../os/libc.ts";
import {
  type MoveRequest,
  type RegisterRequest,
  SyscallError,
  type UnitRequest,
} from "../../plugin/index.ts";
import { hasNamespaces } from "../../sandbox/policy.ts";
import type { RecordedUnit } from "../../store/runs/recorded-units.ts";
import type { Process } from "../process/process.ts";
import { programLimits } from "../process/program-policy.ts";
import type { Calls } from "../tiers/calls.ts";
import { exitCode, isOfSignal } from "./restored-unit.ts";

export { requireCommandKind };

/** The process that a unit is started for. */
export interface UnitOwner {
  proc: Process;
  /** The process of its run now: the unit may outlive the one that started it. */
  owner(): Process;
  emit(signal: Signal): void;
}

/** Starts a command as a unit. Its first line on disk is written before it runs. */
export function startCommand(ports: Calls, owner: UnitOwner, request: UnitRequest): CommandUnit {
  const made = recordStart(ports, owner, request);
  return unitOf(ports, owner, made, startProgram(ports, owner.proc, made.id, request));
}

/** Makes a running program of a call a unit. */
export function moveCommand(ports: Calls, owner: UnitOwner, { pid, ...request }: MoveRequest): CommandUnit {
  const { children, warn } = ports;
  const { proc } = owner;
  const move = children.movable(proc.uuid, pid);
  if (!move) throw new SyscallError("NOT_FOUND", `Program ${pid} has exited.`);
  const made = recordStart(ports, owner, { kind: "local_bash", ...request });
  const { id } = made;
  const path = join(proc.record.unitDir, `${id}.out`);
  const output = OutputFile.create(path);
  let isFull = false;
  const sink = (data: Uint8Array): void => {
    try {
      appendFileSync(output, data);
    } catch (thrown) {
      if (!isFull) warn(`PID ${proc.pid}`, `output of unit ${id}: ${messageOf(thrown)}`);
      isFull = true;
    }
  };
  const child = move({ unit: id, sink, output, identified: identifier(ports, proc, id) });
  const exited = child.gone.then(() => closeSync(output)).then(() => child.exited());
  return unitOf(ports, owner, made, {
    program: { exited: () => exited, kill: () => child.end() },
    file: outputFile(proc, path),
  });
}

/** Makes a unit that a driver runs itself. */
export function registerUnit(
  ports: Calls,
  { proc, owner, emit }: UnitOwner,
  request: RegisterRequest,
): DriverUnit {
  const { clock, uuid } = ports;
  const unit = new DriverUnit({
    id: generateID(request.kind, uuid()),
    agentId: proc.uuid,
    request,
    clock,
    graceMs: proc.spec.opts.limits.grace,
    emit,
    hide: (text) => owner().secrets.hide(text),
  });
  proc.record.unit({ t: "started", ts: timeOf(ports), snapshot: unit.snapshot() });
  return unit;
}

/** Writes the first line of a unit. */
function recordStart(
  ports: Calls,
  { proc }: UnitOwner,
  request: CommandUnitFacts["request"],
): CommandUnitFacts {
  const { clock, uuid } = ports;
  const id = generateID(request.kind, uuid());
  const made = { id, agentId: proc.uuid, request, startedAtMs: clock.now() };
  const { timeoutMs: timeout_ms, stallMs: stall_ms } = request;
  mkdirSync(proc.record.unitDir, { recursive: true, mode: 0o700 });
  proc.record.unit({ t: "started", ts: timeOf(ports), snapshot: firstSnapshot(made), timeout_ms, stall_ms });
  return made;
}

function timeOf({ clock }: Calls): string {
  return new Date(clock.now()).toISOString();
}

/** Makes a unit of a program that a dead kernel has started. `runs`: it still does. */
export async function adoptCommand(
  ports: Calls,
  owner: UnitOwner,
  { snapshot, program, started, reported }: RecordedUnit,
): Promise<{ unit: CommandUnit; runs: boolean }> {
  const { kind, id, description, metadata } = snapshot;
  if (kind !== "local_bash" && kind !== "monitor")
    throw new SyscallError("INTERNAL", `Unit ${id} has no program.`);
  const { proc } = owner;
  const { grace } = proc.spec.opts.limits;
  // A program that units.jsonl does not name can't be adopted: the sweep of a new daemon has ended it.
  const adopted = program ? await ports.children.adoptUnit(program, grace) : null;
  const over = ports.windows.begin(proc, "program");
  const path = join(proc.record.unitDir, id);
  const exited = (adopted?.gone ?? Promise.resolve()).then(over, over).then(() => {
    const code = exitCode(`${path}.exit`);
    const swept = adopted === null && code !== null && isOfSignal(code);
    // A moved command has no wrapper that writes its exit code.
    const isLost = code === null && (adopted === null || !program?.keeper);
    return { code, killed: isLost || swept || snapshot.status === "killed" };
  });
  const persistent = kind === "monitor" && metadata.persistent;
  const { timeout_ms: timeoutMs, stall_ms: stallMs } = started;
  const made = {
    id,
    agentId: proc.uuid,
    request: { kind, command: metadata.command, description, persistent, timeoutMs, stallMs },
    startedAtMs: Date.parse(snapshot.started_at),
    reported: { upTo: reported?.up_to ?? 0, events: reported?.events ?? 0 },
  };
  const unit = unitOf(ports, owner, made, {
    program: { exited: () => exited, kill: async () => adopted?.end() },
    file: outputFile(proc, `${path}.out`),
  });
  return { unit, runs: adopted !== null };
}

function unitOf(
  { clock, warn }: Calls,
  { owner, emit }: UnitOwner,
  made: CommandUnitFacts,
  running: { program: UnitProgram; file: OutputFile },
): CommandUnit {
  return new CommandUnit({
    ...made,
    ...running,
    clock,
    emit,
    hide: (text) => owner().secrets.hide(text),
    onFault: (what, thrown) => warn(`PID ${owner().pid}`, `${what}: ${messageOf(thrown)}`),
  });
}

function outputFile(proc: Process, path: string): OutputFile {
  const release = (fd: number, bytes: number): boolean => libc()?.punchHole(fd, bytes) ?? false;
  return new OutputFile({ path, maxBytes: proc.spec.opts.limits.shell_disk, release });
}

/** Records what another kernel needs to find the program of a unit. */
function identifier(ports: Calls, proc: Process, id: string): (trace: UnitTrace) => boolean {
  return (trace) => {
    try {
      proc.record.unit({ t: "program", ts: timeOf(ports), id, ...trace });
      return true;
    } catch (thrown) {
      ports.warn(`PID ${proc.pid}`, `program of unit ${id}: ${messageOf(thrown)}`);
      return false;
    }
  };
}

/** The program prints into its file and leaves its exit code beside it, so both outlive this kernel. */
function startProgram(
  ports: Calls,
  proc: Process,
  id: string,
  { argv, cwd, env: more }: UnitRequest,
): { program: UnitProgram; file: OutputFile } {
  const { children, windows } = ports;
  const { limits, env, cwd: folder } = proc.spec.opts;
  const path = join(proc.record.unitDir, id);
  const [outFile, exitFile] = [`${path}.out`, `${path}.exit`];
  const output = OutputFile.create(outFile);
  const over = windows.begin(proc, "program");
  try {
    const child = children.startUnit(
      {
        uuid: proc.uuid,
        unit: id,
        spillDir: proc.record.spillDir,
        graceMs: limits.grace,
        limits: programLimits(limits),
        identified: identifier(ports, proc, id),
        confined: hasNamespaces(proc.spec.opts.confinement) ? { argv } : undefined,
      },
      {
        argv: ["/bin/sh", "-c", WRAPPER, "rnix-unit", exitFile, ...argv],
        cwd: cwd ?? folder,
        env: { ...env, ...more },
        output,
      },
    );
    const exited = child.gone.then(over, over).then(() => child.exited());
    return { program: { exited: () => exited, kill: () => child.end() }, file: outputFile(proc, outFile) };
  } catch (thrown) {
    over();
    throw thrown;
  } finally {
    closeSync(output);
  }
}

/**
 * Writes the exit code of "$@" into the first argument. A signal to the group ends the program, not the wrapper, whose
 * own words ("Terminated") stay out of the output.
 */
const WRAPPER =
  'trap : TERM INT HUP; f=$1; shift; exec 3>&2 2>/dev/null; (exec "$@" 2>&3 3>&-); c=$?; echo "$c" >"$f"; exit "$c"';
