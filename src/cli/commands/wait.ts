/** `rnix wait`: waits for the end of a process and prints its answer. */

import type { Target } from "../../protocol/methods.ts";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { duration, json } from "../flags.ts";
import type { Wire } from "../io.ts";
import { printable } from "../output/format.ts";
import { inertJson } from "../output/pipeline-text.ts";
import { suspendedLine } from "../output/suspension.ts";
import { RUN_ARGUMENT, withRun } from "../processes/target.ts";
import { orLostRun } from "../run/follow.ts";

export default defineCommand({
  about: "Wait for a process to end, print its answer and exit with its code",
  args: [RUN_ARGUMENT],
  flags: { timeout: duration("give up after this time, with exit 1; the process goes on"), json },
  examples: {
    "rnix wait 3": "blocks until process 3 has ended",
    "rnix wait 3 --timeout 5m --json": "its receipt, or exit 1 after five minutes",
  },
  notes: ["A suspended process answers at once, with exit 75."],
  run(io, flags, [pid]) {
    const wait = async (wire: Wire, of: Target): Promise<number> => {
      const payload = { ...of, timeout_ms: flags.timeout };
      const receipt = await orLostRun(
        pid ?? String(of.uuid),
        wire.request("wait", payload, { timeoutMs: null }),
      );
      if (flags.json) io.stdout.write(`${inertJson(receipt)}\n`);
      else if (receipt.result) {
        io.stdout.write(`${io.stdout.isTTY ? printable(receipt.result) : receipt.result}\n`);
      }
      if (receipt.exit_code !== EXIT.ok) {
        const why = receipt.error === null ? "" : `: ${receipt.error.message}`;
        const how = `${receipt.exit_reason} (exit ${receipt.exit_code})${why}`;
        const more =
          receipt.exit_code === EXIT.suspended ? `; to resume it: rnix resume ${receipt.uuid}` : "";
        const waits = receipt.suspended && receipt.suspended.wake.on !== "never";
        const said = waits
          ? suspendedLine(`rnix resume ${receipt.uuid}`, receipt.suspended)
          : `${how}${more}`;
        io.stderr.write(`process ${receipt.pid}: ${printable(said)}\n`);
      }
      return receipt.exit_code;
    };
    return withRun(io, pid, wait, { alive: true });
  },
});
