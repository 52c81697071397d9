/** `rnix doctor`: checks the installation and prints the findings. */

import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { json } from "../flags.ts";
import { styleOf } from "../output/style.ts";

export default defineCommand({
  about: "Check the installation: binary, folders, daemon, providers, programs left running",
  flags: { json },
  examples: [{ line: "rnix doctor", about: "exits 1 if something needs fixing, and says what to do" }],
  notes: ["If no daemon runs, this command starts one to check that it can start."],
  async run(io, flags) {
    const { examine } = await import("../doctor.ts");
    const findings = await examine(io);
    const well = findings.every(({ state }) => state !== "bad");
    if (flags.json) {
      io.stdout.write(`${JSON.stringify({ ok: well, findings }, null, 2)}\n`);
    } else {
      const style = styleOf(io, io.stdout);
      const mark = {
        ok: style.green(style.glyph.ok),
        note: style.yellow(style.glyph.note),
        bad: style.red(style.glyph.failed),
      };
      for (const { name, state, text, advice } of findings) {
        io.stdout.write(`${mark[state]} ${style.bold(name)}: ${text}\n`);
        if (advice !== undefined) io.stdout.write(`    ${advice}\n`);
      }
    }
    return well ? EXIT.ok : EXIT.error;
  },
});
