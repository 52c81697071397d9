/** Builds the model requests of one run. */

import type { LLMTool } from "../../plugin/index.ts";
import type { ContextManager } from "../context-manager.ts";
import type { ModelRequest } from "../llm/model-device.ts";
import type { Process } from "../process/process.ts";
import { toolForModel } from "../tools/tool-catalog.ts";

/** The next request of a run: its conversation, and the tools that it shows the model. */
export class NextRequest {
  readonly #ctx: ContextManager;
  readonly #proc: Process;
  #tools: LLMTool[] = [];
  /** Tools in the last request. */
  offered: number | undefined;

  constructor(ctx: ContextManager, proc: Process) {
    this.#ctx = ctx;
    this.#proc = proc;
  }

  /** Builds the request. */
  build(): ModelRequest {
    const proc = this.#proc;
    const prompt = this.#ctx.prompt(proc);
    return {
      intent: proc.spec.intent,
      system_prompt: prompt.systemPrompt,
      model: proc.model.provider.model,
      timeout_ms: proc.spec.opts.limits.model_timeout,
      turn: proc.run.recordedStep,
      messages: [...prompt.messages],
      tools: this.#shownTools(),
      stream: true,
      effort: proc.model.effort,
      output_schema: proc.spec.opts.outputSchema,
    };
  }

  #shownTools(): LLMTool[] {
    const { shown } = this.#proc.toolset;
    if (shown.size > this.#tools.length) {
      this.#tools = [...shown.values()].map(({ tool }) => toolForModel(tool));
    }
    this.offered = this.#tools.length;
    return this.#tools;
  }
}
