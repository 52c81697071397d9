/** A unit that ended before its run was resumed: its record, and its output on disk. */

import { join } from "node:path";
import { OutputFile } from "../../daemons/output-file.ts";
import { isTerminal } from "../../daemons/snapshot.ts";
import { readRegularSync } from "../../lib/regular-file.ts";
import type { Daemon, DaemonSnapshot } from "../../plugin/index.ts";
import type { ProcInfo } from "../../store/runs/schema.ts";
import type { Process } from "../process/process.ts";

/** Bytes of a file that holds an exit code. */
const MAX_EXIT_FILE = 16;

/**
 * The last state of a unit whose program was ended while no kernel held its run: by its wrapper's exit code if it ended
 * by itself, else `killed`. `child`: the record of an agent.
 */
export function lastState(
  proc: Process,
  snapshot: DaemonSnapshot,
  endedAt: string,
  child: ProcInfo | null,
): DaemonSnapshot {
  if (isTerminal(snapshot.status)) return snapshot;
  if (snapshot.kind === "local_agent" || isOfChild(snapshot)) {
    const status = child?.exit_code === 0 ? "completed" : child ? "failed" : "killed";
    const said = { summary: child?.result ?? "", err: child?.error?.message ?? "", phase: "" };
    const over = { status, ended_at: endedAt } as const;
    return snapshot.kind === "local_agent"
      ? { ...snapshot, ...over, metadata: { ...snapshot.metadata, ...said } }
      : { ...snapshot, ...over, metadata: { ...snapshot.metadata, ...said } };
  }
  const code = exitCode(join(proc.record.unitDir, `${snapshot.id}.exit`));
  const status = code === null || isOfSignal(code) ? "killed" : code === 0 ? "completed" : "failed";
  const over = { ...snapshot, status, ended_at: endedAt } as const;
  if (over.kind !== "local_bash") return over;
  return { ...over, metadata: { ...over.metadata, exit_code: code } };
}

type OfChild = Extract<DaemonSnapshot, { kind: "local_workflow" | "in_process_teammate" | "dream" }>;

function isOfChild(snapshot: DaemonSnapshot): snapshot is OfChild {
  return ["local_workflow", "in_process_teammate", "dream"].includes(snapshot.kind);
}

export class RestoredUnit implements Daemon {
  readonly #snapshot: DaemonSnapshot;
  readonly #proc: Process;

  constructor(proc: Process, snapshot: DaemonSnapshot) {
    this.#proc = proc;
    this.#snapshot = snapshot;
  }

  snapshot(): DaemonSnapshot {
    const now = this.#snapshot;
    if (now.kind !== "local_bash" || now.metadata.output !== "") return now;
    return { ...now, metadata: { ...now.metadata, output: this.#tail() } };
  }

  async kill(): Promise<void> {}

  output(): string {
    const { metadata } = this.#snapshot;
    return "summary" in metadata ? metadata.summary : this.#tail();
  }

  #tail(): string {
    const path = join(this.#proc.record.unitDir, `${this.#snapshot.id}.out`);
    try {
      return this.#proc.secrets.hide(new OutputFile({ path, maxBytes: 0, release: () => true }).tail());
    } catch {
      return ""; // A collected or foreign record has no output file.
    }
  }
}

/** The exit code that the wrapper of a program has written. */
export function exitCode(path: string): number | null {
  try {
    const code = Number.parseInt(readRegularSync(path, MAX_EXIT_FILE).toString("latin1"), 10);
    return Number.isInteger(code) ? code : null;
  } catch {
    return null; // Killed before its wrapper could write.
  }
}

/** Whether a wrapper writes this code of a program that TERM or KILL has ended, as the sweep of a later kernel does. */
export function isOfSignal(code: number): boolean {
  return code === 128 + 15 || code === 128 + 9;
}
