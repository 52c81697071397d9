/** Decides what an answer ends: nothing, the turn of a chat, or the run. */

import { type LLMAnswer, SyscallError } from "../../plugin/index.ts";
import type { Turns } from "../chat/turns.ts";
import type { ModelCall } from "../llm/model-call.ts";
import type { Process } from "../process/process.ts";
import { type BrokenRun, broken, type RunOutcome } from "../process/verdict.ts";
import type { Core } from "../tiers/core.ts";
import type { Io } from "../tiers/io.ts";
import { awaitMounts } from "../tools/tool-catalog.ts";
import type { ExitReason } from "../types.ts";
import type { Checks } from "./checks.ts";
import { OutputSchema } from "./output-schema.ts";
import type { StepRecorder } from "./step.ts";

interface TurnEndParts {
  model: ModelCall;
  turns: Turns;
  checks: Checks;
  finalAnswer: FinalAnswer;
  recorder: StepRecorder;
}

type Answered = Pick<LLMAnswer, "content" | "stop_word"> & { stop_reason?: LLMAnswer["stop_reason"] };

/** The ends that the loop guard causes. */
const LOOPS: ReadonlySet<ExitReason> = new Set(["loop_detected", "circuit_breaker"]);

/** The end of a turn: of an answer to the user's message in a chat, of the whole run elsewhere. */
export class TurnEnd {
  readonly #io: Io;
  readonly #proc: Process;
  readonly #parts: TurnEndParts;
  /**
   * What became of the last answer: `final` if it is the result, also while its checks run; `held` while it waits for
   * units of the run that still live; undefined if the model is asked again.
   */
  #end: "final" | { held: string } | undefined;

  constructor(io: Io, proc: Process, parts: TurnEndParts) {
    this.#io = io;
    this.#proc = proc;
    this.#parts = parts;
  }

  /** The run would have ended, and waits for its units. */
  get isHeld(): boolean {
    return typeof this.#end === "object";
  }

  /** Every unit is over and the model has read all of it: ends the run with the answer that was held. */
  async release(): Promise<RunOutcome | undefined> {
    const answer = typeof this.#end === "object" ? this.#end.held : "";
    this.#end = undefined;
    this.#parts.turns.reopen();
    return this.#conclude(answer);
  }

  /** The model is asked again: its last answer is no longer the result. */
  reopen(): void {
    this.#end = undefined;
    // What an interruption left as the result is replaced by the next answer.
    this.#proc.result.partial = false;
  }

