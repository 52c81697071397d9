/** `rnix config`: prints every setting with its value and source. */

import { defineCommand } from "../command.ts";
import { json } from "../flags.ts";
import { environment } from "../io.ts";
import { printCatalog } from "../output/catalog.ts";

export default defineCommand({
  about: "Print every setting, its value here and where it was set",
  lists: true,
  flags: { json },
  examples: { "rnix config": "defaults, ~/.config/rnix/config.yaml, .rnix/config.yaml: the later one wins" },
  notes: ["Settings from an agent.yaml or a flag apply to one run only and are not shown here."],
  async run(io, flags) {
    const { settings } = await import("../../server/offline-commands.ts");
    const { lines, withheld } = await settings({ cwd: io.cwd, env: environment(io) });
    for (const part of withheld) io.stderr.write(`not trusted, so left out: ${part}; rnix trust shows it\n`);
    return printCatalog(
      io,
      lines,
      [
        { title: "SETTING", value: ({ key }) => key },
        { title: "VALUE", value: ({ value }) => value },
        { title: "DEFAULT", value: (line) => line.default },
        { title: "FROM", value: ({ source }) => source, flexible: true },
        { title: "WHAT", value: ({ about }) => about, flexible: true },
      ],
      flags,
    );
  },
});
