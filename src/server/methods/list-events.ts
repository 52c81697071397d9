import { locate, recordsOf } from "../locate.ts";
import type { Answers, Payload } from "../protocol.ts";
import type { System } from "../system.ts";

const PAGE = 10_000;

/** The recorded syscalls of a process. `after` counts the events to leave out. */
export async function listEvents(
  payload: Payload<"list_events">,
  system: System,
): Promise<Answers["list_events"]> {
  const { info, records } = await recordsOf(system, await locate(system, payload));
  const { after = 0, limit = PAGE } = payload;
  const page = await records.events(info.uuid, { after, limit });
  return {
    events: page.records.map((event) => ({ ...event, uuid: info.uuid })),
    next: page.next,
    parse_errors: page.damaged,
  };
}
