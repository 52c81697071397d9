/** Counts what runs do: how they end, their tool calls, tokens and cost. */

import type { ProcessIdentity } from "../../kernel/process/process-info.ts";
import type { KernelCallbacks, PID } from "../../kernel/types.ts";
import type { Instruments } from "../../telemetry/instruments.ts";

type Counted = Required<Pick<KernelCallbacks, "onCall" | "onUsage" | "onComplete">>;

/** `identity`: of a process of the table; one that has just ended is still there. */
export function runCounts(instruments: Instruments, identity: (pid: PID) => ProcessIdentity): Counted {
  return {
    onCall(_pid, _step, { state }) {
      instruments.add("rnix.tool.calls", 1, { state });
    },
    onUsage(_pid, { provider: { name: provider }, used, cost_usd }) {
      const { input_tokens: input, output_tokens: output, cached_tokens: cached } = used;
      for (const [type, tokens] of Object.entries({ input, output, cached }))
        instruments.add("rnix.tokens", tokens, { provider, type });
      if (cost_usd !== undefined) instruments.add("rnix.cost.usd", cost_usd, { provider });
    },
    onComplete(pid, _result, { reason: verdict, suspended }) {
      if (!suspended && identity(pid).kind === "agent") instruments.add("rnix.runs.ended", 1, { verdict });
    },
  };
}
