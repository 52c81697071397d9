/** The grant by which one file is open. */

import { Abort, onceAborted } from "../../lib/cancellation.ts";
import type { SyscallError } from "../../plugin/index.ts";
import type { Call } from "./permissions.ts";

/** On whose behalf a path is opened. */
export type OpenAs =
  /** A raw open by the process itself: its rights must cover the device path. */
  | { kind: "process" }
  /** One tool call: its rights must cover the tool with this subject. `device`: the tool's, if the path is not below it. */
  | { kind: "tool"; tool: string; callId: string; deadlineMs: number; subject?: string; device?: string }
  /** The kernel itself, for a process's model. */
  | { kind: "kernel" };

/** Maximum recorded files of one grant. A search opens more, but asks for each again. */
const MAX_OPENED = 16;

export class FileGrant {
  readonly call: Call;
  /** The rule of the process's own list that covers it. */
  readonly rule: string;
  /** The open file. */
  fd: number | undefined;
  /** Real paths of the files that its driver has opened, up to MAX_OPENED. */
  readonly #opened = new Set<string>();
  /** Ends the grant. Called when the file is closed, or when opening it fails. */
  readonly end: () => void;
  #withdrawn: SyscallError | undefined;
  /** Shared by the operations, which run one after the other, until one is aborted. */
  #abort: Abort | undefined;
  #underWay: Promise<unknown> = Promise.resolve();

  constructor(call: Call, rule: string, end: () => void) {
    this.call = call;
    this.rule = rule;
    this.end = end;
  }

  /** Why the grant was withdrawn. */
  get withdrawn(): SyscallError | undefined {
    return this.#withdrawn;
  }

  /** Resolves when no operation runs on the file. */
  get idle(): Promise<unknown> {
    return this.#underWay;
  }

  /** The calls that must stay covered: the original one, and one for each file that its driver has opened. */
  get calls(): Call[] {
    return [this.call, ...[...this.#opened].map((opened) => ({ ...this.call, opened }))];
  }

  /** Records a file that its driver has opened. */
  recordOpened(opened: string): void {
    if (this.#opened.size < MAX_OPENED) this.#opened.add(opened);
  }

  /** Fails the current operation and all later ones with this error. */
  withdraw(reason: SyscallError): void {
    this.#withdrawn ??= reason;
    this.#abort?.abort(reason);
  }

  /** Runs one operation, under a signal that is aborted by the given one or by a withdrawal. */
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
