/** `rnix init`: creates the `.rnix` folder of a project. */

import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { inSettingsFolder, TYPES_FOR_EDITORS } from "../files/named-files.ts";
import { environment } from "../io.ts";

export default defineCommand({
  about: "Create this project's .rnix folder, with default settings and types for plugins",
  examples: { "rnix init": "writes .rnix/ with config.yaml and types for plugins; overwrites nothing" },
  notes: [
    "The project is the nearest folder with a .rnix, from here upwards, else the git root, else this folder.",
  ],
  files: (io) =>
    inSettingsFolder(
      io,
      ...["config.yaml", "plugins/.gitkeep", "agents/.gitkeep", "skills/.gitkeep"],
      ...TYPES_FOR_EDITORS,
    ),
  async run(io) {
    const [{ projectOf, settings }, { initProject }] = await Promise.all([
      import("../../server/offline-commands.ts"),
      import("../files/scaffold.ts"),
    ]);
    const where = { cwd: io.cwd, env: environment(io) };
    const { lines } = await settings(where);
    const { written, kept } = initProject(projectOf(where), lines);
    for (const file of written) io.stdout.write(`wrote ${file}\n`);
    for (const file of kept) io.stdout.write(`kept  ${file}\n`);
    return EXIT.ok;
  },
});
