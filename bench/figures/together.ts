import { type Figure, time } from "../figure.ts";
import { type Command, interleaved, timed } from "../measure.ts";
import type { Place } from "../place.ts";

const AT_ONCE = 8;

/** Eight runs of one turn, started at the same moment. */
export async function together(place: Place): Promise<Figure[]> {
  const user = place.user("main");
  await user.daemon();
  const all = (command: Command) => async () => {
    const start = performance.now();
    const timings = await Promise.all(Array.from({ length: AT_ONCE }, () => timed(command)));
    return { wallMs: performance.now() - start, cpuMs: timings.reduce((sum, { cpuMs }) => sum + cpuMs, 0) };
  };
  const took = await interleaved(Math.min(place.rounds, 9), {
    bare: all(user.command([place.floors.client, place.oneTurn.openaiUrl])),
    rnix: all(user.spawn(place.oneTurn)),
  });
  return [
    time(`${AT_ONCE} spawns at once, wall`, took.rnix.wallMs, {
      floor: { name: `${AT_ONCE} bare clients`, value: took.bare.wallMs },
    }),
  ];
}
