/** The parent and the children of a live process. */

import type { ChildResult } from "../../store/runs/schema.ts";
import type { PID } from "../types.ts";
import type { ProcessSpec } from "./process-spec.ts";

export class Family {
  readonly children: PID[] = [];
  /** One for each child that has ended: its last. */
  readonly results: ChildResult[];
  /** Results that no step record holds yet. */
  readonly newResults: ChildResult[] = [];
  #ppid: PID;
  #parentCall: string | null;

  constructor({ ppid, opts, progress }: ProcessSpec) {
    this.#ppid = ppid;
    this.#parentCall = opts.parentCall ?? null;
    this.results = [...(progress?.children ?? [])];
  }

  /** 0 when the parent has ended, or when a signal ended the parent alone. */
  get ppid(): PID {
    return this.#ppid;
  }

  /** The parent's tool call that waits for it; null: none. */
  get parentCall(): string | null {
    return this.#parentCall;
  }

  /** The child of a resumed parent: its call waits for it again. Returns whether it had another parent. */
  joinParent(ppid: PID, call: string): boolean {
    const moved = this.#ppid !== ppid;
    this.#ppid = ppid;
    this.#parentCall = call;
    return moved;
  }

  /** Its parent has ended: PID 0 is its parent. */
  leaveParent(): void {
    this.#ppid = 0;
  }

  remove(child: PID): void {
    const at = this.children.indexOf(child);
    if (at >= 0) this.children.splice(at, 1);
  }

  /** `shown`: the record of the next step has it. */
  childEnded(result: ChildResult, shown: boolean): void {
    const before = this.results.findIndex(({ uuid }) => uuid === result.uuid);
    if (before >= 0) this.results.splice(before, 1);
    this.results.push(result);
    if (shown) this.newResults.push(result);
  }
}
