/** The method list_steps. */

import { z } from "zod";
import { didTitle } from "../../lib/call-title.ts";
import { Page, Target } from "../../protocol/fields.ts";
import type { StepSummary, Unreadable } from "../../protocol/methods.ts";
import type { StepRecord } from "../../store/runs/schema.ts";
import { Damage } from "../records/damage.ts";
import { stepsWithAction } from "../records/recorded-run.ts";
import { method } from "./method.ts";
import { findRun, isLive, recordsOf } from "./shared/find-run.ts";

const PAGE = 10_000;

/** Lists the finished steps of a process in short. `after` is the number of a step. */
export const listSteps = method({
  payload: () =>
    Target().extend({
      ...Page(),
      /** Count the files and lines that each step changed. */
      changed: z.boolean().optional(),
    }),
  async handle(payload, services): Promise<{ steps: StepSummary[]; total: number } & Unreadable> {
    const found = await findRun(services, payload);
    const run = await recordsOf(services, found);
    const { info, records } = run;
    const { after = 0, limit = PAGE } = payload;
    const changes = payload.changed ? await services.changes.bySteps(run, isLive(found)) : undefined;
    const steps: StepSummary[] = [];
    const damage = new Damage(run);
    for await (const record of stepsWithAction(records, info.uuid, damage)) {
      if (record.step <= after || steps.length >= limit) continue;
      const changed = changes && { changed: changes.get(record.step) ?? null };
      steps.push({ ...summary(record, info.cwd), ...changed });
    }
    return { steps, total: info.steps, parse_errors: damage.count, damaged: damage.list() };
  },
});

function summary(record: StepRecord, cwd: string): StepSummary {
  const { step, ts, action, tool_calls } = record;
  return {
    step,
    ts,
    action,
    summary: record.summary,
    did: tool_calls.length === 0 ? record.summary : didTitle(tool_calls, cwd),
    tool_path: tool_calls[0]?.path ?? null,
    has_error: tool_calls.some((call) => call.error !== null),
    duration_ms: Math.round(tool_calls.reduce((sum, call) => sum + call.duration_ms, 0)),
    token_count: record.tokens_used,
  };
}
