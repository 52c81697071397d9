import { readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { ModelServer } from "../../test/support/model-server/server.ts";
import { copyRun } from "../copy-run.ts";
import { type Figure, time } from "../figure.ts";
import { median, timed } from "../measure.ts";
import type { Place } from "../place.ts";

/** Steps of the long run. */
const STEPS = 1000;
/** Ended runs on disk. */
const OLD_RUNS = 10_000;

/** What is on disk: how much a step takes, and what many old runs cost a command that does not ask for them. */
export async function records(place: Place): Promise<Figure[]> {
  return [...(await bytesPerStep(place)), ...(await manyOldRuns(place))];
}

async function bytesPerStep(place: Place): Promise<Figure[]> {
  const user = place.user("long");
  const model = await ModelServer.start((request) => {
    const turn = request.assistantMessages;
    if (turn >= STEPS - 1) return { text: "done" };
    return { tool_calls: [{ name: "Bash", input: { command: `echo ${String(turn).padStart(4, "0")}` } }] };
  });
  try {
    await timed(user.spawn(model, "--max-steps", String(STEPS + 1)));
  } finally {
    await model.stop();
  }
  const folder = join(user.command([]).cwd, ".rnix/data/steps");
  const [uuid = ""] = readdirSync(folder);
  const bytes = readFileSync(join(folder, uuid, "steps.jsonl"), "utf8")
    .split("\n")
    .slice(0, -1)
    .map((line) => Buffer.byteLength(line) + 1);
  const around = (step: number): number => median(bytes.slice(step - 5, step + 4)) / 1024;
  const all = readdirSync(join(folder, uuid))
    .map((name) => statSync(join(folder, uuid, name)).size)
    .reduce((sum, size) => sum + size, 0);
  return [
    { what: "a step in `steps.jsonl`, at step 10", value: around(10), unit: "KiB" },
    { what: "a step in `steps.jsonl`, at step 100", value: around(100), unit: "KiB" },
    { what: `a step in \`steps.jsonl\`, at step ${STEPS}`, value: around(STEPS - 5), unit: "KiB" },
    { what: `step ${STEPS} to step 10`, value: around(STEPS - 5) / around(10), unit: "×", goal: 1.2 },
    { what: "a step in all files of the run, its syscalls too", value: all / STEPS / 1024, unit: "KiB" },
  ];
}

async function manyOldRuns(place: Place): Promise<Figure[]> {
  const user = place.user("old");
  const fresh = place.user("cold");
  await timed(user.spawn(place.oneTurn));
  const folder = join(user.command([]).cwd, ".rnix/data");
  copyRun(join(folder, "steps"), OLD_RUNS);
  const started: number[] = [];
  const afterKill: number[] = [];
  const floor: number[] = [];
  for (let round = 0; round < Math.min(place.rounds, 7); round++) {
    await user.stopDaemon();
    started.push((await timed(user.rnix("daemon", "start"))).wallMs);
    await user.killDaemon();
    afterKill.push((await timed(user.rnix("daemon", "start"))).wallMs);
    await fresh.stopDaemon();
    floor.push((await timed(fresh.rnix("daemon", "start"))).wallMs);
  }
  rmSync(join(folder, "index"), { recursive: true, force: true });
  const list = user.rnix("ps", "-a");
  const first = (await timed(list)).wallMs;
  const later: number[] = [];
  for (let round = 0; round < Math.min(place.rounds, 7); round++) later.push((await timed(list)).wallMs);
  const one = (await timed(user.rnix("show", String(OLD_RUNS / 2)))).wallMs;
  return [
    time(`daemon start with ${OLD_RUNS} old runs, wall`, median(started), { goal: 200 }),
    { what: "the same after a kill -9, wall", value: median(afterKill), unit: "ms", goal: 200 },
    { what: "daemon start with none, wall", value: median(floor), unit: "ms" },
    { what: `\`rnix ps -a\` of ${OLD_RUNS}, wall`, value: median(later), unit: "ms" },
    { what: "the same without a catalogue", value: first, unit: "ms" },
    { what: `\`rnix show PID\` among ${OLD_RUNS}, wall`, value: one, unit: "ms" },
  ];
}

/** Copies the one run that is there, each with its own UUID and PID. */
