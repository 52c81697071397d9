/** `rnix suspend`: suspends a run and sets its wake. */

import type { Target } from "../../protocol/methods.ts";
import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { bool, duration, json } from "../flags.ts";
import type { Wire } from "../io.ts";
import { jsonText } from "../output/print.ts";
import { waitsFor } from "../output/suspension.ts";
import { RUN_ARGUMENT, withRun } from "../processes/target.ts";

export default defineCommand({
  about: "Suspend a run; resume it later",
  args: [RUN_ARGUMENT],
  flags: {
    for: duration("resume it after this time"),
    "until-message": bool("resume it when another process sends it a message"),
    json,
  },
  examples: {
    "rnix suspend 3": "stops its tools; prints its UUID for rnix resume",
    "rnix suspend 3 --for 2h": "the daemon resumes it in two hours",
  },
  notes: ["If the run is already suspended and would resume by itself, it now waits for rnix resume."],
  run(io, flags, [pid]) {
    if (flags.for !== undefined && flags["until-message"]) {
      throw usageError("--for and --until-message exclude each other: a run waits for one thing");
    }
    const until = flags["until-message"] ? ({ on: "message" } as const) : undefined;
    const wake = flags.for === undefined ? until : ({ on: "at", at_ms: Date.now() + flags.for } as const);
    const waits = wake ? `; it waits ${wake.on === "message" ? "for " : ""}${waitsFor({ wake })}` : "";
    const suspend = async (wire: Wire, of: Target): Promise<number> => {
      const answer = await wire.request("suspend", { ...of, wake }, { timeoutMs: null });
      if (flags.json) io.stdout.write(jsonText(answer));
      else
        io.stderr.write(
          `process ${answer.pid}: suspended at step ${answer.step}${waits}; to resume it: rnix resume ${answer.uuid}\n`,
        );
      return EXIT.ok;
    };
    return withRun(io, pid, suspend, { alive: true });
  },
});
