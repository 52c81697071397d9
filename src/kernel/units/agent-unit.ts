/** A unit that is a child in the background: an agent or a workflow. */

import { newLifecycleSignal, type Signal } from "../../daemons/signal.ts";
import { IDLE } from "../../daemons/snapshot.ts";
import type { Clock } from "../../lib/clock.ts";
import { SIGTERM } from "../../lib/signals.ts";
import type { Daemon, DaemonSnapshot, DaemonStatus } from "../../plugin/index.ts";
import type { Process } from "../process/process.ts";
import { killed } from "../process/verdict.ts";

interface AgentUnitOptions {
  id: string;
  /** The parent, which owns the unit. */
  agentId: string;
  child: Process;
  startedAt: string;
  clock: Clock;
  emit(signal: Signal): void;
  onFault(thrown: unknown): void;
}

/** Its child is a process like any other: suspended and resumed with its parent, with a record of its own. */
export class AgentUnit implements Daemon {
  /** Resolves when it has announced its end, or its child was suspended. Never rejects. */
  readonly done: Promise<void>;
  readonly #o: AgentUnitOptions;
  #endedAtMs: number | null = null;

  constructor(o: AgentUnitOptions) {
    this.#o = o;
    this.done = this.#finish().catch((thrown) => o.onFault(thrown));
  }

  snapshot(): DaemonSnapshot {
    const { id, agentId, child, startedAt } = this.#o;
    const { intent, result, exit_code, error } = child.info();
    const summary = exit_code === 0 || child.spec.opts.chat ? (result ?? "") : "";
    const err = exit_code === null || exit_code === 0 ? "" : (error?.message ?? child.exit?.reason ?? "");
    const { uuid, spec } = child;
    const doing = this.#endedAtMs === null ? child.doing() : undefined;
    const common = {
      id,
      status: this.#status(),
      description: (intent.split("\n", 1)[0] ?? "").slice(0, MAX_DESCRIPTION),
      agent_id: agentId,
      started_at: startedAt,
      ended_at: this.#endedAtMs === null ? null : new Date(this.#endedAtMs).toISOString(),
    };
    const kind = childKind(child);
    if (kind !== "local_agent") {
      const name = spec.opts.script?.name ?? spec.agent.name;
      const phase = child.waitsForMessage ? IDLE : (doing?.text ?? "");
      return { ...common, kind, metadata: { name, phase, summary, err, uuid } };
    }
    const phase = this.#endedAtMs === null ? (doing?.kind ?? "end") : "";
    const metadata = { agent_type: spec.agent.name, prompt: intent, async: true, phase, summary, err, uuid };
    return { ...common, kind: "local_agent", metadata };
  }

  async kill(): Promise<void> {
    this.#o.child.stop(killed(SIGTERM, this.#o.child.paused));
  }

  output(): string {
    const { child } = this.#o;
    return this.#endedAtMs === null ? (child.doing()?.text ?? "") : (child.info().result ?? "");
  }

  #status(): DaemonStatus {
    if (this.#endedAtMs === null) return "running";
    const { exit } = this.#o.child;
    if (exit?.code === 0) return "completed";
    return exit?.reason === "terminated" || exit?.reason === "killed" ? "killed" : "failed";
  }

  async #finish(): Promise<void> {
    const { child, clock, emit } = this.#o;
    const { reason } = await child.done;
    // It is resumed with its parent, as the same unit.
    if (reason === "suspended") return;
    this.#endedAtMs = clock.now();
    emit(newLifecycleSignal(this, this.#status(), clock.now()));
  }
}

/** The stock agent that tidies the memory is a dream. */
export function childKind({
  spec,
}: Process): "local_workflow" | "in_process_teammate" | "dream" | "local_agent" {
  if (spec.opts.script) return "local_workflow";
  if (spec.opts.chat) return "in_process_teammate";
  return spec.agent.name === "dream" ? "dream" : "local_agent";
}

/** Characters of an intent that describe its unit. */
const MAX_DESCRIPTION = 80;
