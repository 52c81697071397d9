/** Notifies plugins of the files that a step has changed, and gives the model their texts. */

import { orAborted, withDeadline } from "../../lib/clock.ts";
import { messageOf } from "../../lib/error-detail.ts";
import type { Process } from "../process/process.ts";
import { hookContext, hooksOf, type MakeContext } from "./plugin-hooks.ts";

const DEADLINE_MS = 5_000;
const MAX_TEXT = 8_192;

/** Asks all plugins at the same time. What fails or is late is logged: the changes were made. */
export async function notifyOfChanges(proc: Process, makeContext: MakeContext): Promise<void> {
  const files = [...proc.run.filesChanged];
  proc.run.filesChanged.clear();
  if (files.length === 0 || proc.stopped || proc.work.interrupted) return;
  await Promise.all(
    hooksOf(proc, "filesChanged").map(async (source) => {
      const context = hookContext(proc, source, makeContext);
      const late = `filesChanged took more than ${DEADLINE_MS} ms`;
      try {
        const text = await withDeadline(proc.clock, proc.work.signal, DEADLINE_MS, late, (signal) =>
          orAborted(Promise.resolve(source.filesChanged?.(files, context, signal) ?? null), signal),
        );
        if (text) await context.inbox(text.slice(0, MAX_TEXT));
      } catch (thrown) {
        context.log("info", messageOf(thrown));
      }
    }),
  );
}
