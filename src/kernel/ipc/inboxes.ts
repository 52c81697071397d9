/** The inboxes of all processes. */

import { SyscallError } from "../../plugin/index.ts";
import type { InboxDraft, InboxEntry } from "../../store/runs/schema.ts";
import type { Process } from "../process/process.ts";
import type { ResourceHolder } from "../process/resource-holder.ts";
import { Inbox, type InputEntry } from "./inbox.ts";

/** Makes each inbox on first use: a process without messages has none. */
export class Inboxes implements ResourceHolder {
  readonly #inboxes = new Map<Process, Inbox>();
  readonly #queued: ((proc: Process, entry: InboxEntry) => void) | undefined;

  /** `queued` is called with each new entry. */
  constructor(queued?: (proc: Process, entry: InboxEntry) => void) {
    this.#queued = queued;
  }

  /** Puts an entry into a process's inbox. Fails with CLOSED if the process has ended or is ending. */
  put(proc: Process, draft: InboxDraft): Promise<InboxEntry> {
    // A process that is being suspended reads it after a resume.
    const ending = proc.stopped && proc.stopped.reason !== "suspended";
    if (proc.state !== "running" || ending) {
      throw new SyscallError(
        "CLOSED",
        `Process ${proc.pid} has ended or is ending: it receives no more messages.`,
      );
    }
    return this.of(proc).put(draft);
  }

  /** Takes the entries for a new step. */
  take(proc: Process, turnOver: boolean): InboxEntry[] {
    return this.#inboxes.get(proc)?.take(turnOver) ?? [];
  }

  /** The user's messages that the model has not read, oldest first. */
  inputs(proc: Process): InputEntry[] {
    return this.#inboxes.get(proc)?.inputs ?? [];
  }

  /** A tool call is over: returns the numbers of the messages in its result. */
  settle(proc: Process, callId: string, hasResult: boolean): number[] {
    return this.#inboxes.get(proc)?.settle(callId, hasResult) ?? [];
  }

  /** Returns the inbox of a process; a closed one if the process has ended. */
  of(proc: Process): Inbox {
    let inbox = this.#inboxes.get(proc);
    if (!inbox) {
      inbox = new Inbox(
        proc.pid,
        () => proc.record.inbox,
        (entry) => this.#queued?.(proc, entry),
      );
      if (proc.state === "zombie" || proc.state === "dead") inbox.close();
      else this.#inboxes.set(proc, inbox);
    }
    return inbox;
  }

  /** Reap step 5: rejects all readers of the process's inbox. */
  clear(proc: Process): void {
    this.#inboxes.get(proc)?.close();
    this.#inboxes.delete(proc);
  }

  get size(): number {
    return this.#inboxes.size;
  }
}
