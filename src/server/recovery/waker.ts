/** Resumes suspended runs when their time or event comes. */

import type { Kernel } from "../../kernel/kernel.ts";
import { isWoken } from "../../kernel/process/process-info.ts";
import type { KernelCallbacks, ProcInfo, Wake } from "../../kernel/types.ts";
import type { Clock, Timer } from "../../lib/clock.ts";
import { messageOf } from "../../lib/error-detail.ts";
import type { Logger } from "../../lib/logger.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { RunStore } from "../../store/runs/run-store.ts";
import type { History } from "../records/history.ts";
import type { AutoResume, InMemorySettings } from "./auto-resume.ts";

/**
 * The interval of checks: the wall clock may be set, the computer may sleep, and a wake may come through another rnix.
 */
const CHECK_MS = 60_000;

interface SuspendedRun {
  uuid: string;
  wake: Wake;
  /** In memory only, while this daemon lives. */
  inMemory?: InMemorySettings;
  /** The UUID of an ancestor whose wake has come too: it is resumed first, and resumes this run. */
  resumedBy?: string;
}

interface WakerPorts {
  clock: Clock;
  /** The suspended runs on disk that a waker resumes. */
  sleepers(): Promise<SuspendedRun[]>;
  /** The recorded state; undefined without a record. */
  info(uuid: string): Promise<ProcInfo | undefined>;
  /** An entry of this kind waits in its inbox. */
  hasMail(uuid: string, kind: "message" | "unit"): Promise<boolean>;
  /** The run's units continue here, and none has reported anything. */
  isParked(uuid: string): boolean;
  resume(uuid: string, why: string, inMemory?: InMemorySettings): Promise<unknown>;
  /** Makes the run wait for the user, and records why. Does nothing if it was resumed meanwhile. */
  leave(uuid: string, why: string): Promise<void>;
  logger: Logger;
}

/** When a wake comes by itself. A question that is not answered has its default then. */
function timeOf(wake: Wake): number {
  if (wake.on === "at") return wake.at_ms;
  return ("until_ms" in wake ? wake.until_ms : undefined) ?? Number.POSITIVE_INFINITY;
}

function dueText(wake: Wake): string {
  if (wake.on === "at") return "its time has come";
  if (wake.on === "unit") return "no unit has reported in time";
  return `no ${wake.on === "message" ? "message" : "answer"} has come in time`;
}

/**
 * The one waker (design §2, "Waiting"): resumes each suspended run at its wake: a time, its child's end, an answer, or a message.
 * Each wake is in the run's record, so a new daemon knows them. A run whose parent waits for it is woken through the
 * parent: it resumes below it, within its budget, and its result reaches the parent immediately.
 */
export class Waker {
  readonly #ports: WakerPorts;
  readonly #sleepers = new Map<string, SuspendedRun>();
  readonly #waking = new Set<Promise<void>>();
  #timer: Timer | undefined;
  #closed = false;

  constructor(ports: WakerPorts) {
    this.#ports = ports;
  }

