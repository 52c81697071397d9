/** The method list_events. */

import { Page, Target } from "../../protocol/fields.ts";
import { EVENTS } from "../../store/runs/run-files.ts";
import { damageOf } from "../records/recorded-run.ts";
import { method } from "./method.ts";
import { findRun, flushEvents, recordsOf } from "./shared/find-run.ts";

const PAGE = 10_000;

/** Lists the recorded syscalls of a process. `after` is the `next` of the last answer. */
export const listEvents = method({
  payload: () => Target().extend(Page()),
  async handle(payload, services) {
    const found = await findRun(services, payload);
    if (found.live) flushEvents(services, found.pid);
    const run = await recordsOf(services, found);
    const { info, records } = run;
    const { after = 0, limit = PAGE } = payload;
    const page = await records.events(info.uuid, { after, limit });
    const damage = damageOf(run);
    damage.add(EVENTS, page);
    return {
      events: page.records.map((event) => ({ ...event, uuid: info.uuid })),
      next: page.next.after,
      parse_errors: damage.count,
      damaged: damage.list(),
    };
  },
});
