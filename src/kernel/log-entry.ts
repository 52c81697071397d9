import type { ToolCall } from "../plugin/index.ts";
import type { ToolCallRecord } from "../store/schema.ts";
import type { LogEntry, SyscallEvent } from "./types.ts";

/** Of a call or a result so much is shown; `rnix steps PID N` has the whole. */
const SHOWN = 2000;

type Moment = Pick<LogEntry, "ts" | "step">;

/**
 * What a model said, what it called and what came of it, as a person reads them: worded here alone, since
 * who follows a run is told from its record first and live from then on, and nothing twice.
 */
export function wordsEntry(at: Moment, kind: "text" | "thought", text: string): LogEntry {
  return { ...at, kind, text };
}

export function callEntry(at: Moment, call: Pick<ToolCall, "name" | "input">, path: string): LogEntry {
  const text = `${call.name} ${path} ${JSON.stringify(call.input)}`;
  return { ...at, kind: "tool", text: text.slice(0, SHOWN) };
}

export function resultEntry(at: Moment, { error, result }: ToolCallRecord): LogEntry {
  return { ...at, kind: "result", text: (error ?? result ?? "").slice(0, SHOWN) };
}

/** What a supervisor did, one of the events of its own that begin with `Supervisor`. */
export function supervisorEntry(
  at: Moment,
  event: Pick<SyscallEvent, "syscall" | "args" | "result" | "error">,
): LogEntry {
  return { ...at, kind: "unit", text: supervisorWords(event).slice(0, SHOWN) };
}

function supervisorWords({
  syscall,
  args,
  result,
  error,
}: Pick<SyscallEvent, "syscall" | "args" | "result" | "error">): string {
  const child = String(args.child);
  const pid = args.pid === null ? "" : ` (PID ${String(args.pid)})`;
  const done = error ?? String(result);
  switch (syscall) {
    case "SpawnSupervisor":
      return error ?? `supervises ${listed(args.children)}: ${String(args.strategy)}`;
    case "SupervisorStart":
      return error ?? `${child}: runs as PID ${done}`;
    case "SupervisorExit": {
      const ended =
        args.exit_reason === null
          ? ""
          : ` ended: ${String(args.exit_reason)} (exit ${String(args.exit_code)})`;
      return `${child}${pid}${ended}; ${done}`;
    }
    case "SupervisorStop":
      return `${child}${pid} was stopped: ${done}`;
    case "SupervisorRestart":
      return `starting ${listed(args.children)}`;
    case "SupervisorGiveUp":
      return `gave up: more than ${String(args.intensity)} restarts in ${String(args.period_ms)} ms`;
    default:
      return `${syscall} ${done}`;
  }
}

function listed(names: unknown): string {
  return Array.isArray(names) ? names.join(", ") : "";
}
