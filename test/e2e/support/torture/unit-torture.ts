/** Runs with background units, and a daemon that is killed at random. */

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { UnitLine } from "../../../../src/run/unit-schema.ts";
import { recordedUnits } from "../../../../src/store/runs/recorded-units.ts";
import type { RecordedRequest } from "../../../support/model-server/server.ts";
import { seeded } from "../../../support/seeded.ts";
import { until } from "../../../support/until.ts";
import { writeKeys } from "../keys-file.ts";
import type { Machine } from "../machine.ts";
import { toolNames } from "../requests.ts";
import { calls, says } from "../scenes.ts";
import { type OnDisk, runsOnDisk } from "./on-disk.ts";

export interface UnitTortureReport {
  kills: number;
  runs: number;
  units: number;
  /** Units by their last status. */
  ends: Record<string, number>;
  /** Ends and lines of units that no model has read, and those that one has read more than once. */
  lost: number;
  twice: number;
  /** One sentence for each of these, for runs that came to another end, and for what is left behind. */
  wrong: string[];
}

/** Ends that an agent wants to read before it answers. */
const GOAL = 6;
/** Runs at a time; each second one is parked while its units run. */
const AGENTS = 4;
const LINES = 5;
/** Between the start of a daemon and its end. */
const SHORTEST_LIFE_MS = 50;
const LONGEST_LIFE_MS = 1_200;
const END_MS = 120_000;

/** Kills the daemon this often, lets all runs end, and compares what their models have read with their records. */
export async function unitTorture(
  machine: Machine,
  { kills, seed }: { kills: number; seed: number },
): Promise<UnitTortureReport> {
  const random = seeded(seed);
  await machine.model((request) => answer(request, random));
  writeKeys(machine);
  const dataDir = join(machine.project, ".rnix/data");
  const wrong: string[] = [];
  let spawned = 0;
  for (let killed = 0; killed < kills; ) {
    const live = runsOnDisk(dataDir).filter(({ info }) => info !== null && !isOver(info));
    if (live.length < AGENTS) {
      const parks = spawned % 2 === 1 ? ["--on-units", "park"] : [];
      spawned++;
      const args = ["spawn", "--detach", "--resume-on-restart", "--max-steps", "unlimited", ...parks];
      const { code, stderr } = await machine.run([...args, `units ${spawned}`]);
      if (code !== 0) wrong.push(`spawn ended with ${code}: ${stderr}`);
      continue;
    }
    await Bun.sleep(SHORTEST_LIFE_MS + random() * (LONGEST_LIFE_MS - SHORTEST_LIFE_MS));
    await machine.endDaemon();
    killed++;
    await machine.ok(["daemon", "start"]);
  }
  await until(() => allOver(machine, dataDir), "the end of all runs", END_MS).catch((late: unknown) =>
    wrong.push(String(late)),
  );
  return { kills, ...compare(dataDir, wrong), ...leftBehind(machine, wrong) };
}

/** Resumes the runs that died too often at one step: the daemon leaves them to the user. */
async function allOver(machine: Machine, dataDir: string): Promise<boolean> {
  const live = runsOnDisk(dataDir).filter(({ info }) => info !== null && !isOver(info));
  for (const { uuid, info } of live)
    if (info?.state === "suspended" && info.suspended?.wake.on !== "unit")
      await machine.run(["resume", uuid, "--detach"]);
  return live.length === 0;
}

/** Starts units until enough have ended, and reads what they report. */
function answer(request: RecordedRequest, random: () => number): ReturnType<typeof says> {
  const text = JSON.stringify(request.body);
  const ended = new Set(text.match(END)?.map((end) => end.split(" ")[1])).size;
  const started = new Set(text.match(STARTED)).size;
  if (!toolNames(request).includes("Monitor")) return calls(["ToolSearch", { query: "Monitor" }]);
  if (started >= GOAL || started - ended >= 3) return says(started <= ended ? "done" : "waiting");
  const seconds = (random() * 0.4).toFixed(2);
  const lines = `for i in $(seq ${LINES}); do echo "<line $i>"; sleep ${(random() * 0.2).toFixed(2)}; done`;
  return random() < 0.5
    ? calls(["Bash", { command: `sleep ${seconds}; echo out`, run_in_background: true }])
    : calls(["Monitor", { command: lines, description: "lines" }]);
}

const END = /unit \w{9} \[\w+\] (completed|failed|killed)/g;
const STARTED = /as unit \w{9}/g;

function isOver({ state, ended_at_ms, suspended }: NonNullable<OnDisk["info"]>): boolean {
  return ended_at_ms !== null && (state !== "suspended" || suspended === null);
}

function compare(dataDir: string, wrong: string[]): Omit<UnitTortureReport, "kills"> {
  const ends: Record<string, number> = {};
  const report = { runs: 0, units: 0, ends, lost: 0, twice: 0, wrong };
  for (const { uuid, info, steps } of runsOnDisk(dataDir)) {
    if (info === null) continue;
    report.runs++;
    if (info.exit_reason !== "completed")
      wrong.push(`run ${uuid} has come to ${info.exit_reason ?? info.state}: ${info.error?.message}`);
    const read = steps.flatMap(({ messages }) => messages.map(({ content }) => content)).join("\n");
    for (const { snapshot } of recordedUnits(unitLines(dataDir, uuid))) {
      report.units++;
      ends[snapshot.status] = (ends[snapshot.status] ?? 0) + 1;
      const count = (what: string, times: number, least: number): void => {
        if (times < least) report.lost++;
        if (times > 1) report.twice++;
        if (times < least || times > 1)
          wrong.push(`run ${uuid}: ${what} of ${snapshot.id} read ${times} times`);
      };
      count(
        "the end",
        countOf(read, new RegExp(`unit ${snapshot.id} \\[\\w+\\] (completed|failed|killed)`, "g")),
        1,
      );
      if (snapshot.kind !== "monitor") continue;
      const reports =
        read
          .match(new RegExp(`unit ${snapshot.id} \\[monitor\\] events:\n(<line \\d>\n?)*`, "g"))
          ?.join("") ?? "";
      // A monitor that was killed may have had no time for them.
      for (let line = 1; line <= LINES; line++)
        count(
          `line ${line}`,
          reports.split(`<line ${line}>`).length - 1,
          snapshot.status === "completed" ? 1 : 0,
        );
    }
  }
  return report;
}

function countOf(text: string, pattern: RegExp): number {
  return text.match(pattern)?.length ?? 0;
}

function unitLines(dataDir: string, uuid: string): UnitLine[] {
  const file = join(dataDir, "steps", uuid, "units.jsonl");
  let text = "";
  try {
    text = readFileSync(file, "utf8");
  } catch {
    return []; // It was killed before its first unit.
  }
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => UnitLine.parse(JSON.parse(line)));
}

function leftBehind(machine: Machine, wrong: string[]): { wrong: string[] } {
  return { wrong: [...wrong, ...machine.strays().map((stray) => `left behind: ${stray}`)] };
}
