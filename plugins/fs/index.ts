/** The driver of /dev/fs: the files of the project. */

import { definePlugin } from "rnix/plugin";
import { AnswerFile } from "../_lib/answer-file.ts";
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
          const { runOperation } = await import("./run-operation.ts");
          return new AnswerFile({
            device: "/dev/fs",
            answer: (text, signal) => runOperation(text, context, signal),
          });
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
