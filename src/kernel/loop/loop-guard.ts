/** Detects runs that repeat themselves. */

import { normalizeOutputNames } from "../../os/output.ts";
import type { ToolCallRecord } from "../../store/runs/schema.ts";

/** The breaker trips when the same failure occurs in this many steps in a row. */
const FAILING_STEPS_IN_A_ROW = 8;
/** The breaker also trips at this count of failing steps, which a step without failure lowers by one. */
const FAILING_STEPS = 16;

type Trip = { reason: "loop_detected" | "circuit_breaker"; message: string };

/**
 * Ends runs that loop. It has two detectors over whole steps. A loop is the same calls with the same input and the
 * same results `threshold` times in a row. The circuit breaker counts each failure (error code and tool) once per
 * step. Cancelled calls and timeouts don't count as failures.
 */
export class LoopGuard {
  readonly #threshold: number;
  #last = "";
  #repeats = 0;
  #inARow = new Map<string, number>();
  #failing = 0;

  constructor(threshold: number) {
    this.#threshold = threshold;
  }

  /** Adds a finished step's calls. Returns why the run must end, or undefined. */
  step(calls: readonly ToolCallRecord[]): Trip | undefined {
    return this.#loop(calls) ?? this.#breaker(calls);
  }

  #loop(calls: readonly ToolCallRecord[]): Trip | undefined {
    if (calls.length === 0) return undefined;
    const print = fingerprint(calls);
    this.#repeats = print === this.#last ? this.#repeats + 1 : 1;
    this.#last = print;
    if (this.#repeats < this.#threshold) return undefined;
    const names = calls.map((call) => call.name).join(", ");
    return {
      reason: "loop_detected",
      message: `The same calls (${names}) with the same input gave the same result ${this.#repeats} times in a row.`,
    };
  }

  #breaker(calls: readonly ToolCallRecord[]): Trip | undefined {
    const failures = new Set(
      calls
        .filter(
          (call) => (call.state === "failed" || call.state === "denied") && call.error_code !== "TIMEOUT",
        )
        .map((call) => `${call.error_code} of ${call.name}`),
    );
    const counts = new Map<string, number>();
    for (const failure of failures) counts.set(failure, (this.#inARow.get(failure) ?? 0) + 1);
    this.#inARow = counts;
    this.#failing = failures.size > 0 ? this.#failing + 1 : Math.max(0, this.#failing - 1);
    for (const [failure, count] of counts) {
      if (count >= FAILING_STEPS_IN_A_ROW) {
        return { reason: "circuit_breaker", message: `${count} steps in a row ended in ${failure}.` };
      }
    }
    if (this.#failing < FAILING_STEPS) return undefined;
    return {
      reason: "circuit_breaker",
      message: `${this.#failing} steps, nearly all of the latest, had a failing call.`,
    };
  }
}

function fingerprint(calls: readonly ToolCallRecord[]): string {
  const hash = new Bun.CryptoHasher("sha1");
  for (const call of calls) {
    const result = call.result === null ? null : normalizeOutputNames(call.result);
    hash.update(JSON.stringify([call.name, call.input, call.state, result, call.error_code]));
  }
  return hash.digest("hex");
}
