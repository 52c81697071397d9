import { type Figure, time } from "../figure.ts";
import { type Command, interleaved, median, type Timing } from "../measure.ts";
import { type Place, TURNS } from "../place.ts";

/** A run of 50 tool calls, and within it the time between a model's answer and the next request. */
export async function toolCalls(place: Place): Promise<Figure[]> {
  const user = place.user("main");
  const { toolCalls: server } = place;
  const gaps: Record<"bare" | "rnix", number[][]> = { bare: [], rnix: [] };
  const measured = (side: "bare" | "rnix", command: Command) => async (): Promise<Timing> => {
    const from = server.requests.length;
    const timing = await user.timedWithDaemon(command);
    gaps[side].push(gapsFrom(place, from));
    return timing;
  };
  const took = await interleaved(Math.max(3, Math.ceil(place.rounds / 2)), {
    bare: measured("bare", user.command([place.floors.client, server.openaiUrl])),
    rnix: measured("rnix", user.spawn(server)),
  });
  const gap = (from: number, to: number): Pick<Figure, "value" | "unit" | "floor"> => {
    const at = (side: "bare" | "rnix") => median(gaps[side].slice(1).flatMap((run) => run.slice(from, to)));
    return { value: at("rnix"), unit: "ms", floor: { name: "bare client", value: at("bare") } };
  };
  const first = gap(0, 10);
  const last = gap(TURNS - 10, TURNS);
  const floor = (value: number) => ({ name: "bare client", value });
  return [
    time("run of 50 tool calls, wall", took.rnix.wallMs, { floor: floor(took.bare.wallMs) }),
    time("run of 50 tool calls, CPU of all parts, the shells too", took.rnix.cpuMs, {
      floor: floor(took.bare.cpuMs),
    }),
    { what: "from answer to next request, all turns", ...gap(0, TURNS), goal: 2.5 },
    { what: "from answer to next request, turns 1–10", ...first, goal: 2.5 },
    { what: "from answer to next request, turns 41–50", ...last, goal: 2.5 },
    { what: "turns 41–50 to turns 1–10", value: last.value / first.value, unit: "×", goal: 1.2 },
  ];
}

/** Ms from the end of each answer to the arrival of the request after it, in the run that began there. */
function gapsFrom({ toolCalls: server, answeredAt }: Place, from: number): number[] {
  return server.requests
    .slice(from + 1)
    .map((request) => request.at - (answeredAt.get(request.index - 1) ?? Number.NaN));
}
