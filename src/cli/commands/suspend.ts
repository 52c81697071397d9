import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { bool, duration, json } from "../flags.ts";
import { withWire } from "../io.ts";
import { waitsFor } from "../output/suspension.ts";
import { target } from "../target.ts";

export default defineCommand({
  about: "End a run so that it can be gone on with: what it did is kept",
  args: [{ name: "PID", about: "a PID, a UUID or the beginning of one" }],
  flags: {
    for: duration("it goes on by itself after this time"),
    "until-message": bool("it goes on by itself when another process sends it a message"),
    json,
  },
  examples: [
    { line: "rnix suspend 3", about: "its tools are stopped; prints its UUID, which rnix resume takes" },
    { line: "rnix suspend 3 --for 2h", about: "the daemon goes on with it in two hours" },
  ],
  notes: ["A run that is suspended already, and would go on by itself, waits for rnix resume from then on."],
  run(io, flags, [pid = ""]) {
    if (flags.for !== undefined && flags["until-message"]) {
      throw usageError("--for and --until-message exclude each other: a run waits for one thing");
    }
    const wake = wakeOf(flags.for, flags["until-message"]);
    const payload = { ...target(io, pid), wake };
    const goesOn = wake ? `; it waits ${wake.on === "message" ? "for " : ""}${waitsFor({ wake })}` : "";
    return withWire(io, async (wire) => {
      const answer = await wire.request("suspend", payload, { timeoutMs: null });
      if (flags.json) io.stdout.write(`${JSON.stringify(answer, null, 2)}\n`);
      else
        io.stderr.write(
          `process ${answer.pid}: suspended at step ${answer.step}${goesOn}; to go on: rnix resume ${answer.uuid}\n`,
        );
      return EXIT.ok;
    });
  },
});

function wakeOf(forMs: number | undefined, message: boolean) {
  if (message) return { on: "message" } as const;
  return forMs === undefined ? undefined : ({ on: "at", at_ms: Date.now() + forMs } as const);
}
