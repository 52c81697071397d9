import { SyscallError } from "../plugin/index.ts";
import { Abort, onceAborted } from "./abort.ts";
import type { OpenAs } from "./file-system.ts";
import type { Call } from "./permission/permissions.ts";
import type { Process } from "./process.ts";

/** Characters of a path or a subject that a message quotes. */
const QUOTED = 200;

/** CapCheck: made on every Open, and again on what is open when a process's rights have become less. */
export class OpenRights {
  readonly #ofProcess = new WeakMap<Process, Set<OpenRight>>();

  /**
   * What an Open stands on from here until its close; PERMISSION when it is not covered. Nothing where the
   * kernel opens for the process.
   */
  check(proc: Process, path: string, as: OpenAs): OpenRight | undefined {
    if (as.kind === "kernel") return undefined;
    const call: Call =
      as.kind === "tool" ? { tool: as.tool, path, subject: as.subject } : { tool: null, path };
    const decision = proc.permissions.decide(call);
    if ("refusal" in decision) throw refused(proc, call, decision.refusal);
    const rights = this.#ofProcess.get(proc) ?? new Set();
    this.#ofProcess.set(proc, rights);
    const right = new OpenRight(call, decision.rule, () => rights.delete(right));
    rights.add(right);
    return right;
  }

  /** Takes back what the process's rights do not cover any more, and answers what that was. */
  withdraw(proc: Process, by: string): OpenRight[] {
    const withdrawn: OpenRight[] = [];
    for (const right of this.#ofProcess.get(proc) ?? []) {
      const refusal = proc.permissions.refusal(right.call);
      if (refusal === null) continue;
      right.withdraw(refused(proc, right.call, `It was withdrawn by ${by}. ${refusal}`));
      withdrawn.push(right);
    }
    return withdrawn;
  }
}

/** The right that one file was opened by. */
export class OpenRight {
  readonly call: Call;
  /** By which rule of the process's own list it was covered. */
  readonly rule: string;
  /** Its file, once that is open. */
  fd: number | undefined;
  /** Ends it; whoever closes the file, or fails to open it, calls this. */
  readonly end: () => void;
  #withdrawn: SyscallError | undefined;
  /** Of the operations, which come one after the other: one for all, until one of them is aborted. */
  #abort: Abort | undefined;
  #underWay: Promise<unknown> = Promise.resolve();

  constructor(call: Call, rule: string, end: () => void) {
    this.call = call;
    this.rule = rule;
    this.end = end;
  }

  /** Why it is none any more. */
  get withdrawn(): SyscallError | undefined {
    return this.#withdrawn;
  }

  /** Resolves when nothing is under way on the file. */
  get idle(): Promise<unknown> {
    return this.#underWay;
  }

  /** What is under way fails with this, and all that comes. */
  withdraw(reason: SyscallError): void {
    this.#withdrawn ??= reason;
    this.#abort?.abort(reason);
  }

  /** Runs one operation, under a signal that follows the given one and the withdrawal. */
  async run<T>(signal: AbortSignal, operation: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (this.#withdrawn) throw this.#withdrawn;
    const abort = this.#abort?.signal.aborted === false ? this.#abort : new Abort();
    this.#abort = abort;
    const ignore = onceAborted(signal, () => abort.abort(signal.reason));
    const running = operation(abort.signal);
    this.#underWay = running.catch(() => undefined);
    try {
      return await running;
    } catch (thrown) {
      throw this.#withdrawn ?? thrown;
    } finally {
      ignore();
    }
  }
}

function refused(proc: Process, { tool, path, subject }: Call, why: string): SyscallError {
  const what = tool === null ? path : subject === undefined ? tool : `${tool}(${subject.slice(0, QUOTED)})`;
  return new SyscallError(
    "PERMISSION",
    `Agent ${proc.spec.agent.name} may not use ${what}. ${why} Allowed: ${proc.permissions.allowedTools().join(", ") || "nothing"}.`,
    { device: path },
  );
}
