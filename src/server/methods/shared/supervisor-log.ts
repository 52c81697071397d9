/** The log of a supervisor. */

import type { SyscallEvent } from "../../../kernel/types.ts";
import type { Channel } from "../../../lib/channel.ts";
import type { LogEntry } from "../../../run/live-event.ts";
import type { DamageCollector } from "../../../store/files/damaged-lines.ts";
import type { Run } from "../../records/recorded-run.ts";
import { until } from "./stream-events.ts";

/** It has no steps, so its events are logged: the recorded ones, then those of `live`, each once. */
export async function* supervisorLog(
  { info, records }: Run,
  live: Channel<SyscallEvent> | undefined,
  gone: AbortSignal,
  damage?: DamageCollector,
): AsyncGenerator<LogEntry> {
  const reported = new Set<string>();
  const entryOf = (event: SyscallEvent): LogEntry | undefined => {
    const text = words(event);
    const ts = new Date(info.created_at_ms + event.timestamp_ms + event.duration_ms).toISOString();
    return text === undefined ? undefined : { ts, step: 0, kind: "unit", text };
  };
  for await (const event of records.everyEvent(info.uuid, damage)) {
    const entry = entryOf(event);
    if (entry) yield entry;
    // The latest event of a live supervisor may arrive twice.
    if (live && entry) reported.add(key(event));
  }
  if (!live) return;
  for await (const event of until<SyscallEvent>(live, gone)) {
    const entry = reported.delete(key(event)) ? undefined : entryOf(event);
    if (entry) yield entry;
  }
}

function key({ timestamp_ms, duration_ms, syscall, args }: SyscallEvent): string {
  return `${timestamp_ms} ${duration_ms} ${syscall} ${JSON.stringify(args)}`;
}

/** Undefined for what every process does. */
function words({ syscall, args, result, error }: SyscallEvent): string | undefined {
  const child = String(args.child);
  const pid = args.pid === null ? "" : ` (PID ${String(args.pid)})`;
  const done = error ?? String(result);
  switch (syscall) {
    case "SpawnSupervisor":
      return error ?? `supervises ${listed(args.children)} (${String(args.strategy)})`;
    case "SupervisorStart":
      return error ?? `${child} runs as PID ${done}`;
    case "SupervisorExit": {
      const ended = `ended: ${String(args.exit_reason)} (exit ${String(args.exit_code)})`;
      return `${child}${pid} ${args.exit_reason === null ? "did not start" : ended}; ${done}`;
    }
    case "SupervisorStop":
      return `${child}${pid} was stopped: ${done}`;
    case "SupervisorRestart":
      return `starting ${listed(args.children)}`;
    case "SupervisorGiveUp":
      return `gave up: more than ${String(args.intensity)} restarts in ${String(args.period_ms)} ms`;
    default:
      return undefined;
  }
}

function listed(names: unknown): string {
  return Array.isArray(names) ? names.join(", ") : "";
}
