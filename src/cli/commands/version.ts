/** `rnix version`: prints the version. */

import { commit, version } from "../../version.ts";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { json } from "../flags.ts";

export default defineCommand({
  about: "Print the version",
  flags: { json },
  examples: { "rnix version": "the version and the commit it was built from" },
  async run(io, flags) {
    io.stdout.write(
      flags.json ? `${JSON.stringify({ version, build: commit })}\n` : `rnix ${version} (${commit})\n`,
    );
    return EXIT.ok;
  },
});
