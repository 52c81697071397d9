/** The model of a live process. */

import type { Effort, ToolDef, ToolOutcome } from "../../plugin/index.ts";
import type { ModelSwitch } from "../../store/runs/schema.ts";
import { TokenEstimate } from "../budget/token-estimate.ts";
import type { ProviderChoice } from "../types.ts";
import type { RunProgress } from "./run-progress.ts";

/** Tools for a program that acts as the model. */
export interface ServedTools {
  /** A call is under way. */
  readonly busy: boolean;
  list(): ToolDef[];
  call(name: string, input: Record<string, unknown>): Promise<ToolOutcome>;
}

/** Owned by the process's model calls, which fall back to another model; the opener opens the first device. */
export class LiveModel {
  provider: ProviderChoice;
  /** The remaining fallbacks, in order. */
  readonly fallbacks: ProviderChoice[];
  readonly switches: ModelSwitch[];
  /** The effort that the model is asked for; undefined when its driver has no such setting. */
  effort: Effort | undefined;
  /** The open device. */
  fd = -1;
  /** The wait before this process, if its run was suspended because the model was down; unset by the first answer. */
  outageWaitMs: number | undefined;
  /** Estimates the tokens of a request; corrected by the numbers of each answer. */
  readonly estimate = new TokenEstimate();
  /** Tools that a program which acts as the model may call while it answers. */
  served: ServedTools | undefined;

  constructor(provider: ProviderChoice, { switches, outageWaitMs }: RunProgress) {
    this.provider = provider;
    this.fallbacks = [...(provider.fallbacks ?? [])];
    this.switches = [...switches];
    this.outageWaitMs = outageWaitMs;
  }
}
