/** The driver of /dev/cron: the scheduled jobs of the project. */

import { definePlugin } from "rnix/plugin";
import { ScheduleFile } from "./file.ts";
import { TOOLS } from "./tools.ts";

/** /dev/cron (seeds 2.14): the scheduled jobs of the project. A read lists them; a write of `{op, …}` is one operation. */
export default definePlugin({
  name: "cron",
  api: 1,
  needs: ["schedule"],
  devices: {
    "/dev/cron": {
      match: "prefix",
      tools: TOOLS,
      factory: (subpath, flags, context) => new ScheduleFile(subpath, flags, context),
    },
  },
});
