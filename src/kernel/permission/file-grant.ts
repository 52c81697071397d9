/** The grant by which one file is open. */

import { Abort, onceAborted } from "../../lib/clock.ts";
import type { SyscallError } from "../../plugin/index.ts";
import type { Asked } from "./ask-rules.ts";
import type { Call } from "./permissions.ts";

/** On whose behalf a path is opened. */
export type OpenAs =
  /** A raw open by the process itself: its rights must cover the device path. */
  | { kind: "process" }
  /** One tool call: its rights must cover the tool with this subject. `device`: the tool's, if the path is not below it. */
  | {
      kind: "tool";
      tool: string;
      callId: string;
      deadlineMs: number;
      subject?: string;
      device?: string;
      /** Shown to a person who decides the call. */
      input?: Record<string, unknown>;
    }
  /** The kernel itself, for a process's model. */
  | { kind: "kernel" };

/** Maximum recorded files of one grant. A search opens more, but asks for each again. */
const MAX_OPENED = 16;

export class FileGrant {
  readonly call: Call;
  /** The tool call and its input; undefined for an open by the process itself. */
  readonly callId: string | undefined;
  readonly input: Record<string, unknown> | undefined;
  /** The rule of the process's own list that covers it. */
  readonly rule: string;
  fd: number | undefined;
  /** Real paths of the files that its driver has opened, up to MAX_OPENED. */
  readonly #opened = new Set<string>();
  /** The ask rules that a person has approved for this call, and the files that the person has seen. */
  readonly #approved = { rules: new Set<string>(), files: new Set<string>() };
  /** Ends the grant. Called when the file is closed, or when opening it fails. */
  readonly end: () => void;
  /** Why the grant was withdrawn. */
  withdrawn: SyscallError | undefined;
  /** Shared by the operations, which run one after the other, until one is aborted. */
  #abort: Abort | undefined;
  #underWay: Promise<unknown> = Promise.resolve();

  constructor(call: Call, rule: string, as: OpenAs, end: () => void) {
    this.call = call;
    this.callId = as.kind === "tool" ? as.callId : undefined;
    this.input = as.kind === "tool" ? as.input : undefined;
    this.rule = rule;
    this.end = end;
  }

  /** Resolves when no operation runs on the file. */
  get idle(): Promise<unknown> {
    return this.#underWay;
  }

  /** The calls that must stay covered: the original one, and one for each file that its driver has opened. */
  get calls(): Call[] {
    return [this.call, ...[...this.#opened].map((opened) => ({ ...this.call, opened }))];
  }

  /** A person has allowed this call, or this file of it. */
  approve({ rules, targets }: Asked, opened: string | undefined): void {
    for (const rule of rules) this.#approved.rules.add(rule);
    for (const file of opened === undefined ? targets : [opened]) this.#approved.files.add(file);
  }

  /** What is left to ask about an opened file. A search was approved with its rules, any other call with its files. */
  unapproved(asked: Asked, opened: string): Asked | null {
    const { rules, files } = this.#approved;
    if (!asked.isSearch) return files.has(opened) ? null : asked;
    const left = asked.rules.filter((rule) => !rules.has(rule));
    return left.length === 0 ? null : { ...asked, rules: left };
  }

  recordOpened(opened: string): void {
    if (this.#opened.size < MAX_OPENED) this.#opened.add(opened);
  }

  /** Fails the current operation and all later ones with this error. */
  withdraw(reason: SyscallError): void {
    this.withdrawn ??= reason;
    this.#abort?.abort(reason);
  }

  /** Runs one operation, under a signal that is aborted by the given one or by a withdrawal. */
  async run<T>(signal: AbortSignal, operation: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (this.withdrawn) throw this.withdrawn;
    const abort = this.#abort?.signal.aborted === false ? this.#abort : new Abort();
    this.#abort = abort;
    const ignore = onceAborted(signal, () => abort.abort(signal.reason));
    const running = operation(abort.signal);
    this.#underWay = running.catch(() => undefined);
    try {
      return await running;
    } catch (thrown) {
      throw this.withdrawn ?? thrown;
    } finally {
      ignore();
    }
  }
}
