import { type Figure, memory, mib, time } from "../figure.ts";
import { interleaved, peakOf, timed } from "../measure.ts";
import type { Place } from "../place.ts";

/** The time of a command: one without a daemon, and one that calls the running daemon. */
export async function start(place: Place): Promise<Figure[]> {
  const user = place.user("main");
  await user.daemon();
  const hello = user.command([place.floors.hello]);
  const version = user.rnix("version");
  const ps = user.rnix("ps");
  const took = await interleaved(place.rounds * 2, {
    hello: () => timed(hello),
    version: () => timed(version),
    ps: () => timed(ps),
    psOfBoth: () => user.timedWithDaemon(ps),
  });
  const wall = { name: "hello", value: took.hello.wallMs };
  const cpu = { name: "hello", value: took.hello.cpuMs };
  const peak = { floor: { name: "hello", value: mib(await peakOf(hello)) } };
  return [
    time("`rnix version`, wall", took.version.wallMs, { floor: wall, goal: 2 }),
    time("`rnix version`, CPU", took.version.cpuMs, { floor: cpu, goal: 2 }),
    memory("`rnix version`, peak memory", await peakOf(version), peak),
    time("`rnix ps`, daemon running, wall", took.ps.wallMs, { floor: wall }),
    time("`rnix ps`, CPU with the daemon's", took.psOfBoth.cpuMs, { floor: cpu }),
    memory("`rnix ps`, peak memory", await peakOf(ps), peak),
  ];
}
