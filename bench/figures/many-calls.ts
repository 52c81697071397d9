import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { ModelServer } from "../../test/support/model-server/server.ts";
import type { Figure } from "../figure.ts";
import { timed } from "../measure.ts";
import type { Place } from "../place.ts";

const RUNS = 700;
/** Clients that spawn at a time. */
const SPAWNERS = 8;
/** From the first answer to the last one. */
const ANSWERS_MS = 3_000;
/** Well above Bun's own limit of 256 requests. */
const ENTRY = "default_model: m, concurrency: 2000";

const Runs = z.array(z.looseObject({ exit_code: z.number().nullable() }));

/** 700 calls at a time on a provider that answers none of them yet, and one run of another provider beside them. */
export async function manyCalls(place: Place): Promise<Figure[]> {
  const answer = Promise.withResolvers<void>();
  await using slow = await ModelServer.start(async ({ index }) => {
    await answer.promise;
    // No 700 answers end in the same millisecond.
    await Bun.sleep((index / RUNS) * ANSWERS_MS);
    return { text: "done" };
  });
  await using quick = await ModelServer.start(() => ({ text: "done" }));
  const user = place.user("many");
  const providers = join(user.rnix("").env.XDG_CONFIG_HOME ?? "", "rnix/providers.yaml");
  mkdirSync(dirname(providers), { recursive: true });
  writeFileSync(
    providers,
    `providers:
  slow: { driver: openai-compatible, base_url: "${slow.openaiUrl}", ${ENTRY} }
  quick: { driver: openai-compatible, base_url: "${quick.openaiUrl}", ${ENTRY} }
`,
  );
  await user.daemon();
  let left = RUNS;
  const spawner = async (): Promise<void> => {
    while (left-- > 0) await timed(user.rnix("spawn", "--provider", "slow", "-q", "--detach", "go"));
  };
  await Promise.all(Array.from({ length: SPAWNERS }, spawner));
  await slow.arrived(RUNS);
  const beside = await timed(user.rnix("spawn", "--provider", "quick", "-q", "go"));
  answer.resolve();
  const listed = async (...flags: string[]) =>
    Runs.parse(JSON.parse((await timed(user.rnix("ps", "--json", ...flags))).stdout));
  while ((await listed()).length > 0) await Bun.sleep(100);
  const finished = (await listed("-a")).filter(({ exit_code }) => exit_code === 0).length;
  const who = `${RUNS} calls at a time of one provider`;
  return [
    { what: `${who}, not finished`, value: RUNS + 1 - finished, unit: "runs", goal: 0 },
    { what: `one run of another provider beside ${who}`, value: beside.wallMs, unit: "ms", goal: 1000 },
  ];
}
