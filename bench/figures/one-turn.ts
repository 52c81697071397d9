import { type Figure, memory, mib, time } from "../figure.ts";
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
  const took = await interleaved(place.rounds, {
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
  const client = (name: string, side: { wallMs: number; cpuMs: number }) => ({
    wall: { name, value: side.wallMs },
    cpu: { name, value: side.cpuMs },
  });
  const floor = client("bare client", took.bare);
  const usually = client("usual client", took.usual);
  const printed = "the bare client, when it prints by `process.stdout`";
  const withDaemon = "one-turn spawn, daemon running";
  const without = "one-turn spawn, `--no-daemon`";
  const peak = { floor: { name: "bare client", value: mib(await peakOf(bare)) } };
  return [
    time(`${printed}, wall`, took.usual.wallMs, { floor: floor.wall }),
    time(`${printed}, CPU`, took.usual.cpuMs, { floor: floor.cpu }),
    time(`${withDaemon}, wall`, took.warm.wallMs, { floor: floor.wall, goal: 3 }),
    time(`${withDaemon}, CPU of all parts`, took.warm.cpuMs, { floor: floor.cpu, goal: 3 }),
    memory(`${withDaemon}, peak memory of the command`, await peakOf(warm), peak),
    time("one-turn spawn, daemon cold, wall", median(cold), { floor: floor.wall }),
    time(`${without}, wall`, took.alone.wallMs, { floor: floor.wall, goal: 5 }),
    time(`${without}, CPU`, took.alone.cpuMs, { floor: floor.cpu }),
    memory(`${without}, peak memory`, await peakOf(alone), peak),
    time(`${withDaemon}, wall, to the usual client`, took.warm.wallMs, { floor: usually.wall, goal: 3 }),
    time(`${withDaemon}, CPU of all parts, to the usual client`, took.warm.cpuMs, {
      floor: usually.cpu,
      goal: 3,
    }),
    time(`${without}, wall, to the usual client`, took.alone.wallMs, { floor: usually.wall, goal: 5 }),
  ];
}
