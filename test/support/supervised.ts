import type {
  ChildSpec,
  CommandRequest,
  RestartPolicy,
  Shutdown,
  Strategy,
  SupervisorSpec,
} from "../../src/kernel/supervisor/spec.ts";
import type { PID } from "../../src/kernel/types.ts";
import { type LLMEvent, type LLMRequest, type MountType, SyscallError } from "../../src/plugin/index.ts";
import { failAtTheEnd } from "./at-the-end.ts";
import { FakeClock } from "./fake-clock.ts";
import { KernelHarness, says } from "./kernel.ts";
import { until } from "./until.ts";

interface ChildOptions {
  restart?: RestartPolicy;
  shutdown?: Shutdown;
}

const DAY = 86_400_000;

/**
 * A kernel with supervisors on a clock that the test moves. Agents wait in their first model call until the
 * test says how it continues.
 */
export class Supervised {
  readonly clock = new FakeClock();
  readonly h: KernelHarness;
  /** Children that do not start, and how often yet. */
  readonly broken = new Map<string, number>();
  /** Children in the order of their starts, and what their supervisors asked of them. */
  readonly starts: string[] = [];
  readonly #calls = new Map<string, PromiseWithResolvers<LLMEvent[]>>();
  readonly #generations = new Map<string, number>();

  constructor({ mounts, graceMs = 1_000 }: { mounts?: readonly MountType[]; graceMs?: number } = {}) {
    this.h = new KernelHarness({
      mounts,
      model: (request, signal) => this.#answer(request, signal),
      clock: this.clock,
      // Nothing of it ends by itself, however far the clock is moved.
      limits: {
        timeout: null,
        model_timeout: 365 * DAY,
        model_idle_timeout: 365 * DAY,
        spawn_depth: 9,
        grace: graceMs,
      },
    });
  }

  spec(
    strategy: Strategy,
    children: ChildSpec[],
    more: Partial<Pick<SupervisorSpec, "name" | "intensity" | "periodMs" | "backoff">> = {},
  ): SupervisorSpec {
    return {
      name: "top",
      strategy,
      intensity: 3,
      periodMs: 60_000,
      children,
      opts: async () => this.h.opts(),
      ...more,
    };
  }

  agent(id: string, options: ChildOptions = {}): ChildSpec {
    const plan = async () => {
      this.#tryToStart(id);
      const generation = (this.#generations.get(id) ?? 0) + 1;
      this.#generations.set(id, generation);
      return { intent: `${id} ${generation}`, agent: null, opts: this.h.opts() };
    };
    return { id, ...options, start: { kind: "agent", plan } };
  }

  command(id: string, request: CommandRequest, options: ChildOptions = {}): ChildSpec {
    const plan = async () => {
      this.#tryToStart(id);
      return { request, opts: this.h.opts() };
    };
    return { id, ...options, start: { kind: "command", plan } };
  }

  nested(id: string, spec: SupervisorSpec, options: ChildOptions = {}): ChildSpec {
    return { id, ...options, start: { kind: "supervisor", spec: { ...spec, name: id } } };
  }

  spawn(spec: SupervisorSpec): Promise<PID> {
    return this.h.kernel.supervisors.spawnSupervisor(spec);
  }

  children(supervisor: PID) {
    return this.h.kernel.supervisors.supervisorChildren(supervisor);
  }

  child(supervisor: PID, id: string) {
    const found = this.children(supervisor).find((child) => child.id === id);
    if (!found) throw new Error(`no child ${id}`);
    return found;
  }

  pid(supervisor: PID, id: string): PID {
    const { pid } = this.child(supervisor, id);
    if (pid === null) throw new Error(`child ${id} has no process`);
    return pid;
  }

  /** The model of this child's last process answers, and the run completes. */
  async finish(id: string): Promise<void> {
    (await this.#call(id)).resolve(says("done"));
  }

  /** The model of this child's last process fails, and the run with it. */
  async fail(id: string): Promise<void> {
    (await this.#call(id)).reject(new SyscallError("DRIVER", "the model is broken"));
  }

  async #call(id: string): Promise<PromiseWithResolvers<LLMEvent[]>> {
    const intent = `${id} ${this.#generations.get(id)}`;
    await until(() => this.#calls.has(intent), `the model call of ${intent}`);
    const call = this.#calls.get(intent);
    if (!call) throw new Error(`no call of ${intent}`);
    return call;
  }

  #tryToStart(id: string): void {
    this.starts.push(id);
    const left = this.broken.get(id) ?? 0;
    if (left === 0) return;
    this.broken.set(id, left - 1);
    throw new SyscallError("NOT_FOUND", `${id} can't be planned`);
  }

  #answer(request: LLMRequest, signal: AbortSignal): Promise<LLMEvent[]> {
    const call = Promise.withResolvers<LLMEvent[]>();
    const intent = request.messages.find(({ role }) => role === "user")?.content ?? "";
    this.#calls.set(intent, call);
    signal.addEventListener("abort", () => call.reject(signal.reason), { once: true });
    return call.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.h[Symbol.asyncDispose]();
    const left = { timers: this.clock.pending, supervisors: this.h.kernel.supervisors.size };
    if (Object.values(left).some((count) => count !== 0)) {
      failAtTheEnd(`left behind: ${JSON.stringify(left)}`);
    }
  }
}
