/** The questions that wait for an answer of the user. */

import { withTimeout } from "../../../lib/clock.ts";
import type { ListedAsk } from "../../../protocol/methods.ts";
import type { Services } from "../../services.ts";
import { askOf } from "./stream-events.ts";

export async function openAsks(services: Services): Promise<ListedAsk[]> {
  const { kernel, history } = services;
  await recovered(services);
  const suspended = await (await history()).asking();
  // Read after the disk, because a run may have been resumed meanwhile.
  const live = kernel.asks.list().map((one): ListedAsk => {
    const { project } = kernel.processes.identity(one.pid);
    return { ...askOf(one), state: "live", project };
  });
  const held = new Set(live.map(({ request_id }) => request_id));
  const waiting = suspended.flatMap((info) => {
    const { pid, uuid, agent, intent, project, parent_uuid } = info;
    const depth = parent_uuid === null ? 0 : 1;
    return info.asks
      .filter(({ id, answers }) => answers === undefined && !held.has(id))
      .map((ask): ListedAsk => {
        const listed = askOf({ pid, uuid, agent, depth, intent, ask });
        return { ...listed, state: "suspended", project };
      });
  });
  return [...waiting, ...live].sort((a, b) => a.asked_at_ms - b.asked_at_ms);
}

/** How long a command waits until runs that a crash has cut off are recorded as suspended. */
const RECOVERY_MS = 2_000;

/** A question of a run that a crash has cut off is known when its record says so. */
export async function recovered({ clock, recovery }: Services): Promise<void> {
  await withTimeout(clock, RECOVERY_MS, recovery.start());
}
