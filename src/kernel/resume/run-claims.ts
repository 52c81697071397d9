/** Claims a run, so that only one caller resumes it. */

import { SyscallError } from "../../plugin/index.ts";
import type { RunStore } from "../../store/runs/run-store.ts";
import type { KernelPorts } from "../kernel-ports.ts";

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