  /** Whether the answer would end the run, as far as that is known when its step is recorded. */
  ends(answer: LLMAnswer): boolean {
    const { inboxes } = this.#io;
    const { run, spec, toolset } = this.#proc;
    const { finalAnswer } = this.#parts;
    if (spec.opts.chat) return false;
    if (run.completion !== null) return !this.#waitsForUnits() && finalAnswer.isLast(run.completion);
    if (continues(answer) || !inboxes.of(this.#proc).isEmpty || this.#waitsForUnits()) return false;
    if ([...toolset.starting.values()].some(({ isPromised }) => isPromised)) return false;
    return this.#cut(answer) !== undefined || finalAnswer.isLast(this.#withPauses(answer.content));
  }

  /** What an answer with its finished calls ends; undefined if the run continues. */
  async outcomeOf(answer: LLMAnswer): Promise<RunOutcome | undefined> {
    const proc = this.#proc;
    if (proc.run.completion !== null) {
      const outcome = this.#parts.finalAnswer.take(proc.run.completion);
      return outcome?.kind === "finished" ? this.complete(outcome) : outcome;
    }
    return continues(answer) ? undefined : this.finish(answer);
  }

  /** Ends the run with an answer without calls, unless the answer is not the last. */
  async finish(answer: Answered): Promise<RunOutcome | undefined> {
    const proc = this.#proc;
    const whole = this.#withPauses(answer.content);
    const cut = this.#cut(answer);
    if (proc.spec.opts.chat) {
      if (cut) this.#io.watchers.notice(proc, cut.error.message);
      return this.#endTurn(whole);
    }
    if (!cut) return this.#conclude(whole);
    if (!(await this.#io.inboxes.of(proc).finish())) return undefined;
    proc.result.cut(whole);
    return cut;
  }

  /** Ends the run with the input of Complete, unless the user has sent a message: the model reads it first. */
  async complete(finished: RunOutcome): Promise<RunOutcome | undefined> {
    const proc = this.#proc;
    const answer = proc.run.completion ?? "";
    if (proc.spec.opts.chat) return this.#endTurn(answer);
    const inbox = this.#io.inboxes.of(proc);
    if (inbox.inputs.length === 0) {
      if (this.#waitsForUnits()) return this.#hold(answer);
      const outcome = await this.checked(finished);
      if (outcome?.kind !== "finished" || (await inbox.finish(() => inbox.inputs.length > 0))) return outcome;
    }
    proc.run.turnOver = true;
    return this.#reject();
  }

  /** A chat does not end by a loop: the user decides what follows. */
  unlessInChat(outcome: RunOutcome | undefined): RunOutcome | undefined | Promise<undefined> {
    if (outcome?.kind !== "broken" || !this.#proc.spec.opts.chat || !LOOPS.has(outcome.reason))
      return outcome;
    return this.failedTurn(outcome.error.message);
  }

  /**
   * The model of a chat can't answer, or it turns in a circle: the user decides what follows. What the model was to read
   * is in the inbox again, and waits for a new message.
   */
  async failedTurn(why: string): Promise<undefined> {
    const proc = this.#proc;
    proc.work.arriving = "";
    proc.run.dropStep();
    await this.#parts.turns.putBack();
    this.#parts.turns.end({ onlyNew: true });
    this.keepPartial();
    proc.notices.push(why);
    this.#io.watchers.notice(proc, why);
    await this.#io.saveInfo(proc);
  }

  /** The interrupted work has ended: it is the user's turn. `putBack`: messages that are in the inbox again. */
  async endInterruption(putBack: readonly number[], answerCut = false): Promise<undefined> {
    const proc = this.#proc;
    // Clients that follow the run see where the answer stops.
    this.#io.watchers.notice(proc, "interrupted");
    if (answerCut) proc.run.answerCut = true;
    proc.run.completion = null;
    this.keepPartial();
    this.#parts.turns.end({ onlyNew: proc.work.interrupted });
    await this.#io.saveInfo(proc);
    proc.work.endInterruption(putBack);
  }

  /** Keeps the incomplete answer as the partial result. Not called for a run that finished. */
  keepPartial(): void {
    if (this.#end === "final") return;
    const proc = this.#proc;
    const text = proc.work.arriving || this.#parts.recorder.lastText || proc.result.text;
    if (text) proc.result.cut(text);
  }

  /** The answer with the text of the pauses before it. */
  #withPauses(content: string): string {
    const { messages } = this.#io.ctx.prompt(this.#proc);
    const before = messages.slice(0, -1);
    const other = before.findLastIndex((message) => message.role !== "assistant" || message.tool_calls);
    return [...before.slice(other + 1).map((message) => message.content), content].join("");
  }

  /**
   * Ends the run with the final answer, unless new messages are in the inbox: the model reads them first. One may still
   * come, of tools that it was promised.
   */
  async #conclude(answer: string): Promise<RunOutcome | undefined> {
    if (!this.#parts.finalAnswer.fits(answer)) return this.#parts.finalAnswer.take(answer);
    // If messages are waiting, they begin another turn.
    this.#proc.run.turnOver = true;
    await awaitMounts(this.#proc, (_prefix, { isPromised }) => isPromised);
    const inbox = this.#io.inboxes.of(this.#proc);
    if (inbox.isEmpty && this.#waitsForUnits()) return this.#hold(answer);
    if (!inbox.isEmpty || (this.#parts.checks.isLast && !(await inbox.finish()))) return undefined;
    const outcome = await this.checked(this.#parts.finalAnswer.take(answer));
    return outcome?.kind !== "finished" || (await inbox.finish()) ? outcome : undefined;
  }

  /** A unit that lives, or whose end the model has not read, keeps the run alive, unless the run is to end its units. */
  #waitsForUnits(): boolean {
    const proc = this.#proc;
    if (!this.#io.units.isBusy(proc)) return false;
    const { on_units = "wait" } = proc.spec.opts;
    const live = this.#io.units.list(proc).map(({ id }) => id);
    proc.run.heldBy = { on_units, ids: [...new Set([...(proc.run.heldBy?.ids ?? []), ...live])] };
    return on_units !== "kill";
  }

  #hold(answer: string): undefined {
    this.#proc.run.completion = null;
    this.#end = { held: answer };
    this.#proc.result.answer(answer);
    this.#parts.turns.end();
  }

  /** The answer to the user's message is complete. The chat waits for the next one. */
  async #endTurn(answer: string): Promise<undefined> {
    const proc = this.#proc;
    proc.run.completion = null;
    proc.result.answer(answer);
    this.#parts.turns.end();
    this.#end = "final";
    this.#io.units.answered(proc, answer);
    await this.#io.saveInfo(proc);
  }

  /** Ends the run as `outcome` says, unless a check fails and the run continues with its output. */
  async checked(outcome: RunOutcome | undefined): Promise<RunOutcome | undefined> {
    const proc = this.#proc;
    this.#end = "final";
    const passed = await this.#parts.checks.pass();
    if (proc.stopped) return { kind: "stopped", status: proc.stopped };
    if (passed) return outcome;
    return this.#reject();
  }

  /** The answer is not the result after all: the run continues. */
  #reject(): undefined {
    this.#end = undefined;
    this.#proc.run.completion = null;
    this.#proc.result.output = null;
  }

  /** How a run ends whose last answer is incomplete; undefined if the answer is complete. */
  #cut({ stop_reason, stop_word }: Answered): BrokenRun | undefined {
    const stopped = JSON.stringify(stop_word ?? stop_reason);
    switch (stop_reason) {
      case "refusal":
        return broken("failed", refused(stop_word));
      case "max_tokens":
        if (WINDOW_FULL.has(stop_word ?? ""))
          return broken(
            "llm_error",
            `The answer was cut off because the conversation fills the model's context window (${stopped}). Use a model with a larger one, or set context_window in providers.yaml so that the conversation is compacted earlier.`,
          );
        return this.#parts.model.cutByBudget
          ? broken("budget_exceeded", BUDGET_USED)
          : broken("llm_error", OUTPUT_LIMIT);
      case "other":
        return broken(
          "llm_error",
          `The model ended its answer with ${stopped}, which is not a known stop reason. The partial answer is kept. Resume the run to ask again, or use another model or provider.`,
        );
      default:
        return undefined;
    }
  }
}

/** Whether the model is called again: with the results of its calls, or with its own text after a pause. */
function continues({ tool_calls, stop_reason }: LLMAnswer): boolean {
  return tool_calls.length > 0 || stop_reason === "paused";
}

const BUDGET_USED = "The answer was cut off because the token budget is used up. Raise it with --budget.";
const OUTPUT_LIMIT =
  "The answer was cut off at the model's output limit before the agent finished. Raise the model's max_output in providers.yaml where it can write more, or ask for less at once.";

/** Stop words that mean the context window was full, not the answer's output limit. */
const WINDOW_FULL: ReadonlySet<string> = new Set(["model_length", "model_context_window_exceeded"]);

function refused(stopWord: string | undefined): string {
  if (stopWord === undefined || stopWord === "refusal")
    return "The model declined to answer. Change the request, or use another model.";
  return `The model declined to answer: its provider's content filter ended the answer with ${JSON.stringify(stopWord)}. Change the request, or use another model or provider.`;
}

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
    if (proc.run.corrections >= MAX_CORRECTIONS) {
      const message = `The agent finished, but its answer does not fit the output schema, also after ${MAX_CORRECTIONS} corrections: ${problem}.`;
      return { kind: "broken", reason: "check_failed", error: new SyscallError("INVALID", message) };
    }
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
