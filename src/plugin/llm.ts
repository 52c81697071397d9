/** The service `llm`: one request to the process's own model. */

import type { Usage } from "./model.ts";

/** Asks the process's own model: one request, within the run's budget and limits, and in its record. */
export interface Llm {
  /**
   * Fails with EXHAUSTED when the budget does not cover it, with DRIVER for an answer that breaks off or does not fit the
   * schema, and with UNAVAILABLE where there is no model: a command of the user, a mount, a part of the prompt.
   */
  ask(request: LlmRequest): Promise<LlmReply>;
}

export interface LlmRequest {
  prompt: string;
  system?: string;
  /** Maximum tokens of the answer. */
  max_output?: number;
  /** JSON Schema of the answer. `text` is then one JSON document that fits it. */
  output_schema?: object;
}

export interface LlmReply {
  text: string;
  usage: Usage;
}
