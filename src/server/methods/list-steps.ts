/** The method list_steps. */

import { z } from "zod";
import { Page, Target } from "../../protocol/fields.ts";
import type { StepSummary, Unreadable } from "../../protocol/methods.ts";
import { damageOf } from "../records/recorded-run.ts";
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
    const { info } = run;
    const { after = 0, limit = PAGE } = payload;
    const changes = payload.changed
      ? await (await services.changes()).bySteps(run, isLive(found))
      : undefined;
    const damage = damageOf(run);
    const indexes = await (await services.history()).stepIndexes();
    const lines = await indexes.of(run, isLive(found), damage);
    const first = lines.findIndex(({ step }) => step > after);
    const page = first < 0 ? [] : lines.slice(first, first + limit);
    const steps = page.map((line) => ({
      ...line,
      ...(changes && { changed: changes.get(line.step) ?? null }),
    }));
    return { steps, total: info.steps, parse_errors: damage.count, damaged: damage.list() };
  },
});
