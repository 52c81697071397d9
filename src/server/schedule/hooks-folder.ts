/** The folder of a project's hooks, with its FIFOs and the bodies of events. */

import { join } from "node:path";
import { CRON } from "../../cron/cron-folder.ts";
import { requireNoLink } from "../../store/files/data-dir.ts";
import { makeFolder } from "../../store/files/document.ts";

/** A project may have brought the folder as a link to elsewhere: then it fails. */
export function makeHooksFolder(dataDir: string): void {
  requireNoLink(dataDir, [CRON, "hooks"]);
  makeFolder(join(dataDir, CRON, "hooks"));
}
