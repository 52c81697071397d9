import { type Figure, time } from "../figure.ts";
import { interleaved, type Timing } from "../measure.ts";
import type { Place } from "../place.ts";

const GOAL = 1.15;

/** A run of 50 tool calls where users work, in a git work tree, beside the same outside of git. */
export async function workTree(place: Place): Promise<Figure[]> {
  const run = (name: string, files: number, server = place.toolCalls) => {
    const user = place.user(name);
    if (files > 0) user.makeWorkTree(files);
    return (): Promise<Timing> => user.timedWithDaemon(user.spawn(server));
  };
  const took = await interleaved(Math.max(3, Math.ceil(place.rounds / 2)), {
    outside: run("outside", 0),
    of30: run("of 30", 30),
    of10000: run("of 10000", 10_000),
    changing: run("outside, changing", 0, place.changingCalls),
    changing30: run("of 30, changing", 30, place.changingCalls),
    changing10000: run("of 10000, changing", 10_000, place.changingCalls),
  });
  const row = (what: string, side: keyof typeof took, floor: keyof typeof took): Figure[] => [
    time(`${what}, wall`, took[side].wallMs, {
      floor: { name: "outside of git", value: took[floor].wallMs },
      goal: GOAL,
    }),
    time(`${what}, CPU of all parts`, took[side].cpuMs, {
      floor: { name: "outside of git", value: took[floor].cpuMs },
    }),
  ];
  return [
    ...row("50 tool calls that change nothing, work tree of 30 files", "of30", "outside"),
    ...row("the same, 10,000 files", "of10000", "outside"),
    ...row("50 tool calls that change a file each, work tree of 30 files", "changing30", "changing"),
    ...row("the same, 10,000 files", "changing10000", "changing"),
  ];
}
