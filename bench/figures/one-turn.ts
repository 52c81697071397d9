import { type Figure, mib } from "../figure.ts";
import { interleaved, median, peakOf, timed } from "../measure.ts";
import type { Place } from "../place.ts";

/** A run of one turn: with the daemon running, cold, and without one. */
export async function oneTurn(place: Place): Promise<Figure[]> {
  const user = place.user("main");
  await user.daemon();
  const bare = user.command([place.floors.client, place.oneTurn.openaiUrl]);
  const usual = user.command([...bare.argv, "stdout"]);
  const warm = user.spawn(place.oneTurn);
  const alone = user.spawn(place.oneTurn, "--no-daemon");
  const time = await interleaved(place.rounds, {
    bare: () => timed(bare),
    usual: () => timed(usual),
    warm: () => user.timedWithDaemon(warm),
    alone: () => timed(alone),
  });
  const cold: number[] = [];
  const stranger = place.user("cold");
  for (let round = 0; round < Math.min(place.rounds, 7); round++) {
    await stranger.stopDaemon();
    cold.push((await timed(stranger.spawn(place.oneTurn))).wallMs);
  }
  const floor = (value: number) => ({ name: "bare client", value });
  const wall = floor(time.bare.wallMs);
  const cpu = floor(time.bare.cpuMs);
  const memory = floor(mib(await peakOf(bare)));
  const usually = (value: number) => ({ name: "usual client", value });
  return [
    {
      what: "the bare client, when it prints by `process.stdout`, wall",
      value: time.usual.wallMs,
      unit: "ms",
      floor: wall,
    },
    {
      what: "the bare client, when it prints by `process.stdout`, CPU",
      value: time.usual.cpuMs,
      unit: "ms",
      floor: cpu,
    },
    {
      what: "one-turn spawn, daemon running, wall",
      value: time.warm.wallMs,
      unit: "ms",
      floor: wall,
      goal: 3,
    },
    {
      what: "one-turn spawn, daemon running, CPU of all parts",
      value: time.warm.cpuMs,
      unit: "ms",
      floor: cpu,
      goal: 3,
    },
    {
      what: "one-turn spawn, daemon running, peak memory of the command",
      value: mib(await peakOf(warm)),
      unit: "MiB",
      floor: memory,
    },
    { what: "one-turn spawn, daemon cold, wall", value: median(cold), unit: "ms", floor: wall },
    {
      what: "one-turn spawn, `--no-daemon`, wall",
      value: time.alone.wallMs,
      unit: "ms",
      floor: wall,
      goal: 5,
    },
    { what: "one-turn spawn, `--no-daemon`, CPU", value: time.alone.cpuMs, unit: "ms", floor: cpu },
    {
      what: "one-turn spawn, `--no-daemon`, peak memory",
      value: mib(await peakOf(alone)),
      unit: "MiB",
      floor: memory,
    },
    {
      what: "one-turn spawn, daemon running, wall, to the usual client",
      value: time.warm.wallMs,
      unit: "ms",
      floor: usually(time.usual.wallMs),
      goal: 3,
    },
    {
      what: "one-turn spawn, daemon running, CPU of all parts, to the usual client",
      value: time.warm.cpuMs,
      unit: "ms",
      floor: usually(time.usual.cpuMs),
      goal: 3,
    },
    {
      what: "one-turn spawn, `--no-daemon`, wall, to the usual client",
      value: time.alone.wallMs,
      unit: "ms",
      floor: usually(time.usual.wallMs),
      goal: 5,
    },
  ];
}
