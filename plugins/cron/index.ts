/** The driver of /dev/cron: the scheduled jobs of the project. */

import { definePlugin, type OpenContext, type Schedule, SyscallError } from "rnix/plugin";
import { AnswerFile } from "../_lib/answer-file.ts";
import { answer, jobAndRuns } from "./operations.ts";
import { TOOLS } from "./tools.ts";

/**
 * /dev/cron (seeds 2.14): the scheduled jobs of the project. A read lists them; a write of `{op, …}` is one operation.
 * A read of /dev/cron/NAME shows one job with its last runs.
 */
export default definePlugin({
  name: "cron",
  api: 1,
  needs: ["schedule"],
  devices: {
    "/dev/cron": {
      match: "prefix",
      tools: TOOLS,
      factory: (subpath, _flags, context) => open(subpath.replace(/^\//, ""), context),
    },
  },
});

function open(name: string, context: OpenContext): AnswerFile {
  const schedule = scheduleOf(context);
  const jobs = { device: "/dev/cron", answer: (text: string) => answer(text, schedule) };
  const content = async (): Promise<unknown> => (name === "" ? schedule.list() : jobAndRuns(name, schedule));
  return new AnswerFile({
    ...(name === "" ? jobs : { device: `/dev/cron/${name}` }),
    content: async () => `${JSON.stringify(await content(), null, 2)}\n`,
  });
}

function scheduleOf({ schedule }: OpenContext): Schedule {
  if (schedule) return schedule;
  throw new SyscallError("UNAVAILABLE", "/dev/cron: this rnix has no schedules.");
}
