/** Formats a syscall event as one line in the style of strace. */

import type { StreamEvent } from "../../protocol/methods.ts";
import { oneLine } from "./format.ts";
import type { Style } from "./style.ts";

type SyscallEvent = Extract<StreamEvent, { type: "syscall_event" }>["payload"];

/** Characters of one argument or result that are shown. */
const VALUE = 80;

/** `   0.013  Open(path="/dev/llm/openai", flags=2) = 3 <1.0ms>` */
export function syscallLine(event: SyscallEvent, style: Style): string {
  const at = (number(event.timestamp_ms) / 1000).toFixed(3).padStart(8);
  const args = Object.entries(record(event.args)).map(([name, value]) => `${name}=${shown(value)}`);
  const took = style.dim(`<${number(event.duration_ms).toFixed(1)}ms>`);
  return `${style.dim(at)}  ${style.bold(String(event.syscall))}(${args.join(", ")}) = ${outcome(event, style)} ${took}\n`;
}

function outcome(event: SyscallEvent, style: Style): string {
  if (event.error === undefined) return event.result === undefined ? "ok" : shown(event.result);
  return style.red(`${event.error_code ?? "error"} ${oneLine(String(event.error), 2 * VALUE)}`);
}

function shown(value: unknown): string {
  return oneLine(JSON.stringify(value) ?? "undefined", VALUE);
}

function number(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

function record(value: unknown): object {
  return typeof value === "object" && value !== null ? value : {};
}
