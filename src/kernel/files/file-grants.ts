/** The files that processes have open: the grant of each, and what is redacted of it. */

import { type Data, type FileStat, SyscallError, type VFSFile } from "../../plugin/index.ts";
import type { Asked } from "../permission/ask-rules.ts";
import { FileGrant, type OpenAs } from "../permission/file-grant.ts";
import type { Call } from "../permission/permissions.ts";
import type { Process } from "../process/process.ts";
import type { Secrets } from "../process/secrets.ts";

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
    const grants = this.#ofProcess.getOrInsertComputed(proc, () => new Set());
    const grant = new FileGrant(call, decision.rule, as, () => grants.delete(grant));
    grants.add(grant);
    return grant;
  }

  /**
   * Decides by the process's current rules which of these files the grant covers: null, or the reason of the refusal.
   * Opens of the kernel itself may have all. `ask` asks a person about a file, and fails when it is refused.
   */
  async access(
    proc: Process,
    grant: FileGrant | undefined,
    paths: readonly string[],
    also: readonly string[],
    ask: (grant: FileGrant, asked: Asked, opened: string) => Promise<unknown>,
  ): Promise<(string | null)[]> {
    if (paths.length > MAX_PATHS || !paths.every((path) => path.startsWith("/"))) {
      throw new SyscallError("INVALID", `access takes at most ${MAX_PATHS} paths, all of them absolute.`);
    }
    if (!grant) return paths.map(() => null);
    const answers: (string | null)[] = [];
    const free = proc.permissions.searchesAllOf(grant.call, also);
    for (const opened of paths) {
      const isFree = free !== null && opened.startsWith(`${free}/`);
      const refusal = isFree ? null : refusalOf(proc, grant, opened, also);
      const isAsked = typeof refusal === "object" && refusal !== null;
      // Checked again by the grant, if the rights change while the person thinks.
      if (isAsked) await ask(grant, refusal, opened);
      answers.push(isAsked ? null : refusal);
    }
    for (const [i, answer] of answers.entries()) if (answer === null) grant.recordOpened(paths[i] ?? "");
    return answers;
  }

  /** Withdraws the grants that the process's rights no longer cover, and returns them. */
  withdraw(proc: Process, by: string): FileGrant[] {
    const withdrawn: FileGrant[] = [];
    for (const grant of this.#ofProcess.get(proc) ?? []) {
      const refusal = firstRefusal(proc, grant);
      if (refusal === undefined) continue;
      grant.withdraw(refused(proc, grant.call, `It was withdrawn by ${by}. ${refusal}`));
      withdrawn.push(grant);
    }
    return withdrawn;
  }
}

/** Why the file is refused, or what a person must be asked first; null when it is allowed. */
function refusalOf(
  { permissions }: Process,
  grant: FileGrant,
  opened: string,
  also: readonly string[],
): string | Asked | null {
  const call = { ...grant.call, opened };
  const refusal = permissions.refusalOfOpened(call, also);
  if (refusal !== null) return refusal;
  const asked = permissions.asks(call, also);
  const left = asked && grant.unapproved(asked, opened);
  if (!left) return null;
  return left.isSearch ? `A person has to allow it, because ${left.why.join("; ")}.` : left;
}

function firstRefusal(proc: Process, grant: FileGrant): string | undefined {
  for (const call of grant.calls) {
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
  const message = `Agent ${proc.spec.agent.name} may not use ${what}. ${why} Allowed: ${proc.permissions.allowedTools().join(", ") || "nothing"}.`;
  return new SyscallError("PERMISSION", message, { device: path });
}

/** Redacts the keys of its driver in answers and errors, whether the provider or the driver has put them there. */
export class RedactingFile implements VFSFile {
  readonly #file: VFSFile;
  readonly #secrets: Secrets;

  constructor(file: VFSFile, secrets: Secrets) {
    this.#file = file;
    this.#secrets = secrets;
  }

  write(data: Data, signal: AbortSignal): Promise<void> {
    return this.#hiding(() => this.#file.write(data, signal));
  }

  read(max: number, signal: AbortSignal): Promise<Data> {
    return this.#hiding(async () => {
      const data = await this.#file.read(max, signal);
      return typeof data === "string" ? this.#secrets.hide(data) : data;
    });
  }

  close(): Promise<void> {
    return this.#hiding(() => this.#file.close());
  }

  stat(): Promise<FileStat> {
    return this.#hiding(() => this.#file.stat());
  }

  async #hiding<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (thrown) {
      throw this.#secrets.hideIn(thrown);
    }
  }
}
