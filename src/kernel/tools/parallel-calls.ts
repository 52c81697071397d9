/** Decides which tool calls of an answer run in parallel, and runs them in order. */

import { AGENT_PATH } from "../../vfs/kernel-paths.ts";
import type { ProcessTool } from "../process/process-spec.ts";

/** Maximum read-only calls that run in parallel. Calls of Agent are limited by `live_children` instead. */
export const MAX_PARALLEL = 8;

/** Calls of one group run in parallel when they follow each other: read-only calls, or calls of Agent. */
type CallGroup = "read" | "agent";

/** Returns undefined for a call that runs alone. */
export function groupOf(target: ProcessTool | undefined): CallGroup | undefined {
  if (isReadOnly(target)) return "read";
  return target?.entry.path === AGENT_PATH ? "agent" : undefined;
}

export function isReadOnly(target: ProcessTool | undefined): boolean {
  return target?.tool.annotations?.readOnlyHint === true;
}

/** Whether a call joins the calls that came directly before it, `count` of this group. */
export function joins(
  group: CallGroup | undefined,
  before: { group: CallGroup | undefined; count: number },
): boolean {
  if (group === undefined || group !== before.group) return false;
  return group === "agent" || before.count < MAX_PARALLEL;
}

/** Runs calls in the order in which they come: each after the calls before it, except those of its group. */
export class CallOrder {
  #before: Promise<unknown> = Promise.resolve();
  #group: CallGroup | undefined;
  #running: Promise<unknown>[] = [];

  run<T>(group: CallGroup | undefined, work: () => Promise<T>): Promise<T> {
    if (!joins(group, { group: this.#group, count: this.#running.length })) {
      this.#before = Promise.all([this.#before, ...this.#running]);
      this.#running = [];
      this.#group = group;
    }
    const done = this.#before.then(work);
    this.#running.push(done.catch(() => undefined));
    return done;
  }
}
