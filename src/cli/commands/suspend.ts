import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { json } from "../flags.ts";
import { withWire } from "../io.ts";
import { target } from "../target.ts";

export default defineCommand({
  about: "End a run so that it can be gone on with: what it did is kept",
  args: [{ name: "PID", about: "a PID, a UUID or the beginning of one" }],
  flags: { json },
  examples: [
    { line: "rnix suspend 3", about: "its tools are stopped; prints its UUID, which rnix resume takes" },
  ],
  run(io, flags, [pid = ""]) {
    const payload = target(io, pid);
    return withWire(io, async (wire) => {
      const answer = await wire.request("suspend", payload, { timeoutMs: null });
      if (flags.json) io.stdout.write(`${JSON.stringify(answer, null, 2)}\n`);
      else
        io.stderr.write(
          `process ${answer.pid}: suspended at step ${answer.step}; to go on: rnix resume ${answer.uuid}\n`,
        );
      return EXIT.ok;
    });
  },
});
