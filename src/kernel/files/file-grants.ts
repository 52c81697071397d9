/** The grants by which processes have files open. */

import { SyscallError } from "../../plugin/index.ts";
import { FileGrant, type OpenAs } from "../permission/file-grant.ts";
import type { Call } from "../permission/permissions.ts";
import type { Process } from "../process/process.ts";

/** Maximum characters of a path or subject in a message. */
const MAX_QUOTED = 200;
/** Maximum files in one `access` call: each takes some microseconds of the kernel's thread. */
const MAX_PATHS = 1_000;

/** CapCheck: checks every Open, and checks open files again when a process loses rights. */
export class FileGrants {
  readonly #ofProcess = new WeakMap<Process, Set<FileGrant>>();

  /**
   * Makes the grant of an Open, which lasts until its close. Fails with PERMISSION when no rule covers it. Returns
   * undefined for opens of the kernel itself.
   */
  check(proc: Process, path: string, as: OpenAs, readOnly: boolean): FileGrant | undefined {
    if (as.kind === "kernel") return undefined;
    const call: Call =
      as.kind === "tool"
        ? { tool: as.tool, path: as.device ?? path, subject: as.subject }
        : { tool: null, path, readOnly };
    const decision = proc.permissions.decide(call);
    if ("refusal" in decision) throw refused(proc, call, decision.refusal);
    const rights = this.#ofProcess.get(proc) ?? new Set();
    this.#ofProcess.set(proc, rights);
    const right = new FileGrant(call, decision.rule, () => rights.delete(right));
    rights.add(right);
    return right;
  }

  /**
   * Decides by the process's current rules which of these files the grant covers: null, or the reason of the refusal.
   * Opens of the kernel itself may have all.
   */
  access(
    proc: Process,
    right: FileGrant | undefined,
    paths: readonly string[],
    also: readonly string[],
  ): (string | null)[] {
    if (paths.length > MAX_PATHS || !paths.every((path) => path.startsWith("/"))) {
      throw new SyscallError("INVALID", `access takes at most ${MAX_PATHS} paths, all of them absolute.`);
    }
    return paths.map((opened) => {
      if (!right) return null;
      const refusal = proc.permissions.refusalOfOpened({ ...right.call, opened }, also);
      if (refusal === null) right.recordOpened(opened);
      return refusal;
    });
  }

  /** Withdraws the grants that the process's rights no longer cover, and returns them. */
  withdraw(proc: Process, by: string): FileGrant[] {
    const withdrawn: FileGrant[] = [];
    for (const right of this.#ofProcess.get(proc) ?? []) {
      const refusal = firstRefusal(proc, right);
      if (refusal === undefined) continue;
      right.withdraw(refused(proc, right.call, `It was withdrawn by ${by}. ${refusal}`));
      withdrawn.push(right);
    }
    return withdrawn;
  }
}

function firstRefusal(proc: Process, right: FileGrant): string | undefined {
  for (const call of right.calls) {
    const refusal = proc.permissions.refusal(call);
    if (refusal !== null) return refusal;
  }
  return undefined;
}

function refused(proc: Process, { tool, path, subject }: Call, why: string): SyscallError {
  const what =
    tool === null ? path : subject === undefined ? tool : `${tool}(${subject.slice(0, MAX_QUOTED)})`;
  if (proc.pid === 0)
    return new SyscallError("PERMISSION", `${what} can't be used. ${why}`, { device: path });
  return new SyscallError(
    "PERMISSION",
    `Agent ${proc.spec.agent.name} may not use ${what}. ${why} Allowed: ${proc.permissions.allowedTools().join(", ") || "nothing"}.`,
    { device: path },
  );
}
