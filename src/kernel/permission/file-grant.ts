import { Abort, onceAborted } from "../../lib/cancellation.ts";
import type { SyscallError } from "../../plugin/index.ts";
import type { Call } from "./permissions.ts";

/** In whose name a path is opened. */
export type OpenAs =
  /** A raw open by the process itself: its rights must cover the device path. */
  | { kind: "process" }
  /** One tool call: its rights must cover the tool with this subject. */
  | { kind: "tool"; tool: string; callId: string; deadlineMs: number; subject?: string }
  /** The kernel itself, for what every process has: its model. */
  | { kind: "kernel" };

/** A call that opens more files than this is a search, which asks again for each of them. */
const MAX_OPENED = 16;

/** The right that one file was opened by. */
export class FileGrant {
  readonly call: Call;
  /** By which rule of the process's own list it was covered. */
  readonly rule: string;
  /** Its file, once that is open. */
  fd: number | undefined;
  /** The real paths that its driver was let have, the first MAX_OPENED of them. */
  readonly #opened = new Set<string>();
  /** Ends the grant. Called when the file is closed, or when opening it fails. */
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

  /** The calls it stands on: as it was made, and for each file that was opened by it. */
  get calls(): Call[] {
    return [this.call, ...[...this.#opened].map((opened) => ({ ...this.call, opened }))];
  }

  /** Records a file that its driver was let have. */
  recordOpened(opened: string): void {
    if (this.#opened.size < MAX_OPENED) this.#opened.add(opened);
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
