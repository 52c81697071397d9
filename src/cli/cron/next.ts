/** `rnix cron next`: the next instants of a job, or of an expression before a job has it. */

import { localZone } from "../../lib/time-zone.ts";
import type { NextInstants } from "../../plugin/index.ts";
import { defineCommand } from "../command.ts";
import { usageError } from "../exit.ts";
import { count, json, text } from "../flags.ts";
import { print } from "../output/print.ts";
import { cronCall } from "./call.ts";
import { distance, instantText } from "./when.ts";

const SHOWN = 5;

export const next = defineCommand({
  about: "Show the next times of a job or of an expression",
  args: [
    { name: "JOB|SCHEDULE", about: "the job's name, or an expression such as '0 3 * * 1-5'", sentence: true },
  ],
  flags: {
    tz: text("the zone of the expression, such as Europe/Berlin; by default this machine's", "ZONE"),
    count: count(`how many (default ${SHOWN})`, "N"),
    json,
  },
  examples: {
    "rnix cron next nightly": "the next five times",
    "rnix cron next '30 2 * * *' --tz Europe/Berlin --count 10": "tries an expression",
  },
  async run(io, flags, [given = ""]) {
    const isExpression = /\s|^@/.test(given.trim());
    if (flags.tz !== undefined && !isExpression)
      throw usageError("--tz belongs to an expression: a job has its own zone");
    const what = isExpression ? { expression: given, tz: flags.tz } : { name: given };
    const found = await cronCall<NextInstants>(io, "next", { ...what, count: flags.count ?? SHOWN });
    const zone = flags.tz ?? localZone();
    const now = Date.now();
    const code = print(io, flags, found, () =>
      found.instants.map((iso) => `${instantText(iso, zone)}  ${distance(iso, now)}\n`).join(""),
    );
    if (flags.json) return code;
    if (found.instants.length === 0)
      io.stderr.write("no time is left: the job waits for an event, is over or is disabled\n");
    for (const warning of found.warnings) io.stderr.write(`warning: ${warning}\n`);
    return code;
  },
});
