import { type Figure, mib } from "../figure.ts";
import { interleaved, peakOf, timed } from "../measure.ts";
import type { Place } from "../place.ts";

/** The time of a command: one without a daemon, and one that calls the running daemon. */
export async function start(place: Place): Promise<Figure[]> {
  const user = place.user("main");
  await user.daemon();
  const hello = user.command([place.floors.hello]);
  const version = user.rnix("version");
  const ps = user.rnix("ps");
  const time = await interleaved(place.rounds * 2, {
    hello: () => timed(hello),
    version: () => timed(version),
    ps: () => timed(ps),
    psOfBoth: () => user.timedWithDaemon(ps),
  });
  const floor = (value: number) => ({ name: "hello", value });
  const helloPeak = floor(mib(await peakOf(hello)));
  return [
    {
      what: "`rnix version`, wall",
      value: time.version.wallMs,
      unit: "ms",
      floor: floor(time.hello.wallMs),
      goal: 2,
    },
    {
      what: "`rnix version`, CPU",
      value: time.version.cpuMs,
      unit: "ms",
      floor: floor(time.hello.cpuMs),
      goal: 2,
    },
    { what: "`rnix version`, peak memory", value: mib(await peakOf(version)), unit: "MiB", floor: helloPeak },
    {
      what: "`rnix ps`, daemon running, wall",
      value: time.ps.wallMs,
      unit: "ms",
      floor: floor(time.hello.wallMs),
    },
    {
      what: "`rnix ps`, CPU with the daemon's",
      value: time.psOfBoth.cpuMs,
      unit: "ms",
      floor: floor(time.hello.cpuMs),
    },
    { what: "`rnix ps`, peak memory", value: mib(await peakOf(ps)), unit: "MiB", floor: helloPeak },
  ];
}
