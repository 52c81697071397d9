/** Makes the run's result of its final answer. */

import { SyscallError } from "../../plugin/index.ts";
import type { Process } from "../process/process.ts";
import type { RunOutcome } from "../process/verdict.ts";
import type { Core } from "../tiers/core.ts";
import { OutputSchema } from "./output-schema.ts";

/** How often a model is asked to correct the form of its answer. */
const MAX_CORRECTIONS = 2;

/** Turns an agent's final answer into the run's result, or asks for a correction if it does not fit the schema. */
export class FinalAnswer {
  readonly #parts: Core;
  readonly #proc: Process;
  #schema: OutputSchema | undefined;
  /** The answer that was read last: it may be long, and is read twice. */
  #last: { answer: string; reading: ReturnType<OutputSchema["read"]> } | undefined;

  constructor(parts: Core, proc: Process) {
    this.#parts = parts;
    this.#proc = proc;
  }

  fits(answer: string): boolean {
    return !("problem" in this.#read(answer));
  }

  /** Whether the run ends with this answer: it fits, or it is not corrected any more. */
  isLast(answer: string): boolean {
    return this.#proc.run.corrections >= MAX_CORRECTIONS || this.fits(answer);
  }

  /** Returns how the run ends; undefined if the model was asked for a correction. */
  take(answer: string): RunOutcome | undefined {
    const proc = this.#proc;
    const reading = this.#read(answer);
    proc.result.text = answer;
    if (!("problem" in reading)) {
      proc.result.text = reading.text;
      proc.result.output = reading.output;
      return { kind: "finished" };
    }
    const { problem } = reading;
    if (proc.run.corrections >= MAX_CORRECTIONS) return unfit(problem);
    proc.run.corrections++;
    proc.run.completion = null;
    const again = `correction ${proc.run.corrections} of ${MAX_CORRECTIONS}`;
    const text = `the answer does not fit the output schema and is asked for again (${again}): ${problem}`;
    this.#parts.watchers.notice(proc, text);
    const content = `Your answer does not fit the JSON Schema that it must fit: ${problem}. Answer again, with the corrected JSON document alone.`;
    // The message is appended when `append` returns; only its trace comes later.
    this.#parts.ctx.append(proc, { role: "user", content }).catch(() => undefined);
    return undefined;
  }

  #read(answer: string): ReturnType<OutputSchema["read"]> {
    const { output_schema } = this.#proc.spec.opts;
    if (output_schema === undefined) return { output: null, text: answer };
    this.#schema ??= new OutputSchema(output_schema);
    if (this.#last?.answer !== answer) this.#last = { answer, reading: this.#schema.read(answer) };
    return this.#last.reading;
  }
}

function unfit(problem: string): RunOutcome {
  const message = `The agent finished, but its answer does not fit the output schema, also after ${MAX_CORRECTIONS} corrections: ${problem}.`;
  return { kind: "broken", reason: "check_failed", error: new SyscallError("INVALID", message) };
}
