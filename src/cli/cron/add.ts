/** `rnix cron add`: makes a job, and shows when it will run. */

import type { AddedJob } from "../../plugin/index.ts";
import { defineCommand } from "../command.ts";
import { absoluteFolder } from "../files/paths.ts";
import { json } from "../flags.ts";
import { print } from "../output/print.ts";
import { cronCall } from "./call.ts";
import { JOB_FLAGS, jobOf } from "./job-flags.ts";
import { hookText, nextLines } from "./job-text.ts";

export const add = defineCommand({
  about: "Schedule a job: a run of an agent at each of its times or events",
  args: [
    {
      name: "SCHEDULE",
      about:
        "five fields, such as '0 3 * * 1-5', six with seconds, @daily, or '@every 15m'; none with a trigger flag",
      optional: true,
      sentence: true,
    },
    { name: "INTENT", about: "what each run should do", optional: true, sentence: true },
  ],
  flags: { ...JOB_FLAGS, json },
  examples: [
    {
      line: `rnix cron add '0 3 * * 1-5' "update the dependencies" --name nightly --check "npm test" --max-cost 2`,
      about: "at 3 in the night before each working day; the check decides whether it succeeded",
    },
    {
      line: `rnix cron add '@every 15m' "answer the new issues" --if 'gh issue list --label new | grep .' --if-input`,
      about: "a time without a new issue costs nothing; the list is the run's input",
    },
    {
      line: `rnix cron add --on-change 'docs/**' "check the links" --deliver ./links.md --deliver-when on-change`,
      about: "when the files have been unchanged for 2s; the file has the last answer that differs",
    },
  ],
  notes: [
    "SCHEDULE is minute, hour, day of month, month, day of week. If both day fields are set, it runs when either matches; + before the day of week requires both.",
    "Where clocks go forward, a job at a fixed time in the gap runs once at its end; where they go back, once, at the first of the two times. Wildcards follow the clock.",
    "Everything that a run needs is checked at once: agent, provider, key, model, tools, paths. A model that no list can confirm is a warning. The key comes from ~/.config/rnix/env or api_key_command, not from this shell.",
    "A run of a job has all limits of a spawn, and resumes after a crash. Without a person to ask, --on-ask decides.",
  ],
  async run(io, flags, args) {
    const job = await jobOf(io, flags, args);
    const cwd = absoluteFolder(io, "--cwd", flags.cwd ?? ".");
    const added = await cronCall<AddedJob>(io, "add", { job }, cwd);
    const { hook } = added.job;
    const code = print(io, flags, added, (style) => {
      const events = hook ? `${hookText(hook).replace(/^/gm, "  ")}\n` : "";
      return `job ${style.bold(added.job.name)}\n${nextLines(added.job, added.next, style)}${events}`;
    });
    if (flags.json) return code;
    if (hook?.url === null)
      io.stderr.write(
        `note: rnix cron show ${added.job.name} has its address for POST as soon as it listens\n`,
      );
    for (const warning of added.warnings) io.stderr.write(`warning: ${warning}\n`);
    const { firingNotice } = await import("./firing.ts");
    const notice = await firingNotice(io);
    if (notice !== null) io.stderr.write(`note: ${notice}\n`);
    return code;
  },
});
