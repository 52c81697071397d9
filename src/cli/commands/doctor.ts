/** `rnix doctor`: checks the installation and prints the findings. */

import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { json } from "../flags.ts";
import { print } from "../output/print.ts";

export default defineCommand({
  about: "Check the installation: binary, folders, daemon, providers, programs left running",
  flags: { json },
  examples: { "rnix doctor": "exits 1 if something needs fixing, and says what to do" },
  notes: ["If no daemon runs, this command starts one to check that it can start."],
  async run(io, flags) {
    const { examine } = await import("../doctor/doctor.ts");
    const findings = await examine(io);
    const well = findings.every(({ state }) => state !== "bad");
    print(io, flags, { ok: well, findings }, (style) => {
      const mark = {
        ok: style.green(style.glyph.ok),
        note: style.yellow(style.glyph.note),
        bad: style.red(style.glyph.failed),
      };
      const lines = findings.map(({ name, state, text, advice }) => {
        const more = advice === undefined ? "" : `    ${advice}\n`;
        return `${mark[state]} ${style.bold(name)}: ${text}\n${more}`;
      });
      return lines.join("");
    });
    return well ? EXIT.ok : EXIT.error;
  },
});
