import { type Figure, mib } from "../figure.ts";
import { memoryOf, timed } from "../measure.ts";
import type { Place } from "../place.ts";

const BATCH = 100;
const GOAL_MIB = 90;
/** Of noise: what the runtime's allocator holds differs by so much from one look to the next. */
const GROWTH_MIB = 2;

/** The memory of a daemon that was just started, after a hundred runs, and after more of them. */
export async function daemonMemory(place: Place, batches: number): Promise<Figure[]> {
  const user = place.user("memory");
  const pid = await user.daemon();
  const figures: Figure[] = [{ what: "daemon, just started", value: mib(memoryOf(pid).now), unit: "MiB" }];
  const after: number[] = [];
  for (let batch = 1; batch <= batches; batch++) {
    for (let run = 0; run < BATCH; run++) await timed(user.spawn(place.oneTurn));
    const now = mib(memoryOf(pid).now);
    after.push(now);
    figures.push({ what: `daemon, after ${batch * BATCH} runs`, value: now, unit: "MiB", goal: GOAL_MIB });
  }
  const [first = Number.NaN] = after;
  const growth = (after.at(-1) ?? Number.NaN) - first;
  return [
    ...figures,
    {
      what: `daemon, growth from run ${BATCH} to ${batches * BATCH}`,
      value: growth,
      unit: "MiB",
      goal: GROWTH_MIB,
    },
    { what: "daemon, peak", value: mib(memoryOf(pid).peak), unit: "MiB" },
  ];
}
