/** Switches a run to its next model when one fails. */

import { orAborted } from "../../lib/clock.ts";
import { type Effort, O_RDWR, SyscallError } from "../../plugin/index.ts";
import type { ModelSwitch } from "../../store/runs/schema.ts";
import { recordOrFail } from "../errors/kernel-errors.ts";
import type { FileSystem } from "../file-system.ts";
import type { Process } from "../process/process.ts";
import type { Io } from "../tiers/io.ts";
import type { ProviderChoice } from "../types.ts";

/**
 * Recovers from the failures of one model call: with a new key, a reopened device, or the next fallback model. It knows
 * what was tried since the last answer.
 */
export class Fallback {
  readonly #parts: Io;
  readonly #proc: Process;
  /** The current key was already fetched again: if it is refused too, the call fails. */
  #renewed = false;
  /** The device was already opened again. */
  #reopened = false;

  constructor(parts: Io, proc: Process) {
    this.#parts = parts;
    this.#proc = proc;
  }

  /**
   * Returns true if the call can be retried: with a new key (once), on the reopened device of a plugin that has
   * ended (once), or with the next fallback model. The run then keeps that model.
   */
  async recover(thrown: unknown): Promise<boolean> {
    if (this.#proc.stopped || !(thrown instanceof SyscallError)) return false;
    if (thrown.code === "PERMISSION") return this.#renewKey();
    if (thrown.code === "CLOSED" && (await this.#reopen())) return true;
    return isModelFault(thrown) && (await this.#switchModel(thrown));
  }

  /**
   * Takes the model and effort that the user has chosen, for the next call and all later ones. If the model's device can't
   * be opened, it fails and nothing changes.
   */
  async change(next: ProviderChoice | undefined, effort: Effort | undefined): Promise<void> {
    const proc = this.#proc;
    const { model, spec } = proc;
    const from = model.provider;
    const before = spec.opts.effort;
    if (effort) spec.opts.effort = effort;
    try {
      if (next) {
        proc.model.provider = next;
        await this.#openModel(from, next);
      }
      // A device that stays open may get another effort.
      await fitToModel(this.#parts.files, proc);
    } catch (thrown) {
      proc.model.provider = from;
      spec.opts.effort = before;
      throw thrown;
    }
    if (next) {
      proc.model.fallbacks.splice(0, proc.model.fallbacks.length, ...(next.fallbacks ?? []));
      this.#recordSwitch(from, next, null, proc.run.recordedStep + 1);
    }
    await this.#parts.saveInfo(proc);
  }

  async #renewKey(): Promise<boolean> {
    const { model, secrets, work } = this.#proc;
    const { provider } = model;
    if (this.#renewed || !provider.renewSecret || secrets.last === undefined) return false;
    this.#renewed = true;
    try {
      return await orAborted(provider.renewSecret(secrets.last), work.signal);
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
      // The run fails because the key was refused. Why no other key was found is only a notice.
      if (!this.#proc.stopped) this.#parts.watchers.notice(this.#proc, thrown.message);
      return false;
    }
  }

  /** The plugin of its device has ended: opening starts it again. */
  async #reopen(): Promise<boolean> {
    if (this.#reopened) return false;
    this.#reopened = true;
    const { files } = this.#parts;
    const proc = this.#proc;
    const before = proc.model.fd;
    try {
      proc.model.fd = await files.open(proc, proc.model.provider.device, O_RDWR, { kind: "kernel" });
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
      if (!proc.stopped) this.#parts.watchers.notice(proc, thrown.message);
      return false;
    }
    await this.#close(before);
    return !proc.stopped;
  }

  /** A failing close is in the trace. It does not stop the run. */
  async #close(fd: number): Promise<void> {
    if (this.#proc.fds.has(fd)) await this.#parts.files.close(this.#proc, fd).catch(() => undefined);
  }

  /** Skips models whose device can't be opened. */
  async #switchModel(failed: SyscallError): Promise<boolean> {
    const proc = this.#proc;
    for (let error = failed; ; ) {
      const next = proc.model.fallbacks.shift();
      if (!next || proc.stopped) return false;
      const from = proc.model.provider;
      proc.model.provider = next;
      this.#recordSwitch(from, next, error);
      try {
        await this.#openModel(from, next);
        await this.#parts.saveInfo(proc);
        this.#renewed = false;
        return !proc.stopped;
      } catch (thrown) {
        if (!(thrown instanceof SyscallError)) throw thrown;
        error = thrown;
      }
    }
  }

  /** Opens the device of the new model; models of the same provider share one. */
  async #openModel(from: ProviderChoice, next: ProviderChoice): Promise<void> {
    const { files } = this.#parts;
    const proc = this.#proc;
    const before = proc.model.fd;
    if (from.name === next.name && proc.fds.has(before)) return;
    const noticesBefore = proc.notices.length;
    proc.model.fd = await files.open(proc, next.device, O_RDWR, { kind: "kernel" });
    try {
      await fitToModel(files, proc);
    } catch (thrown) {
      await files.close(proc, proc.model.fd);
      proc.model.fd = before;
      throw thrown;
    }
    for (const text of proc.notices.slice(noticesBefore)) this.#parts.watchers.notice(proc, text);
    await this.#close(before);
  }

  #recordSwitch(
    from: ProviderChoice,
    to: ProviderChoice,
    failed: SyscallError | null,
    step = this.#proc.run.step,
  ): void {
    const { record, model } = this.#proc;
    const made: ModelSwitch = {
      step,
      ts: new Date(this.#parts.clock.now()).toISOString(),
      from: { provider: from.name, model: from.model },
      to: { provider: to.name, model: to.model },
      error: failed && { code: failed.code, message: failed.message },
    };
    model.switches.push(made);
    recordOrFail(() => record.journal({ t: "switch", ...made }));
  }
}

/**
 * Whether another model may succeed: this one does not exist, is overloaded or down after all retries, has used up its
 * quota, is silent, has a plugin that ended, or gives unusable answers. A wrong request or key is left to the user.
 */
function isModelFault({ code, retryable }: SyscallError): boolean {
  if (code === "NOT_FOUND" || code === "UNAVAILABLE" || code === "TIMEOUT" || code === "CLOSED") return true;
  // The quota of the key or the credit of the account is used up. Another provider has its own quota.
  if (code === "EXHAUSTED") return true;
  return code === "DRIVER" && retryable === true;
}

/**
 * Fits a run's settings to what the driver of its open model supports. An unsupported effort is left out of the
 * requests, with a notice. Fails with INVALID if the run has images and the driver accepts none.
 */
export async function fitToModel(files: FileSystem, proc: Process): Promise<void> {
  const { effort } = proc.spec.opts;
  proc.model.effort = undefined;
  if (effort === undefined && proc.conversation.images.length === 0) return;
  const { device } = proc.model.provider;
  const facts = await files.facts(proc, proc.model.fd);
  if (proc.conversation.images.length > 0 && facts.images !== true) {
    const message = `The run has images (--add), but ${device} accepts none. Leave them out, or choose another provider.`;
    throw new SyscallError("INVALID", message);
  }
  if (effort === undefined) return;
  if (facts.effort === true) proc.model.effort = effort;
  else proc.notices.push(`effort ${effort} is left out: ${device} has no such setting`);
}
