/** Messages to suspended runs that wait for a message. */

import type { InboxDraft, InboxEntry } from "../../store/runs/schema.ts";
import type { Process } from "../process/process.ts";
import type { Core } from "../tiers/core.ts";
import { requireSpace } from "./inbox.ts";

/** Writes into the inboxes of suspended runs that wait for a message. */
export class WaitingRunMail {
  readonly #parts: Core;

  constructor(parts: Core) {
    this.#parts = parts;
  }

  /**
   * Finds the waiting run of the sender's project by PID, UUID or the beginning of a UUID. Returns undefined when none
   * or several match.
   */
  async addressee(sender: Process, to: string): Promise<string | undefined> {
    const { project } = sender.spec.opts;
    const index = await this.#parts.runs(project.dataDir).index();
    const { rows } = await index.page({ project: project.dir, status: "suspended" });
    const byPid = /^\d{1,15}$/.test(to);
    const found = rows.filter(
      (row) =>
        row.state === "suspended" &&
        !row.foreign &&
        row.suspended?.wake.on === "message" &&
        // A chat waits for its user only.
        !row.chat &&
        row.project === project.dir &&
        (byPid ? row.pid === Number(to) : row.uuid.startsWith(to.toLowerCase())),
    );
    return found.length === 1 ? found[0]?.uuid : undefined;
  }

  /**
   * Writes an entry durably, then wakes the run. Fails with EXHAUSTED if the inbox is full. Returns null if another
   * caller has claimed the run, because it may be resuming it.
   */
  async put(sender: Process, uuid: string, draft: InboxDraft): Promise<InboxEntry | null> {
    const runs = this.#parts.runs(sender.spec.opts.project.dataDir);
    const claim = runs.claim(uuid);
    if (!claim) return null;
    let entry: InboxEntry;
    try {
      const info = await runs.info(uuid);
      if (info?.state !== "suspended") return null;
      requireSpace(draft, (await runs.inbox(uuid)).unread, info.pid);
      const record = await runs.reopen(uuid);
      try {
        entry = await record.inbox.add(draft);
      } finally {
        await record.close();
      }
    } finally {
      claim.release({ remove: true });
    }
    this.#parts.mailed?.(uuid);
    return entry;
  }
}
