/** Resumes runs without their user. */

import type { Kernel } from "../../kernel/kernel.ts";
import type { ProviderChoice, SpawnOpts } from "../../kernel/types.ts";
import type { Logger } from "../../lib/logger.ts";
import { Semaphore } from "../../lib/semaphore.ts";
import { SyscallError } from "../../plugin/index.ts";
import { requireOwn } from "../../store/runs/own-run.ts";
import { keepAddress } from "../plan/keep-address.ts";
import type { SpawnPlan } from "../plan/plan-spawn.ts";
import type { PlacedResume } from "../plan/request-defaults.ts";
import type { Run } from "../records/recorded-run.ts";

/** Maximum runs resumed at the same time: a daemon may find hundreds. */
const MAX_CONCURRENT = 4;

/** Settings of a suspended run that are in memory only. */
export interface InMemorySettings extends Pick<SpawnOpts, "env" | "attended"> {
  provider: ProviderChoice | null;
}

interface AutoResumePorts {
  kernel: { lifecycle: Pick<Kernel["lifecycle"], "resume"> };
  find(uuid: string): Promise<Run | undefined>;
  planResume(run: Run, request: PlacedResume, provider?: ProviderChoice): Promise<SpawnPlan>;
  logger: Logger;
}

/**
 * Resumes runs without a caller: at their wake, or when a daemon starts. A run has its own keys while this daemon
 * lives, later those of the user's file (design §2, "Environment").
 */
export class AutoResume {
  readonly #ports: AutoResumePorts;
  readonly #slots = new Semaphore(MAX_CONCURRENT);

  constructor(ports: AutoResumePorts) {
    this.#ports = ports;
  }

  /** Resolves with its new PID. Rejects as a resume does: INVALID if another caller has resumed it. */
  async resume(uuid: string, why: string, inMemory?: InMemorySettings): Promise<number> {
    const { logger } = this.#ports;
    const { pid, notices } = await this.#slots.run(() => this.#resume(uuid, inMemory));
    logger.info(`PID ${pid}`, `resumes ${uuid} by itself: ${why}`);
    for (const notice of notices) logger.warn(`PID ${pid}`, notice);
    return pid;
  }

  async #resume(
    uuid: string,
    inMemory: InMemorySettings | undefined,
  ): Promise<{ pid: number; notices: string[] }> {
    const { kernel, find, planResume } = this.#ports;
    const run = await find(uuid);
    if (!run) throw new SyscallError("NOT_FOUND", `Nothing is on disk of run ${uuid}.`);
    requireOwn(run.info);
    if (run.info.moved_from !== undefined) {
      const message = `it was recorded in ${run.info.moved_from} and has been copied or moved: a person resumes it, so that it does not run twice.`;
      throw new SyscallError("INVALID", message);
    }
    const request = { env: { ...inMemory?.env }, attended: inMemory?.attended };
    const plan = await planResume(run, request, inMemory?.provider ?? undefined);
    const { agent, opts, notices } = inMemory ? plan : keepAddress(run.info, plan);
    const { pid } = await kernel.lifecycle.resume(uuid, agent, { ...opts, notices });
    return { pid, notices };
  }
}
