/** `rnix compact`: compacts the conversation of a live run. */

import type { Answers } from "../../server/methods/method-table.ts";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { json } from "../flags.ts";
import { withWire } from "../io.ts";
import { target } from "../target.ts";

export default defineCommand({
  about: "Shorten the conversation of a run before its next step",
  args: [{ name: "PID", about: "a PID, a UUID or the beginning of one" }],
  flags: { json },
  examples: [
    { line: "rnix compact 3", about: "waits for the end of its step; prints the tokens before and after" },
  ],
  notes: [
    "A run compacts by itself when its conversation fills the model's window (compact_at, see rnix config).",
    "Old tool results are shortened first, then the model summarises. The record keeps everything: rnix log, rnix steps.",
  ],
  run(io, flags, [pid = ""]) {
    return withWire(io, async (wire) => {
      const answer = await wire.request("compact", target(io, pid), { timeoutMs: null });
      io.stdout.write(flags.json ? `${JSON.stringify(answer, null, 2)}\n` : said(answer));
      return EXIT.ok;
    });
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