  /** The daemon stays for runs with a wake time or live units, and for runs that are being woken. */
  get busy(): boolean {
    if (this.#waking.size > 0) return true;
    for (const { wake } of this.#sleepers.values())
      if (wake.on === "at" || wake.on === "unit" || (wake.on === "message" && wake.until_ms !== undefined))
        return true;
    return false;
  }

  get waiting(): string[] {
    return [...this.#sleepers.keys()];
  }

  /** Settings of a waiting run that are in memory only. */
  inMemory(uuid: string): InMemorySettings | undefined {
    return this.#sleepers.get(uuid)?.inMemory;
  }

  /** Takes over runs that were suspended before this daemon started. */
  async start(): Promise<void> {
    for (const sleeper of await this.#ports.sleepers()) {
      if (!this.#sleepers.has(sleeper.uuid)) this.suspended(sleeper);
    }
  }

  suspended(sleeper: SuspendedRun): void {
    if (this.#closed || sleeper.wake.on === "never") return;
    this.#sleepers.set(sleeper.uuid, sleeper);
    this.#arm();
    this.#track(() => this.#checkWake(sleeper));
  }

  /** A run has a process again. */
  began(uuid: string): void {
    if (this.#sleepers.delete(uuid)) this.#arm();
  }

  ended(uuid: string): void {
    for (const sleeper of [...this.#sleepers.values()]) {
      const { wake } = sleeper;
      if (wake.on === "child" && wake.uuid === uuid) this.#wake(sleeper, `its child ${uuid} has ended`);
      if (sleeper.resumedBy === uuid) this.#giveUp(sleeper, `the parent run ${uuid} has ended without it`);
    }
  }

  /** A message arrived in the inbox of a run without a process, or one of its units has reported. */
  mailed(uuid: string): void {
    const sleeper = this.#sleepers.get(uuid);
    if (sleeper?.wake.on === "message") this.#wake(sleeper, "a message has come");
    if (sleeper?.wake.on === "unit") this.#wake(sleeper, "a unit has reported");
  }

  /** Wakes no more runs. Resolves when the wakes under way are done. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    this.#timer = undefined;
    await Promise.all(this.#waking);
  }

  /** The wake may have come before the wait was registered. */
  async #checkWake(sleeper: SuspendedRun): Promise<void> {
    const { info, hasMail, isParked } = this.#ports;
    const { uuid, wake } = sleeper;
    if (this.#sleepers.get(uuid) !== sleeper) return;
    if (wake.on === "child") {
      const child = await info(wake.uuid);
      if (child?.ended_at_ms && child.state !== "suspended")
        this.#wake(sleeper, `its child ${wake.uuid} has ended`);
    }
    if (wake.on === "answer" && (await info(uuid))?.asks.some((ask) => ask.id === wake.id && ask.answers))
      this.#wake(sleeper, "it was answered");
    if (wake.on === "message" && (await hasMail(uuid, "message"))) this.#wake(sleeper, "a message has come");
    if (wake.on === "unit" && (!isParked(uuid) || (await hasMail(uuid, "unit"))))
      this.#wake(sleeper, "a unit has reported, or rnix has started again");
  }

  #arm(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#closed) return;
    const { clock } = this.#ports;
    let next = Number.POSITIVE_INFINITY;
    for (const { wake, resumedBy } of this.#sleepers.values())
      if (!resumedBy) next = Math.min(next, timeOf(wake));
    if (this.#sleepers.size === 0) return;
    const wait = Math.min(Math.max(0, next - clock.now()), CHECK_MS);
    this.#timer = clock.timer(wait, () => this.#wakeDue());
  }

  #wakeDue(): void {
    const now = this.#ports.clock.now();
    for (const sleeper of [...this.#sleepers.values()]) {
      const { wake, resumedBy } = sleeper;
      if (!resumedBy && timeOf(wake) <= now) this.#wake(sleeper, dueText(wake));
      this.#track(() => this.#checkWake(sleeper));
    }
    this.#arm();
  }

  #wake(sleeper: SuspendedRun, why: string): void {
    // It may have been resumed meanwhile.
    if (this.#closed || this.#sleepers.get(sleeper.uuid) !== sleeper) return;
    const top = this.#rootOf(sleeper);
    if (top !== sleeper) sleeper.resumedBy = top.uuid;
    this.#sleepers.delete(top.uuid);
    this.#track(() => this.#resume(top, why));
  }

  /** The topmost run that waits for this one, directly or through others. Damaged records may contain a cycle. */
  #rootOf(sleeper: SuspendedRun): SuspendedRun {
    const passed = new Set<SuspendedRun>();
    for (let top = sleeper; ; ) {
      passed.add(top);
      const parent = [...this.#sleepers.values()].find(
        ({ wake }) => wake.on === "child" && wake.uuid === top.uuid,
      );
      if (!parent || passed.has(parent)) return top;
      top = parent;
    }
  }

  async #resume(sleeper: SuspendedRun, why: string): Promise<void> {
    const { info, resume } = this.#ports;
    const { uuid, wake, inMemory } = sleeper;
    const now = await info(uuid);
    // Its record shows that it was resumed, or has another wake.
    if (!now || JSON.stringify(now.suspended?.wake) !== JSON.stringify(wake) || now.state !== "suspended")
      return;
    try {
      await resume(uuid, why, inMemory);
    } catch (thrown) {
      await this.#failed(sleeper, why, thrown);
    }
  }

  async #failed({ uuid }: SuspendedRun, why: string, thrown: unknown): Promise<void> {
    const { info, leave, logger } = this.#ports;
    const message = messageOf(thrown);
    const now = await info(uuid);
    if (now?.state !== "suspended") return;
    logger.warn(`run ${uuid}`, `could not be resumed although ${why}: ${message}`);
    // A daemon that stops leaves it to the next one.
    if (this.#closed || (thrown instanceof SyscallError && thrown.code === "CANCELLED")) return;
    await leave(uuid, `it could not be resumed by itself although ${why}: ${message}`);
    this.ended(uuid);
  }

  #giveUp(sleeper: SuspendedRun, why: string): void {
    this.began(sleeper.uuid);
    this.#track(() => this.#ports.leave(sleeper.uuid, why));
  }

  /** A failure is logged; other runs are still woken. */
  #track(work: () => Promise<void>): void {
    const done = work()
      .catch((thrown: unknown) => this.#ports.logger.warn("waker", String(thrown)))
      .finally(() => this.#waking.delete(done));
    this.#waking.add(done);
  }
}

/** Notifies the waker of runs that begin, are suspended or end, and of messages. */
export function wakerListener(
  waker: Waker,
  { processes }: Pick<Kernel, "processes">,
): Pick<KernelCallbacks, "onSpawn" | "onComplete"> & { onMail(uuid: string): void } {
  return {
    onSpawn(pid) {
      waker.began(processes.identity(pid).uuid);
    },
    onComplete(pid, _result, { suspended }) {
      const { uuid, chat } = processes.identity(pid);
      if (!suspended) waker.ended(uuid);
      else if (isWoken(suspended.wake, chat))
        waker.suspended({ uuid, wake: suspended.wake, inMemory: processes.inherited(pid) });
    },
    onMail(uuid) {
      waker.mailed(uuid);
    },
  };
}

/**
 * The run to resume so that this one is resumed: it, or the topmost suspended run above it. A child resumes with its
 * parent, never before it. Damaged records may contain a cycle.
 */
export async function topSuspended(uuid: string, history: Pick<History, "byUuid">): Promise<string> {
  const passed = new Set([uuid]);
  for (let top = uuid; ; ) {
    const parent = (await history.byUuid(top))?.info.parent_uuid ?? null;
    const above = parent === null || passed.has(parent) ? undefined : await history.byUuid(parent);
    if (above?.info.state !== "suspended" || above.info.kind !== "agent") return top;
    top = above.info.uuid;
    passed.add(top);
  }
}

interface WakerParts {
  clock: Clock;
  history: Pick<History, "sleepers" | "byUuid">;
  kernel: Kernel;
  autoResume: Pick<AutoResume, "resume">;
  runs(dataDir: string): RunStore;
  logger: Logger;
}

/** The waker over the records of all projects. */
export function wakerOf({ clock, history, kernel, autoResume, runs, logger }: WakerParts): Waker {
  const dataDirOf = async (uuid: string): Promise<string | undefined> =>
    (await history.byUuid(uuid))?.records.dataDir;
  return new Waker({
    clock,
    logger,
    sleepers: () => history.sleepers(),
    info: async (uuid) => (await history.byUuid(uuid))?.info,
    isParked: (uuid) => kernel.units.isParked(uuid),
    async hasMail(uuid, wanted) {
      const dataDir = await dataDirOf(uuid);
      if (dataDir === undefined) return false;
      // Checked again and again: most inboxes are empty, and the rest needs all steps.
      if (!runs(dataDir).hasInbox(uuid)) return false;
      const { unread } = await runs(dataDir).inbox(uuid);
      return unread.some(({ kind }) => kind === wanted);
    },
    async resume(uuid, why, inMemory) {
      const top = await topSuspended(uuid, history);
      return autoResume.resume(top, why, top === uuid ? inMemory : undefined);
    },
    async leave(uuid, why) {
      const dataDir = await dataDirOf(uuid);
      if (dataDir !== undefined) await kernel.lifecycle.setWake(uuid, dataDir, why);
    },
  });
}
