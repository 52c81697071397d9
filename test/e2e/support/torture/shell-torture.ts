/** Scripts of the agent shell, and a daemon that is killed at random. */

import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { seeded } from "../../../support/seeded.ts";
import type { Machine } from "../machine.ts";
import { firstUserMessage } from "../requests.ts";

export interface ShellTortureReport {
  kills: number;
  scripts: number;
  /** Commands that had ended before a kill. */
  ended: number;
  /** One sentence for each command that ran again after its end, and each script that did not end as it should. */
  wrong: string[];
}

/** Each command that acts leaves its name: `mark` in the file `ran`, `spawn` in its intent. */
const SCRIPT = `echo begin
sh mark a && sh mark b | tr a-z A-Z
X=$(sh mark c; spawn "name it")
spawn "one" | spawn "two" | tr A-Z a-z
sh mark d > d.txt & spawn "three" & wait
printf '%s\\n' $X "$(cat /proc/self/intent)" > out.txt
false || sh mark e
spawn "fail" || echo "failed with $?"
cat < out.txt
exit 3
`;
const EXPECTED = "begin\na\nB\ntwo\nTHREE\ne\nfailed with 1\nc\nNAME\nIT\nsh job.sh";
const SLOWEST_MS = 100;
const SHORTEST_LIFE_MS = 30;
const LONGEST_LIFE_MS = 400;

/**
 * Runs the script again and again until the daemon was killed this often and this many commands had ended before a kill,
 * and resumes each until it has ended.
 */
export async function shellTorture(
  machine: Machine,
  { kills, commands, seed }: { kills: number; commands: number; seed: number },
): Promise<ShellTortureReport> {
  const random = seeded(seed);
  const asked: string[] = [];
  await machine.model(async (request) => {
    const intent = firstUserMessage(request).split("\n")[0] ?? "";
    asked.push(intent);
    await Bun.sleep(random() * SLOWEST_MS);
    if (intent === "fail") return { fault: { kind: "status", status: 400, message: "no" } };
    return { text: intent.toUpperCase() };
  });
  machine.write("mark", '#!/bin/sh\necho "$1" >> ran\nsleep 0.03\necho "$1"\n');
  machine.write("job.sh", SCRIPT);
  const report: ShellTortureReport = { kills: 0, scripts: 0, ended: 0, wrong: [] };
  /** A daemon in which no command ends lets the next one live longer: on a busy machine none would ever end. */
  let longest = LONGEST_LIFE_MS;
  const isEnough = (more: number): boolean => report.kills >= kills && report.ended + more >= commands;
  while (!isEnough(0)) {
    rmSync(join(machine.project, "ran"), { force: true });
    asked.length = 0;
    const acted = (name: string): number =>
      [...asked, ...linesOf(machine, "ran")].filter((one) => one === name).length;
    /** By command: how often it had acted when it ended. */
    const ended = new Map<string, number>();
    const [, uuid = ""] = (await machine.ok(["sh", "--detach", "./job.sh"])).stdout.trim().split(" ");
    for (;;) {
      if (isEnough(ended.size)) break;
      await Bun.sleep(SHORTEST_LIFE_MS + random() * (longest - SHORTEST_LIFE_MS));
      await machine.endDaemon();
      report.kills++;
      const before = ended.size;
      for (const name of endedIn(machine, uuid)) if (!ended.has(name)) ended.set(name, acted(name));
      longest = ended.size > before ? LONGEST_LIFE_MS : longest * 1.5;
      if ((await machine.json(["show", uuid, "--json"])).exit_code === 3) break;
      await machine.run(["resume", uuid, "--detach"]);
    }
    await machine.run(["wait", uuid]);
    const { exit_code, result } = await machine.json(["show", uuid, "--json"]);
    report.scripts++;
    report.ended += ended.size;
    if (exit_code !== 3 || result?.trim() !== EXPECTED)
      report.wrong.push(`${uuid} ended with ${exit_code}: ${result}`);
    for (const [name, times] of ended)
      if (acted(name) !== times) report.wrong.push(`${uuid}: ${name} ran again after its end`);
  }
  return report;
}

function linesOf(machine: Machine, file: string): string[] {
  const path = join(machine.project, file);
  return existsSync(path) ? readFileSync(path, "utf8").trim().split("\n") : [];
}

/** What the journal of the open step says has ended: the name of each command that acts. */
function endedIn(machine: Machine, uuid: string): string[] {
  return linesOf(machine, join(".rnix/data/steps", uuid, "step.journal"))
    .filter((line) => line.includes('"call_end"') && line.endsWith("}"))
    .flatMap((line) => {
      const { input } = JSON.parse(line).call;
      return input.intent ?? [...(input.command ?? "").matchAll(/mark (\w)/g)].map(([, name]) => name);
    });
}
