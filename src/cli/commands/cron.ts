/** `rnix cron`: scheduled jobs. */

import { defineCommand } from "../command.ts";
import { add } from "../cron/add.ts";
import { history, next } from "../cron/history.ts";
import { install, uninstall } from "../cron/install.ts";
import { disable, enable, LIST_FLAGS, list, listJobs, rm, run, show } from "../cron/jobs.ts";

export default defineCommand({
  about: "Schedule runs: by the clock, when files change, by a hook, after another job",
  flags: LIST_FLAGS,
  subcommands: { add, list, show, rm, enable, disable, run, history, next, install, uninstall },
  examples: {
    "rnix cron add '0 3 * * 1-5' \"update the dependencies\" --name nightly": "shows its next five times",
    "rnix cron": "the jobs of this project",
  },
  run: listJobs,
  notes: ["Jobs run in the daemon, which stays up for them. It is for a person: inside a run it is refused."],
});
