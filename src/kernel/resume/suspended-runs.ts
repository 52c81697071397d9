/** Changes the records of suspended runs. */

import type { Lazy } from "../../lib/caches.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { AskAnswer } from "../../run/ask-schema.ts";
import { requireOwn } from "../../store/runs/own-run.ts";
import type { RunStore } from "../../store/runs/run-store.ts";
import type { ChildResult } from "../../store/runs/schema.ts";
import { takeAnswers } from "../asks/take-answers.ts";
import type { KernelPorts } from "../kernel-ports.ts";
import type { ModelChoice } from "../process/live-state.ts";
import { isWoken, providerFacts } from "../process/process-info.ts";
import { isSuspended } from "../process/process-spec.ts";
import type { ExitStatus, ProcInfo, ProviderChoice, Wake } from "../types.ts";
import { orphanedRecord } from "./orphaned-record.ts";
import { resultOf, switchesWith } from "./saved-run.ts";

/** What is needed to change or resume a run of which only the record is left. */
export interface StoredRunPorts extends Pick<KernelPorts, "clock" | "runs" | "wakes" | "sweepPrograms"> {
  claims: Lazy<RunClaims>;
  /** Whether another live kernel has this id: its runs are not ours. */
  kernelAlive(kernelId: string): boolean;
}

interface SuspendedRunsPorts extends StoredRunPorts {
  ended(uuid: string, exit: ExitStatus): void;
  /** False for a run that is alive in this kernel. */
  isGone(uuid: string): Promise<boolean>;
}

/** Changes to the records of suspended runs, which have no process. */
export class SuspendedRuns {
  readonly #ports: SuspendedRunsPorts;

  constructor(ports: SuspendedRunsPorts) {
    this.#ports = ports;
  }

