import type { Clock } from "../../lib/clock.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { Compaction, SoFar } from "../../store/runs/schema.ts";
import { subtractUsage } from "../budget/usage.ts";
import type { ContextManager } from "../context-manager.ts";
import { RunError, recordOrFail } from "../errors/run-error.ts";
import { compactEntry } from "../events/log-entry.ts";
import type { ModelCallPorts } from "../llm/model-call.ts";
import type { ModelRequest } from "../llm/model-request.ts";
import type { Process } from "../process/process.ts";
import { usageSoFar } from "../process/step-record.ts";
import type { AppliedCompaction } from "../types.ts";
import { draftCompaction } from "./compaction-draft.ts";
import { type TokenTargets, tokenTargets } from "./token-targets.ts";

interface CompactorPorts extends ModelCallPorts {
  clock: Clock;
  ctx: ContextManager;
}

type Why = Compaction["why"];

/** It must make it shorter by this share, or the prompt cache is given up for nothing. */
const LEAST_GAIN = 0.1;
/** It is not tried again before the conversation has grown by this share of the window. */
const GROWTH = 0.1;
/** On a person's word, or the provider's, it is made shorter than it is by at least this share. */
const DEMANDED = 0.5;
/** Of what a model has refused, so much may be sent to it. */
const REFUSED = 0.9;

/**
 * Keeps the conversation of one process within what its model takes (design §4). It goes by tokens alone; it first
 * cuts old results, then has the model summarise, and does without the model where that fails. The head of the prompt
 * never changes, and what the step under way has been told stays as it is. Nothing is lost with it: the records keep
 * all that was said.
 */
export class Compactor {
  readonly #ports: CompactorPorts;
  readonly #proc: Process;
  /** Not before the conversation has so many tokens. */
  #quietBelow = 0;
  #refusedAt = Number.POSITIVE_INFINITY;

  constructor(ports: CompactorPorts, proc: Process) {
    this.#ports = ports;
    this.#proc = proc;
  }

  /** Between two steps, before the budget of the next is held back: where it has become too long, or somebody asks. */
  async beforeStep(request: () => ModelRequest): Promise<void> {
    const proc = this.#proc;
    const tokens = proc.estimate.of(request());
    const asked = proc.compacting;
    if (asked) {
      const done = await this.#compact(request, "asked", proc.step + 1);
      proc.compacting = undefined;
      asked.resolve(done);
      return;
    }
    if (tokens < this.#room().trigger || tokens < this.#quietBelow) return;
    await this.#compact(request, "tokens", proc.step + 1);
  }

  /** The model has refused the conversation as too long: whether it is shorter now, and may be sent again. */
  async afterRefusal(request: () => ModelRequest): Promise<boolean> {
    const proc = this.#proc;
    const tokens = proc.estimate.of(request());
    this.#refusedAt = Math.min(this.#refusedAt, tokens * REFUSED);
    const { tokensAfter } = await this.#compact(request, "too_long", proc.step);
    return tokensAfter < tokens;
  }

  #room(): TokenTargets {
    return tokenTargets(this.#proc.provider, this.#proc.spec.opts.limits, this.#refusedAt);
  }

  /** `step`: the one that it comes before. */
  async #compact(request: () => ModelRequest, why: Why, step: number): Promise<AppliedCompaction> {
    const proc = this.#proc;
    const room = this.#room();
    const demanded = why === "tokens" ? Infinity : proc.estimate.of(request()) * DEMANDED;
    const goal = Math.min(room.goal, demanded);
    const spent = { ...proc.usage };
    const draft = await draftCompaction(this.#ports, proc, { request: request(), room, goal });
    // By one measure: the summary's own usage may have set the estimate right.
    const before = proc.estimate.of(request());
    const after = draft === null ? before : proc.estimate.of({ ...request(), messages: draft.messages });
    const gains = draft !== null && after <= before * (1 - LEAST_GAIN);
    this.#quietBelow = (gains ? after : before) + room.window * GROWTH;
    if (!gains) return { tokensBefore: before, tokensAfter: before, by: null };
    const ts = new Date(this.#ports.clock.now()).toISOString();
    const compaction: Compaction = {
      ts,
      why,
      tokens_before: before,
      tokens_after: after,
      cut: draft.cut,
      summary: draft.summary,
      usage: subtractUsage(proc.usage, spent),
    };
    await this.#apply(compaction, step);
    return { tokensBefore: before, tokensAfter: after, by: draft.summary?.by ?? null };
  }

  /** On disk first: a run that is cut off in between goes on from it. */
  async #apply(compaction: Compaction, step: number): Promise<void> {
    const proc = this.#proc;
    const { ts } = compaction;
    const so_far: SoFar = usageSoFar(proc);
    recordOrFail(() => proc.record.journal({ t: "compact", step, ts, compaction, so_far }));
    await this.#ports.ctx.compact(proc, compaction);
    this.#ports.emit(proc, { type: "log", entry: compactEntry({ ts, step }, compaction) });
  }
}

/** The model's word that it was sent more than it takes. */
export function isTooLong(thrown: unknown): boolean {
  const error = thrown instanceof RunError ? thrown.error : thrown;
  return error instanceof SyscallError && error.tooLong === true;
}
