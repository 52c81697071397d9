/** `rnix compact`: compacts the conversation of a live run. */

import type { Target } from "../../protocol/methods.ts";
import type { Answers } from "../../server/methods/method-table.ts";
import { defineCommand } from "../command.ts";
import { json } from "../flags.ts";
import type { Wire } from "../io.ts";
import { print } from "../output/print.ts";
import { RUN_ARGUMENT, withRun } from "../processes/target.ts";

export default defineCommand({
  about: "Shorten the conversation of a run before its next step",
  args: [RUN_ARGUMENT],
  flags: { json },
  examples: { "rnix compact 3": "waits for the end of its step; prints the tokens before and after" },
  notes: [
    "A run compacts by itself when its conversation fills the model's window (compact_at, see rnix config).",
    "Old tool results are shortened first, then the model summarises. The record keeps everything: rnix log, rnix steps.",
  ],
  run(io, flags, [pid]) {
    const compact = async (wire: Wire, of: Target): Promise<number> => {
      const answer = await wire.request("compact", of, { timeoutMs: null });
      return print(io, flags, answer, () => said(answer));
    };
    return withRun(io, pid, compact, { alive: true });
  },
});

function said({ pid, pre_tokens, post_tokens, summarised_by }: Answers["compact"]): string {
  if (post_tokens >= pre_tokens) {
    return `process ${pid}: about ${pre_tokens} tokens; compaction can't make it smaller\n`;
  }
  const how = { model: ", summarised by its model", digest: ", summarised without its model" };
  const by = summarised_by === null ? "" : how[summarised_by];
  return `process ${pid}: about ${pre_tokens} tokens before, ${post_tokens} after${by}\n`;
}
