import { SyscallError } from "../../plugin/index.ts";
import type { RunStore } from "../../store/runs.ts";
import type { Clock } from "../clock.ts";

/** How long, and how often, a run is asked for that another has. */
const CLAIM_MS = 2_000;
const CLAIM_LOOK_MS = 20;

export interface Claim {
  release(): void;
}

interface ClaimPorts {
  clock: Clock;
  /** The records of one data folder. */
  runs(dataDir: string): RunStore;
}

/** Who changes a run that has no process has it for himself meanwhile: in this kernel, and over all others. */
export class RunClaims {
  readonly #ports: ClaimPorts;
  /** Runs that this kernel has taken. */
  readonly #taken = new Set<string>();

  constructor(ports: ClaimPorts) {
    this.#ports = ports;
  }

  /** Whoever only writes down that it was cut off is waited for. INVALID when somebody goes on with it. */
  async take(uuid: string, dataDir: string): Promise<Claim> {
    const runs = this.#ports.runs(dataDir);
    if (this.#taken.has(uuid)) throw takenUp(uuid, runs);
    this.#taken.add(uuid);
    try {
      const lock = await this.#lock(uuid, runs);
      return {
        release: () => {
          this.#taken.delete(uuid);
          lock.release({ remove: true });
        },
      };
    } catch (thrown) {
      this.#taken.delete(uuid);
      throw thrown;
    }
  }

  async #lock(uuid: string, runs: RunStore): Promise<{ release(o: { remove: true }): void }> {
    const { clock } = this.#ports;
    const until = clock.monotonic() + CLAIM_MS;
    for (;;) {
      const lock = runs.claim(uuid);
      if (lock) return lock;
      if (clock.monotonic() >= until) throw takenUp(uuid, runs);
      await new Promise<void>((resolve) => void clock.timer(CLAIM_LOOK_MS, resolve));
    }
  }
}

function takenUp(uuid: string, runs: RunStore): SyscallError {
  const process = runs.claimant(uuid);
  const by = process === null ? "another" : `another (rnix in process ${process})`;
  return new SyscallError("INVALID", `Run ${uuid} is being resumed by ${by} at this moment.`);
}
