/** The driver of /dev/fs: the files of the project. */

import { definePlugin } from "rnix/plugin";
import { EDIT, GLOB, GREP, READ, WRITE } from "./tools.ts";

/**
 * /dev/fs: the files of the project (seeds 2.3, design §3). /dev/fs itself takes the operations of the tools.
 * /dev/fs/<path> is that file: a read returns its bytes, a write replaces it.
 */
export default definePlugin({
  name: "fs",
  api: 1,
  devices: {
    "/dev/fs": {
      match: "prefix",
      tools: [READ, WRITE, EDIT, GLOB, GREP],
      factory: async (subpath, flags, context) => {
        if (subpath === "" || subpath === "/") {
          const { OperationFile } = await import("./operation-file.ts");
          return new OperationFile(flags, context);
        }
        const { openPlainFile } = await import("./plain-file.ts");
        return openPlainFile(subpath, flags, context);
      },
    },
  },
  dispose: async () => {
    const { searches } = await import("./search/searches.ts");
    await searches.end();
  },
});
