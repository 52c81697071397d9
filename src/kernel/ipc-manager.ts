/** The syscalls of messages and pipes between processes. */

import { either, sleep, withDeadline } from "../lib/clock.ts";
import { type Data, O_RDONLY, O_WRONLY, SyscallError } from "../plugin/index.ts";
import type { InboxDraft, InboxEntry } from "../store/runs/schema.ts";
import { type MessageEntry, requireSpace } from "./ipc/inbox.ts";
import { Pipe } from "./ipc/pipe.ts";
import type { Process } from "./process/process.ts";
import type { Core } from "./tiers/core.ts";
import type { PID } from "./types.ts";

/** A message between processes. `seq` is its number in the receiver's inbox. */
interface ProcessMessage {
  from_pid: PID;
  /** null: PID 0, the operator. */
  from_uuid: string | null;
  seq: number;
  ts: string;
  data: string;
}

interface RecvOptions {
  /** Default: the tool timeout. Counted on the process's clock. */
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** Attempts, and ms between them, for a run that another caller has claimed. */
const MAIL_TRIES = 50;
const MAIL_LOOK_MS = 20;

type IpcParts = Core & { mail: WaitingRunMail };

/** Send, Recv, Pipe. */
export class IpcManager {
  readonly #parts: IpcParts;
  #pipes = 0;

  constructor(parts: IpcParts) {
    this.#parts = parts;
  }

