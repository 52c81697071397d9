/** The environment of what a process starts, within its trace. */

import { traceparentOf } from "../../lib/trace-context.ts";
import type { Process } from "./process.ts";

/** `key`: of the tool call that starts it; absent: the run itself does. Calls of PID 0 are no run's. */
export function tracedEnv(proc: Process, key?: string): Readonly<Record<string, string>> {
  const { env } = proc.spec.opts;
  return proc.pid === 0 ? env : { ...env, TRACEPARENT: traceparentFor(proc, key ?? proc.uuid) };
}

/** The `traceparent` of what the process calls. `key`: of the span that calls it. */
export function traceparentFor({ uuid, spec }: Process, key: string): string {
  return traceparentOf({ uuid, traceparent: spec.opts.env.TRACEPARENT }, key);
}
