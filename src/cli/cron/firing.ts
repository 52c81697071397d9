/** Whether jobs will run after the next reboot. */

import { existsSync } from "node:fs";
import type { Io } from "../io.ts";
import { serviceOf } from "./service.ts";

/** What the user should know when a job was made; null: the daemon is installed. */
export async function firingNotice(io: Io): Promise<string | null> {
  const service = serviceOf(io);
  if (service === null || existsSync(service.path)) return null;
  return "jobs run while the daemon runs, and after a reboot none starts by itself: rnix cron install changes that";
}