  /**
   * Puts a message into a process's inbox; it is durable when this resolves. Messages of one sender stay in order. Fails
   * with NOT_FOUND without such a process, CLOSED when it is ending, PERMISSION for a process of another project (except
   * for PID 0), and EXHAUSTED when its inbox is full.
   */
  async send(from: PID, to: PID, data: Data): Promise<ProcessMessage> {
    const { table, debug } = this.#parts;
    const args = { to, size: data.length };
    const seq = (message: ProcessMessage): number => message.seq;
    const sender = from === 0 ? undefined : table.get(from);
    return debug.callFor(sender, to, "Send", args, () => this.#send(sender, to, data), seq);
  }

  /**
   * Send to a receiver that a process names: a PID, a UUID or its prefix, or "parent". A suspended run that waits for
   * messages gets it too and resumes. Returns the receiver.
   */
  async sendTo(sender: Process, to: PID | string, data: Data): Promise<string> {
    const named = to === "parent" ? (sender.spec.parentUuid ?? "parent") : String(to);
    for (let tries = 0; tries < MAIL_TRIES; tries++) {
      const target = this.#liveOne(sender, to);
      if (target !== undefined) {
        await this.send(sender.pid, target, data);
        return `process ${target}`;
      }
      const uuid = await this.#parts.mail.addressee(sender, named);
      if (uuid === undefined) break;
      if (await this.#mail(sender, uuid, data))
        return `the run ${uuid}, which is suspended and resumes with it`;
      await sleep(this.#parts.clock, MAIL_LOOK_MS, sender.signal);
    }
    // Fails with the error of a missing run.
    const target = this.addressee(sender, to);
    await this.send(sender.pid, target, data);
    return `process ${target}`;
  }

  /** The process that a name means: a PID, a UUID or its prefix, or "parent". Fails with NOT_FOUND without one. */
  addressee(proc: Process, to: PID | string): PID {
    const { table } = this.#parts;
    if (to === "parent") {
      if (proc.family.ppid !== 0) return proc.family.ppid;
      const message = `Process ${proc.pid} has no parent process that could be written to.`;
      throw new SyscallError("NOT_FOUND", message);
    }
    if (typeof to === "number" || /^\d+$/.test(to)) return table.get(Number(to)).pid;
    const found = table.findByUuid(to);
    if (found) return found.pid;
    const text = `There is no live process ${JSON.stringify(to)}. Expected a PID, a UUID or "parent".`;
    throw new SyscallError("NOT_FOUND", text);
  }

  /**
   * Takes the oldest message, or waits for one. Fails with TIMEOUT when none came, CLOSED when the process ends,
   * CANCELLED when it must stop, or with the signal's reason.
   */
  async recv(pid: PID, o: RecvOptions = {}): Promise<ProcessMessage> {
    const { table, inboxes, debug } = this.#parts;
    const proc = table.get(pid);
    const ms = o.timeoutMs ?? proc.spec.opts.limits.tool_timeout;
    return debug.call(
      proc,
      "Recv",
      { timeout_ms: ms },
      () =>
        withDeadline(proc.clock, either(proc.signal, o.signal), ms, noMessage(ms), async (limit) =>
          asMessage(await inboxes.of(proc).receive(limit)),
        ),
      ({ seq }) => seq,
    );
  }

  /**
   * Takes all waiting messages for a tool call: its result contains them and its record acknowledges them. Returns none
   * on timeout.
   */
  async recvForCall(
    proc: Process,
    callId: string,
    timeoutMs: number,
    signal: AbortSignal,
  ): Promise<{ messages: MessageEntry[]; left: number }> {
    const { inboxes, debug } = this.#parts;
    const inbox = inboxes.of(proc);
    return debug.call(
      proc,
      "Recv",
      { timeout_ms: timeoutMs },
      async () => {
        if (timeoutMs <= 0 && !inbox.hasMessage) return { messages: [], left: 0 };
        return withDeadline(proc.clock, signal, timeoutMs, noMessage(timeoutMs), async (limit) => {
          try {
            return await inbox.lend(callId, limit);
          } catch (thrown) {
            if (signal.aborted || thrown !== limit.reason) throw thrown;
            return { messages: [], left: 0 };
          }
        });
      },
      ({ messages }) => messages.map(({ seq }) => seq),
    );
  }

  /**
   * Connects two processes, or one with itself, by a pipe. Each end closes with its process. Fails with CLOSED when one of
   * them is ending and with PERMISSION when their projects differ.
   */
  async pipe(writer: PID, reader: PID): Promise<{ writeFd: number; readFd: number }> {
    const { table, debug } = this.#parts;
    const from = table.get(writer);
    return debug.call(
      from,
      "Pipe",
      { writer, reader },
      () => {
        const to = table.get(reader);
        checkSameProject(from, to);
        for (const proc of [from, to]) {
          if (proc.state !== "running" || proc.stopped || proc.ending) {
            const message = `Process ${proc.pid} has ended or is ending and opens no more files.`;
            throw new SyscallError("CLOSED", message);
          }
        }
        const path = `pipe:${++this.#pipes}`;
        const pipe = new Pipe(path);
        const of = { path, device: path, plugin: "kernel" };
        const readFd = to.fds.add({ ...of, file: pipe.reader, flags: O_RDONLY });
        const writeFd = from.fds.add({ ...of, file: pipe.writer, flags: O_WRONLY });
        return { writeFd, readFd };
      },
      (fds) => fds,
    );
  }

  #liveOne(sender: Process, to: PID | string): PID | undefined {
    try {
      const proc = this.#parts.table.find(this.addressee(sender, to));
      return proc && !proc.exit ? proc.pid : undefined;
    } catch (thrown) {
      if (thrown instanceof SyscallError && thrown.code === "NOT_FOUND") return undefined;
      throw thrown;
    }
  }

  /** False while another caller, who may be resuming it, has claimed the run. */
  #mail(sender: Process, uuid: string, data: Data): Promise<boolean> {
    const { debug, mail, clock } = this.#parts;
    const put = async (): Promise<number | null> => {
      const ts = new Date(clock.now()).toISOString();
      const from = { from_pid: sender.pid, from_uuid: sender.uuid };
      const entry = await mail.put(sender, uuid, { kind: "message", ts, ...from, data: textOf(data) });
      return entry?.seq ?? null;
    };
    return debug.call(sender, "Send", { to: uuid, size: data.length }, put).then((seq) => seq !== null);
  }

  async #send(sender: Process | undefined, to: PID, data: Data): Promise<ProcessMessage> {
    const { table, inboxes, clock } = this.#parts;
    const target = table.get(to);
    if (sender) checkSameProject(sender, target);
    const entry = await inboxes.put(target, {
      kind: "message",
      ts: new Date(clock.now()).toISOString(),
      from_pid: sender?.pid ?? 0,
      from_uuid: sender?.uuid ?? null,
      data: textOf(data),
    });
    const read = sender?.permissions.taint;
    if (read) this.#parts.taint(target, read.origin, `a message of process ${sender.pid}: ${read.source}`);
    if (entry.kind !== "message")
      throw new SyscallError("INTERNAL", "An inbox made another entry of a message.");
    return asMessage(entry);
  }
}

function asMessage({ from_pid, from_uuid, seq, ts, data }: MessageEntry): ProcessMessage {
  return { from_pid, from_uuid, seq, ts, data };
}

function checkSameProject(one: Process, other: Process): void {
  if (one.spec.opts.project.id === other.spec.opts.project.id) return;
  const why = `Process ${other.pid} belongs to the project ${other.spec.opts.project.dir}, process ${one.pid} to ${one.spec.opts.project.dir}: only processes of one project reach each other.`;
  throw new SyscallError("PERMISSION", why);
}

/** Messages are text, because they are recorded and read by models. */
function textOf(data: Data): string {
  if (typeof data === "string") return data;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch (cause) {
    throw new SyscallError("INVALID", "A message is UTF-8 text, these bytes are not.", { cause });
  }
}

function noMessage(ms: number): string {
  return `No message came within ${ms} ms.`;
}

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
