/** Starts the program of a unit that is a command. Loaded with the first unit. */

import { closeSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { CommandUnit, firstSnapshot, type UnitProgram } from "../../daemons/command-unit.ts";
import { generateID, requireCommandKind } from "../../daemons/kind.ts";
import { OutputFile } from "../../daemons/output-file.ts";
import type { Signal } from "../../daemons/signal.ts";
import type { Clock } from "../../lib/clock.ts";
import { messageOf } from "../../lib/error-detail.ts";
import type { Children } from "../../os/children.ts";
import { libc } from "../../os/libc.ts";
import type { UnitRequest } from "../../plugin/index.ts";
import type { Process } from "../process/process.ts";

export { requireCommandKind };

export interface CommandPorts {
  children: Pick<Children, "startUnit">;
  clock: Clock;
  uuid(): string;
  /** What the programs of units change until the returned function is called is the run's. */
  beginEffects(proc: Process): () => void;
  warn(source: string, text: string): void;
}

/** The process that a unit is started for. */
interface UnitOwner {
  proc: Process;
  /** The process of its run now: the unit may outlive the one that started it. */
  owner(): Process;
  emit(signal: Signal): void;
}

/** Starts a command as a unit. Its first line on disk is written before it runs. */
export function startCommand(
  ports: CommandPorts,
  { proc, owner, emit }: UnitOwner,
  request: UnitRequest,
): CommandUnit {
  const { clock, uuid, warn } = ports;
  const id = generateID(request.kind, uuid());
  const ts = (): string => new Date(clock.now()).toISOString();
  const made = { id, agentId: proc.uuid, request, startedAtMs: clock.now() };
  mkdirSync(proc.record.unitDir, { recursive: true, mode: 0o700 });
  proc.record.unit({ t: "started", ts: ts(), snapshot: firstSnapshot(made) });
  const { program, file } = startProgram(ports, proc, id, request);
  return new CommandUnit({
    ...made,
    program,
    file,
    clock,
    emit,
    hide: (text) => owner().secrets.hide(text),
    onFault: (what, thrown) => warn(`PID ${owner().pid}`, `${what}: ${messageOf(thrown)}`),
  });
}

/** The program prints into its file and leaves its exit code beside it, so both outlive this kernel. */
function startProgram(
  { children, clock, beginEffects }: CommandPorts,
  proc: Process,
  id: string,
  { argv, cwd, env: more }: UnitRequest,
): { program: UnitProgram; file: OutputFile } {
  const { limits, env, cwd: folder } = proc.spec.opts;
  const path = join(proc.record.unitDir, id);
  const [outFile, exitFile] = [`${path}.out`, `${path}.exit`];
  const output = OutputFile.create(outFile);
  const over = beginEffects(proc);
  try {
    const child = children.startUnit(
      { uuid: proc.uuid, unit: id, spillDir: proc.record.spillDir, graceMs: limits.grace },
      {
        argv: ["/bin/sh", "-c", WRAPPER, "rnix-unit", exitFile, ...argv],
        cwd: cwd ?? folder,
        env: { ...env, ...more },
        output,
      },
    );
    void child.identity.then((identity) => {
      if (identity)
        proc.record.unit({ t: "program", ts: new Date(clock.now()).toISOString(), id, ...identity });
    });
    const exited = child.gone.then(over, over).then(() => child.exited());
    const file = new OutputFile({
      path: outFile,
      maxBytes: limits.shell_disk,
      release: (fd, bytes) => libc()?.punchHole(fd, bytes) ?? false,
    });
    return { program: { exited: () => exited, kill: () => child.end() }, file };
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
