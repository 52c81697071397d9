/** Decides when the conversation of a run is compacted. */

import { SyscallError } from "../../plugin/index.ts";
import { subtractUsage } from "../../run/usage.ts";
import type { Compaction } from "../../store/runs/schema.ts";
import { RunError, recordOrFail } from "../errors/kernel-errors.ts";
import type { ModelRequest } from "../llm/model-device.ts";
import type { Process } from "../process/process.ts";
import type { Io } from "../tiers/io.ts";
import type { AppliedCompaction, Limits, ProviderChoice } from "../types.ts";

type Why = Compaction["why"];

/** A compaction must save this share, or it is not worth losing the prompt cache. */
const MIN_GAIN = 0.1;
/** The conversation must grow by this share of the window before the next try. */
const GROWTH = 0.1;
/** If the user or the provider asks for it, the goal is at most this share of the current size. */
const REQUESTED_SHARE = 0.5;
/** The window is assumed to be this share of a request that the model refused as too long. */
const REFUSED_SHARE = 0.9;

/**
 * Keeps the conversation of one process within its model's context window, by tokens. It first cuts old results, then
 * lets the model summarise; if that fails, it makes a digest without the model. The prompt head and the messages of
 * the current step never change. The records keep the whole conversation.
 */
export class Compactor {
  readonly #parts: Io;
  readonly #proc: Process;
  /** No compaction below this number of tokens. */
  #quietBelow = 0;
  #refusedAt = Number.POSITIVE_INFINITY;

  constructor(parts: Io, proc: Process) {
    this.#parts = parts;
    this.#proc = proc;
  }

  /** Compacts between two steps, before the next reserves its budget: if it is too long, or on request. */
  async beforeStep(request: () => ModelRequest): Promise<void> {
    const proc = this.#proc;
    const tokens = proc.model.estimate.of(request());
    const asked = proc.requests.compaction;
    if (asked) {
      const done = await this.#compact(request, "asked", proc.run.step + 1);
      proc.requests.compaction = undefined;
      asked.resolve(done);
      return;
    }
    if (tokens < this.#targets().trigger || tokens < this.#quietBelow) return;
    await this.#compact(request, "tokens", proc.run.step + 1);
  }

  /** Compacts after the model refused the conversation as too long. Returns whether it is shorter now. */
  async afterRefusal(request: () => ModelRequest): Promise<boolean> {
    const proc = this.#proc;
    const tokens = proc.model.estimate.of(request());
    this.#refusedAt = Math.min(this.#refusedAt, tokens * REFUSED_SHARE);
    const { tokensAfter } = await this.#compact(request, "too_long", proc.run.step);
    return tokensAfter < tokens;
  }

  #targets(): TokenTargets {
    return tokenTargets(this.#proc.model.provider, this.#proc.spec.opts.limits, this.#refusedAt);
  }

  /** `step` is the step that follows. */
  async #compact(request: () => ModelRequest, why: Why, step: number): Promise<AppliedCompaction> {
    const proc = this.#proc;
    const targets = this.#targets();
    this.#parts.watchers.doing(proc, "compact", "compacting the conversation");
    const demanded = why === "tokens" ? Infinity : proc.model.estimate.of(request()) * REQUESTED_SHARE;
    const goal = Math.min(targets.goal, demanded);
    const spent = { ...proc.run.usage };
    const { draftCompaction } = await import("./compaction-draft.ts");
    const draft = await draftCompaction(this.#parts, proc, { request: request(), targets, goal });
    // Measured again, because the usage of the summary may have corrected the estimate.
    const before = proc.model.estimate.of(request());
    const after =
      draft === null ? before : proc.model.estimate.of({ ...request(), messages: draft.messages });
    const gains = draft !== null && after <= before * (1 - MIN_GAIN);
    this.#quietBelow = (gains ? after : before) + targets.window * GROWTH;
    if (!gains) return { tokensBefore: before, tokensAfter: before, by: null };
    const ts = new Date(this.#parts.clock.now()).toISOString();
    const { cut, summary } = draft;
    const usage = subtractUsage(proc.run.usage, spent);
    const compaction: Compaction = {
      ts,
      why,
      tokens_before: before,
      tokens_after: after,
      cut,
      summary,
      usage,
    };
    // In the journal first, so that an interrupted run resumes with it.
    const so_far = proc.usageSoFar;
    recordOrFail(() => proc.record.journal({ t: "compact", step, ts, compaction, so_far }));
    await this.#parts.ctx.compact(proc, compaction);
    proc.run.contextTokens = after;
    return { tokensBefore: before, tokensAfter: after, by: summary?.by ?? null };
  }
}

/** Whether the model refused a request as longer than its window. */
export function isTooLong(thrown: unknown): boolean {
  const error = thrown instanceof RunError ? thrown.error : thrown;
  return error instanceof SyscallError && error.tooLong === true;
}

/** The limits of a conversation's length, in tokens of the model request. */
export interface TokenTargets {
  /** The model's context window, including its answer. */
  window: number;
  /** The length at which it is compacted. */
  trigger: number;
  /** The length after a compaction, well below the trigger so that the next one is far away. */
  goal: number;
}

/** Share of the trigger. */
const GOAL_SHARE = 0.6;
/** The share of the window that is reserved for an answer at most. */
const MAX_ANSWER_SHARE = 0.5;

/**
 * Computes the targets from the model's window, or from the setting if the window is not known. `refusedAt` lowers it:
 * the model refused a request of about that length. A conversation is compacted before it reaches the length from which
 * all its tokens cost more.
 */
export function tokenTargets(
  model: Pick<ProviderChoice, "contextWindow" | "maxOutput" | "outputLimit" | "price">,
  limits: Pick<Limits, "context_window" | "compact_at">,
  refusedAt: number,
): TokenTargets {
  const { contextWindow, outputLimit = 0, maxOutput = outputLimit, price } = model;
  const window = Math.min(contextWindow ?? limits.context_window, refusedAt);
  const answer = Math.min(maxOutput, window * MAX_ANSWER_SHARE);
  const share = Math.min(window, price?.long?.above ?? window);
  const trigger = Math.min((share * limits.compact_at) / 100, window - answer);
  return { window, trigger, goal: trigger * GOAL_SHARE };
}