  /** Replaces what the run waits for. No effect when it is not suspended. */
  async setWake(uuid: string, dataDir: string, reason: string, wake: Wake): Promise<void> {
    await this.#change(uuid, dataDir, (info) => {
      const cause = info.suspended?.cause ?? "asked";
      const by_itself = (this.#ports.wakes === true && isWoken(wake, info.chat)) || undefined;
      return { suspended: { reason, cause, wake, by_itself } };
    });
  }

  /** Gives a suspended run another model or effort. Returns its record; null when it is not suspended. */
  setModel(uuid: string, dataDir: string, { provider, effort }: ModelChoice): Promise<ProcInfo | null> {
    return this.#change(uuid, dataDir, (info) => ({
      effort: effort ?? info.effort,
      ...(provider && this.#switched(info, provider)),
    }));
  }

  #switched(info: ProcInfo, next: ProviderChoice): Partial<ProcInfo> {
    return {
      provider: next.name,
      model: next.model,
      provider_by_flag: next.byFlag ?? false,
      fallback: (next.fallbacks ?? []).map((one) => ({ provider: one.name, model: one.model })),
      provider_facts: providerFacts(next),
      switches: switchesWith(info, next, info.steps, this.#ports.clock),
    };
  }

  /** See LifecycleManager.answer. */
  async answer(uuid: string, dataDir: string, { id, answers, via }: GivenAnswer): Promise<void> {
    await this.#requireOwn(uuid, dataDir);
    if (!(await this.#ports.isGone(uuid))) throw notAsking(uuid, id);
    const changed = await this.#change(uuid, dataDir, (info) => {
      const ask = info.asks.find((one) => one.id === id);
      if (!ask) throw notAsking(uuid, id);
      if (ask.answers) {
        const by = ask.answered_by ? ` (${ask.answered_by})` : "";
        const message = `Question ${id} was answered already${by}, and the first answer counts.`;
        throw new SyscallError("CLOSED", message);
      }
      const answered = takeAnswers(ask, answers, via);
      return { asks: info.asks.map((one) => (one === ask ? answered : one)) };
    });
    if (!changed) throw notAsking(uuid, id);
  }

  /** Changes the record of a suspended run while it is claimed. Returns it; null when the run is not suspended. */
  async #change(
    uuid: string,
    dataDir: string,
    change: (info: ProcInfo) => Partial<ProcInfo>,
  ): Promise<ProcInfo | null> {
    await this.#requireOwn(uuid, dataDir);
    const claim = await this.#ports.claims().take(uuid, dataDir, "record");
    try {
      const runs = this.#ports.runs(dataDir);
      const info = await runs.info(uuid);
      if (info?.state !== "suspended") return null;
      const changed = { ...info, ...change(info) };
      await write(runs, changed);
      return changed;
    } finally {
      claim.release();
    }
  }

  /**
   * Ends a suspended run with this status, and with `tree` first the children that were suspended with it. `known`: its
   * record, also where a crash cut it off. Returns how many runs ended, and the record afterwards. `above`: the runs
   * that are being ended with it, because damaged records may form a circle.
   */
  async end(
    known: ProcInfo,
    dataDir: string,
    status: ExitStatus,
    tree: boolean,
    above: readonly string[] = [],
  ): Promise<{ ended: number; info: ProcInfo | null }> {
    const { uuid } = known;
    await this.#requireOwn(uuid, dataDir);
    const ending = [...above, uuid];
    const runs = this.#ports.runs(dataDir);
    const claim = await this.#ports.claims().take(uuid, dataDir, "record");
    try {
      const info = await this.#suspended(known, runs);
      if (info === null) return { ended: 0, info: await runs.info(uuid) };
      let ended = 1;
      const children: ChildResult[] = [];
      for (const child of info.children) {
        const ends = tree && isSuspended(child) && !ending.includes(child.uuid);
        const found = ends ? await runs.info(child.uuid) : null;
        const suspended = found?.foreign ? null : found;
        const end = suspended && (await this.end(suspended, dataDir, status, tree, ending));
        ended += end?.ended ?? 0;
        children.push(end?.info ? resultOf(end.info) : child);
      }
      const last = { ...asEnded(info, status), ended_at_ms: this.#ports.clock.now(), children };
      await write(runs, last);
      this.#ports.ended(uuid, status);
      return { ended, info: last };
    } finally {
      claim.release();
    }
  }

  /** Fails with PERMISSION for a foreign run, whose record must not change. */
  async #requireOwn(uuid: string, dataDir: string): Promise<void> {
    const info = await this.#ports.runs(dataDir).info(uuid);
    if (info) requireOwn(info);
  }

  /** The record of a suspended run, or `known` for a run that a crash cut off, after ending its programs. Otherwise null. */
  async #suspended(known: ProcInfo, runs: RunStore): Promise<ProcInfo | null> {
    if (!(await this.#ports.isGone(known.uuid))) return null;
    const left = await orphanedRecord(runs, known.uuid, (id) => this.#ports.kernelAlive(id));
    if (left?.info.state === "suspended") return left.info;
    if (!left || left.held || left.info.ended_at_ms !== null) return null;
    await this.#ports.sweepPrograms();
    return known;
  }
}

export interface GivenAnswer {
  id: string;
  answers: AskAnswer[];
  via: string;
}

function notAsking(uuid: string, id: string): SyscallError {
  const message = `Run ${uuid} does not wait for question ${id}. \`rnix asks\` lists the open ones.`;
  return new SyscallError("NOT_FOUND", message);
}

function asEnded(info: ProcInfo, { code, reason, error }: ExitStatus): ProcInfo {
  return {
    ...info,
    state: "dead",
    is_paused: false,
    paused_at_ms: 0,
    exit_code: code,
    exit_reason: reason,
    suspended: null,
    asks: [],
    error: error ? { code: error.code, message: error.message } : null,
  };
}

async function write(runs: RunStore, info: ProcInfo): Promise<void> {
  const record = await runs.reopen(info.uuid);
  record.info(info);
  await record.close();
}

/** How long to wait for a run that another caller has claimed, and how often to look. */
const CLAIM_MS = 2_000;
const CLAIM_LOOK_MS = 20;

export interface Claim {
  release(): void;
}

type ClaimPorts = Pick<KernelPorts, "clock" | "runs">;

/** Why a run is claimed: to resume it, or only to change its record. */
type Purpose = "resume" | "record";

/** Exclusive claims of runs without a process, within this kernel and between kernels. */
export class RunClaims {
  readonly #ports: ClaimPorts;
  /** Runs that this kernel has claimed. */
  readonly #taken = new Map<string, Purpose>();

  constructor(ports: ClaimPorts) {
    this.#ports = ports;
  }

  /** Waits for a claim that only changes the record. Fails with INVALID when another caller resumes the run. */
  async take(uuid: string, dataDir: string, purpose: Purpose): Promise<Claim> {
    const { clock } = this.#ports;
    const runs = this.#ports.runs(dataDir);
    const until = clock.monotonic() + CLAIM_MS;
    for (;;) {
      const claim = this.#takeNow(uuid, runs, purpose);
      if (claim) return claim;
      if (this.#taken.get(uuid) === "resume" || clock.monotonic() >= until) throw takenUp(uuid, runs);
      await new Promise<void>((resolve) => void clock.timer(CLAIM_LOOK_MS, resolve));
    }
  }

  #takeNow(uuid: string, runs: RunStore, purpose: Purpose): Claim | null {
    if (this.#taken.has(uuid)) return null;
    const lock = runs.claim(uuid);
    if (!lock) return null;
    this.#taken.set(uuid, purpose);
    return {
      release: () => {
        this.#taken.delete(uuid);
        lock.release({ remove: true });
      },
    };
  }
}

function takenUp(uuid: string, runs: RunStore): SyscallError {
  const process = runs.claimant(uuid);
  const by = process === null ? "another" : `another (rnix in process ${process})`;
  return new SyscallError("INVALID", `Run ${uuid} is being resumed by ${by} at this moment.`);
}
