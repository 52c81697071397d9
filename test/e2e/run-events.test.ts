/** A client that continues the stream of a run's events by its cursor. */

import { expect, test } from "bun:test";
import { z } from "zod";
import { seeded } from "../support/seeded.ts";
import { Machine } from "./support/machine.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { RawClient } from "./support/wire.ts";

const Event = z.looseObject({ n: z.number(), t: z.string() });
type Event = z.infer<typeof Event>;
type Query = { uuid: string; cwd: string; after?: number; bodies?: boolean };

/** Reads the stream to its end, or up to so many events: then the client hangs up. */
async function events(machine: Machine, query: Query, most = Number.POSITIVE_INFINITY) {
  const client = await RawClient.connect(machine.socket);
  const found: Event[] = [];
  expect((await client.ask("run_events", query)).ok).toBe(true);
  while (found.length < most) {
    const line = await client.line();
    if (line.type === "eof") {
      expect(line.payload).toBeUndefined();
      client.destroy();
      return { found, ended: true };
    }
    expect(line.type).toBe("run_event");
    found.push(Event.parse(line.payload));
  }
  client.destroy();
  return { found, ended: false };
}

test("a client that is cut at random gets each event of a run once, with all numbers", async () => {
  await using machine = new Machine();
  const steps = [...Array(12).keys()].map((step) => bash(`echo ${step}`, `sleep 0.0${step}`, "seq 300"));
  const write = calls(
    ["Write", { path: "a.txt", content: "one" }],
    ["Nothing", {}],
    ["Read", { path: "a.txt" }],
  );
  await machine.play({ "work on": [...steps, write, says("It is done.")] });
  const { stdout } = await machine.run(["spawn", "work on it", "--detach"]);
  const uuid = stdout.trim().split(" ")[1] ?? "";
  const query = { uuid, cwd: machine.project, bodies: true };
  const steady = events(machine, query);
  const cut: Event[] = [];
  const random = seeded(7);
  for (let ended = false; !ended; ) {
    const after = cut.at(-1)?.n;
    const some = await events(machine, { ...query, ...(after !== undefined && { after }) }, 1 + random() * 9);
    cut.push(...some.found);
    ended = some.ended;
  }
  const whole = (await steady).found;
  const later = (await events(machine, query)).found;
  expect(cut).toEqual(later);
  expect(whole).toEqual(later);
  expect(later.map(({ n }) => n)).toEqual(later.map((_, i) => i + 1));
  expect(later.filter(({ t }) => t === "step")).toHaveLength(14);
  expect(later.filter(({ t }) => t === "state").map(({ status }) => status)).toEqual(["made", "ended"]);
  const short = (await events(machine, { uuid, cwd: machine.project, after: 20 })).found;
  expect(short).toEqual(later.slice(20).map(({ body: _, ...event }) => event));
  expect(JSON.stringify(short).length).toBeLessThan(JSON.stringify(later.slice(20)).length / 3);
});
