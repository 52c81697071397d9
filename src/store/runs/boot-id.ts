/** Identifies the time since the machine was started. */

import nodeFs from "node:fs";
import { uptime } from "node:os";
import { errnoOf } from "../../lib/error-detail.ts";

let boot: string | undefined;

/** Another one after a power loss, which may take a record's entry in the journal of changed runs. */
export function bootId(): string {
  boot ??= readBootId() ?? `${Math.round((Date.now() - uptime() * 1000) / 600_000)}`;
  return boot;
}

function readBootId(): string | undefined {
  try {
    return nodeFs.readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return undefined;
  }
}
