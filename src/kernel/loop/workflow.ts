/** Runs a workflow: the process whose agents a script starts, instead of a model. */

import { issueText } from "../../lib/issue-text.ts";
import { Semaphore } from "../../lib/semaphore.ts";
import { SyscallError } from "../../plugin/index.ts";
import { type AgentCall, AgentOptions, type TokenBudget } from "../../workflows/messages.ts";
import type { WorkflowScript } from "../../workflows/script.ts";
import { AgentFailed, runScript, type ScriptHost } from "../../workflows/script-run.ts";
import { namedError } from "../errors/kernel-errors.ts";
import type { Process } from "../process/process.ts";
import type { RunOutcome } from "../process/verdict.ts";
import { hasEnded } from "../resume/saved-run.ts";
import type { ChildRequest, ProcInfo } from "../types.ts";
import { beginStep, recordStep, requestOf, runChild, type ScriptParts } from "./script-step.ts";

/** Agents that run at the same time; the limits of the run may allow fewer. */
const MAX_LIVE = 16;
/** Agents of one workflow. */
const MAX_AGENTS = 1_000;
const MAX_RESULT = 1024 ** 2;

/**
 * The task of a workflow. Its one step stays open while the script runs: the journal has the UUID of each agent, by the
 * content of its call, before the agent begins. After a suspension or a crash the script runs again from its beginning,
 * and each call finds its agent there: one that has ended gives its recorded result, one that was cut off is resumed.
 */
export async function runWorkflow(
  parts: ScriptParts,
  proc: Process,
  script: WorkflowScript,
): Promise<RunOutcome> {
  // No message would be read.
  parts.inboxes.of(proc).close();
  const workflow = new Workflow(parts, proc, script);
  try {
    return await workflow.run();
  } catch (thrown) {
    if (proc.stopped) return { kind: "stopped", status: proc.stopped };
    const error = namedError(thrown, "Workflow", proc.pid);
    return { kind: "broken", reason: workflow.isOverBudget ? "budget_exceeded" : "failed", error };
  }
}

class Workflow implements ScriptHost {
  readonly #parts: ScriptParts;
  readonly #proc: Process;
  readonly #script: WorkflowScript;
  readonly #live = new Semaphore(MAX_LIVE);
  /** When the step began. */
  #ts = "";
  #agents = 0;
  /** An agent could not begin or go on for lack of budget: a script that fails after that fails by it. */
  isOverBudget = false;
  /** Phases and texts of a script that runs again were shown before. */
  #isNew = true;

  constructor(parts: ScriptParts, proc: Process, script: WorkflowScript) {
    this.#parts = parts;
    this.#proc = proc;
    this.#script = script;
  }

  async run(): Promise<RunOutcome> {
    const proc = this.#proc;
    const { openStep, answered } = proc.run.takeCutOff();
    if (answered !== null) return this.#finished(answered.content);
    if (!openStep && proc.run.recordedStep > 0) {
      const message = `The workflow has completed: there is nothing to resume. Start it again with rnix workflow run ${this.#script.name}.`;
      return { kind: "broken", reason: "usage", error: new SyscallError("INVALID", message) };
    }
    if (openStep) {
      this.#ts = openStep.ts;
      proc.run.step = openStep.step;
      this.#isNew = openStep.waiting.size === 0;
      this.#parts.waiting.restore(proc, openStep.waiting);
      await this.#dropFailed([...openStep.waiting.keys()]);
    } else this.#ts = beginStep(this.#parts, proc);
    this.#parts.watchers.step(proc);
    const value = await runScript(this.#script, this, proc.signal);
    const text = typeof value === "string" ? value : value === null ? "" : JSON.stringify(value, null, 2);
    if (text.length > MAX_RESULT) {
      const why = `${this.#script.name}: expected a result of at most ${MAX_RESULT} characters, got ${text.length}.`;
      throw new SyscallError("INVALID", why);
    }
    if (typeof value === "object") proc.result.output = value;
    recordStep(proc, this.#ts, text, []);
    return this.#finished(text);
  }

  /** The child's end, or AgentFailed. */
  async agent({ prompt, options: given, phase, occurrence }: AgentCall): Promise<unknown> {
    const { data: options, error } = AgentOptions.safeParse(given);
    if (error) throw new SyscallError("INVALID", `agent: ${issueText(error)}`);
    if (++this.#agents > MAX_AGENTS)
      throw new SyscallError("EXHAUSTED", `A workflow may start ${MAX_AGENTS} agents.`);
    const wish = requestOf(prompt, options, { name: this.#script.name, phase: options.phase ?? phase });
    const id = keyOf([prompt, sorted({ ...options, label: undefined, phase: undefined }), occurrence]);
    if (this.#parts.waiting.of(this.#proc, id) === undefined) this.#isNew = true;
    const info = await this.#live.run(() => this.#child(id, wish));
    if (info.exit_reason === "budget_exceeded") this.isOverBudget = true;
    if (info.exit_code === 0) return wish.options?.output_schema ? info.output : (info.result ?? "");
    const { uuid, agent, exit_code, exit_reason, result, steps, tokens_used, cost_usd } = info;
    throw new AgentFailed(
      `The agent ${options.label ?? agent} did not complete (${exit_reason}). ${info.error?.message ?? ""}`.trim(),
      { uuid, agent, exit_code, exit_reason, result, steps, tokens_used, cost_usd },
    );
  }

  phase(name: string): void {
    if (this.#isNew) this.#parts.watchers.notice(this.#proc, `phase ${name}`);
  }

  log(text: string): void {
    if (this.#isNew) this.#parts.watchers.notice(this.#proc, text.slice(0, 2000));
  }

  budget(): TokenBudget {
    const { spec, tokensUsed } = this.#proc;
    return { total: spec.budget.limits.tokens ?? null, spent: tokensUsed };
  }

  async #child(id: string, wish: ChildRequest): Promise<ProcInfo> {
    try {
      return await runChild(this.#parts, this.#proc, id, wish);
    } catch (thrown) {
      if (thrown instanceof SyscallError && thrown.code === "EXHAUSTED") this.isOverBudget = true;
      throw thrown;
    }
  }

  /** A workflow that had failed and is resumed by hand asks its failed agents again; nothing else is asked twice. */
  async #dropFailed(ids: readonly string[]): Promise<void> {
    const { before } = this.#proc.spec.progress ?? {};
    if (!before || !hasEnded(before)) return;
    const { waiting } = this.#parts;
    const runs = this.#parts.runs(this.#proc.spec.opts.project.dataDir);
    for (const id of ids) {
      const on = waiting.of(this.#proc, id);
      const info = on?.on === "child" ? await runs.info(on.uuid) : null;
      if (!info || (hasEnded(info) && info.exit_code !== 0)) waiting.end(this.#proc, id);
    }
  }

  #finished(text: string): RunOutcome {
    this.#proc.result.answer(text);
    return { kind: "finished" };
  }
}

/** The key of a call: its content, and how many calls of the same content came before it. */
function keyOf(content: unknown): string {
  return `w-${new Bun.CryptoHasher("sha256").update(JSON.stringify(content)).digest("hex").slice(0, 32)}`;
}

/** The same JSON value with the keys of its objects in order. */
function sorted(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(sorted);
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, one]) => [key, sorted(one)]));
}
