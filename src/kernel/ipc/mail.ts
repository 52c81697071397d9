import type { RunStore } from "../../store/runs/run-store.ts";
import type { InboxDraft, InboxEntry } from "../../store/runs/schema.ts";
import type { Process } from "../process/process.ts";
import { requireSpaceFor } from "./inbox.ts";

interface MailPorts {
  /** The records of one data folder. */
  runs(dataDir: string): RunStore;
  /** A message is in the inbox of this run, which waits for one. */
  arrived(uuid: string): void;
}

/** Messages to runs that have no process, and were suspended to wait for one (design §2, "Waiting"). */
export class Mail {
  readonly #ports: MailPorts;

  constructor(ports: MailPorts) {
    this.#ports = ports;
  }

  /**
   * The UUID of the run of the sender's project that waits for messages and is meant by this PID, UUID or beginning
   * of one; undefined where there is none, or more than one.
   */
  async addressee(sender: Process, to: string): Promise<string | undefined> {
    const { project } = sender.spec.opts;
    const { rows } = await (await this.#ports.runs(project.dataDir).catalogue()).list();
    const byPid = /^\d{1,15}$/.test(to);
    const found = rows.filter(
      (row) =>
        row.state === "suspended" &&
        !row.foreign &&
        row.suspended?.wake.on === "message" &&
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
    const runs = this.#ports.runs(sender.spec.opts.project.dataDir);
    const claim = runs.claim(uuid);
    if (!claim) return null;
    let entry: InboxEntry;
    try {
      const info = await runs.info(uuid);
      if (info?.state !== "suspended") return null;
      requireSpaceFor(draft, (await runs.inbox(uuid)).unread, info.pid);
      const record = await runs.reopen(uuid);
      try {
        entry = await record.inbox.add(draft);
      } finally {
        await record.close();
      }
    } finally {
      claim.release({ remove: true });
    }
    this.#ports.arrived(uuid);
    return entry;
  }
}
