import { orAborted } from "../../lib/cancellation.ts";
import type { Clock } from "../../lib/clock.ts";
import { O_RDWR, SyscallError } from "../../plugin/index.ts";
import type { ModelSwitch } from "../../store/runs/schema.ts";
import { switchEntry } from "../events/log-entry.ts";
import type { FileSystem } from "../file-system.ts";
import type { Process } from "../process/process.ts";
import type { ProcessEvent, ProviderChoice } from "../types.ts";
import { fitToModel } from "./model-capabilities.ts";

export interface FallbackPorts {
  clock: Clock;
  files: FileSystem;
  emit(proc: Process, event: ProcessEvent): void;
  /** Writes the process record: the run goes on with this model also when it is cut off. */
  note(proc: Process): Promise<void>;
}

/** What keeps a failed call of a process's model from being the run's end: another key, or another model. */
export class Fallback {
  readonly #ports: FallbackPorts;
  readonly #proc: Process;
  /** The key that was fetched in place of a refused one: that one's refusal counts. */
  #renewed = false;

  constructor(ports: FallbackPorts, proc: Process) {
    this.#ports = ports;
    this.#proc = proc;
  }

  /** A call went well. */
  reset(): void {
    this.#renewed = false;
  }

  /**
   * Whether the call can be made again, now with another key (once) or by the next model that the run may fall back
   * to. From then on the run stays with that model.
   */
  async getsOver(thrown: unknown): Promise<boolean> {
    if (this.#proc.stopped || !(thrown instanceof SyscallError)) return false;
    if (thrown.code === "PERMISSION") return this.#renew();
    return isOfModel(thrown) && (await this.#next(thrown));
  }

  async #renew(): Promise<boolean> {
    const { provider, secrets, signal } = this.#proc;
    if (this.#renewed || !provider.renewSecret || secrets.last === undefined) return false;
    this.#renewed = true;
    try {
      return await orAborted(provider.renewSecret(secrets.last), signal);
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
      // That the key was refused is the run's error; why there is no other is told beside it.
      if (!this.#proc.stopped) this.#ports.emit(this.#proc, { type: "notice", text: thrown.message });
      return false;
    }
  }

  /** One that can't even be opened is passed over. */
  async #next(failed: SyscallError): Promise<boolean> {
    const proc = this.#proc;
    for (let error = failed; ; ) {
      const next = proc.fallbacks.shift();
      if (!next || proc.stopped) return false;
      const from = proc.provider;
      proc.provider = next;
      this.#tell(from, next, error);
      try {
        await this.#open(from, next);
        await this.#ports.note(proc);
        this.#renewed = false;
        return !proc.stopped;
      } catch (thrown) {
        if (!(thrown instanceof SyscallError)) throw thrown;
        error = thrown;
      }
    }
  }

  /** A provider's file serves all of its models. */
  async #open(from: ProviderChoice, next: ProviderChoice): Promise<void> {
    const { files } = this.#ports;
    const proc = this.#proc;
    const before = proc.llmFd;
    if (from.name === next.name && proc.fds.has(before)) return;
    const told = proc.notices.length;
    proc.llmFd = await files.open(proc, next.device, O_RDWR, { kind: "kernel" });
    try {
      await fitToModel(files, proc);
    } catch (thrown) {
      await files.close(proc, proc.llmFd);
      proc.llmFd = before;
      throw thrown;
    }
    for (const text of proc.notices.slice(told)) this.#ports.emit(proc, { type: "notice", text });
    // That its driver does not let go of it well is in the trace, and keeps nobody from going on.
    if (proc.fds.has(before)) await files.close(proc, before).catch(() => undefined);
  }

  #tell(from: ProviderChoice, to: ProviderChoice, { code, message }: SyscallError): void {
    const { clock, emit } = this.#ports;
    const { step, switches } = this.#proc;
    const made: ModelSwitch = {
      step,
      ts: new Date(clock.now()).toISOString(),
      from: { provider: from.name, model: from.model },
      to: { provider: to.name, model: to.model },
      error: { code, message },
    };
    switches.push(made);
    emit(this.#proc, { type: "log", entry: switchEntry(made) });
  }
}

/**
 * Whether another model may do better: this one is not there, is overloaded or down after all retries, has used up its
 * quota, is silent, or answers nothing that can be used. Not with a request that is wrong, nor with a key that is: a
 * person has to look at that.
 */
function isOfModel({ code, retryable }: SyscallError): boolean {
  if (code === "NOT_FOUND" || code === "UNAVAILABLE" || code === "TIMEOUT") return true;
  // A quota that no time refills is that of an account without credit; another provider has its own.
  if (code === "EXHAUSTED") return true;
  return code === "DRIVER" && retryable === true;
}
