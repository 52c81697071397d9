import { SyscallError } from "../../plugin/index.ts";
import { FileGrant, type OpenAs } from "../permission/file-grant.ts";
import type { Call } from "../permission/permissions.ts";
import type { Process } from "../process/process.ts";

/** Characters of a path or a subject that a message quotes. */
const QUOTED = 200;
/** Files that a driver asks about at once: each takes some microseconds of the kernel's thread. */
const MAX_ASKED = 1_000;

/** CapCheck: made on every Open, and again on what is open when a process's rights have become less. */
export class FileGrants {
  readonly #ofProcess = new WeakMap<Process, Set<FileGrant>>();

  /**
   * What an Open stands on from here until its close; PERMISSION when it is not covered. Nothing where the
   * kernel opens for the process.
   */
  check(proc: Process, path: string, as: OpenAs, readOnly: boolean): FileGrant | undefined {
    if (as.kind === "kernel") return undefined;
    const call: Call =
      as.kind === "tool" ? { tool: as.tool, path, subject: as.subject } : { tool: null, path, readOnly };
    const decision = proc.permissions.decide(call);
    if ("refusal" in decision) throw refused(proc, call, decision.refusal);
    const rights = this.#ofProcess.get(proc) ?? new Set();
    this.#ofProcess.set(proc, rights);
    const right = new FileGrant(call, decision.rule, () => rights.delete(right));
    rights.add(right);
    return right;
  }

  /**
   * Decides by the process's present rules whether what stands on this right may have these files; each is null or
   * why not. The kernel's own opens may have all.
   */
  access(
    proc: Process,
    right: FileGrant | undefined,
    paths: readonly string[],
    also: readonly string[],
  ): (string | null)[] {
    if (paths.length > MAX_ASKED || !paths.every((path) => path.startsWith("/"))) {
      throw new SyscallError("INVALID", `access takes at most ${MAX_ASKED} paths, all of them absolute.`);
    }
    return paths.map((opened) => {
      if (!right) return null;
      const refusal = proc.permissions.refusalOfOpened({ ...right.call, opened }, also);
      if (refusal === null) right.note(opened);
      return refusal;
    });
  }

  /** Takes back what the process's rights do not cover any more, and answers what that was. */
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
  const what = tool === null ? path : subject === undefined ? tool : `${tool}(${subject.slice(0, QUOTED)})`;
  return new SyscallError(
    "PERMISSION",
    `Agent ${proc.spec.agent.name} may not use ${what}. ${why} Allowed: ${proc.permissions.allowedTools().join(", ") || "nothing"}.`,
    { device: path },
  );
}
