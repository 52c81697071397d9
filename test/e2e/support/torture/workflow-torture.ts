/** Workflows, and a daemon that is killed at random. */

import type { RecordedRequest } from "../../../support/model-server/server.ts";
import { seeded } from "../../../support/seeded.ts";
import type { Machine } from "../machine.ts";
import { firstUserMessage } from "../requests.ts";

export interface WorkflowTortureReport {
  kills: number;
  workflows: number;
  agents: number;
  /** Requests of agents that a kill has cut off. */
  askedAgain: number;
  /** One sentence for each agent that ran twice or was lost, and each value that is not what it should be. */
  wrong: string[];
}

/** Files of one review, and agents at the same time: two stages for each file, two identical calls, one summary. */
const FILES = 12;
const SCRIPT = `export const meta = { name: "review", description: "torture" };
phase("review");
const notes = await pipeline(
  Array.from({ length: ${FILES} }, (_, i) => i),
  (i) => agent("review " + i),
  (note, i) => agent("refute " + note),
);
const same = await parallel([() => agent("the same"), () => agent("the same")]);
phase("summary");
return (await agent("sum up " + notes.join(","))) + " " + same.join(" ");
`;
const AGENTS = 2 * FILES + 2 + 1;
const SLOWEST_MS = 120;
const SHORTEST_LIFE_MS = 40;
const LONGEST_LIFE_MS = 600;

/** Runs workflows one after the other until the daemon was killed this often, and resumes each until it has ended. */
export async function workflowTorture(
  machine: Machine,
  { kills, seed }: { kills: number; seed: number },
): Promise<WorkflowTortureReport> {
  const random = seeded(seed);
  const model = await machine.model(async (request) => {
    await Bun.sleep(random() * SLOWEST_MS);
    return { text: firstUserMessage(request).replaceAll(" ", "-").toUpperCase() };
  });
  machine.write("review.js", SCRIPT);
  const report: WorkflowTortureReport = { kills: 0, workflows: 0, agents: 0, askedAgain: 0, wrong: [] };
  const notes = Array.from({ length: FILES }, (_, i) => `REFUTE-REVIEW-${i}`).join(",");
  const expected = `SUM-UP-${notes} THE-SAME THE-SAME`;
  while (report.kills < kills) {
    const from = model.requests.length;
    const [, uuid = ""] = (await machine.ok(["workflow", "run", "./review.js", "--detach"])).stdout
      .trim()
      .split(" ");
    for (;;) {
      if (report.kills >= kills) break;
      await Bun.sleep(SHORTEST_LIFE_MS + random() * (LONGEST_LIFE_MS - SHORTEST_LIFE_MS));
      await machine.endDaemon();
      report.kills++;
      const { exit_code } = await machine.json(["show", uuid, "--json"]);
      if (exit_code === 0) break;
      await machine.run(["workflow", "resume", uuid, "--detach"]);
    }
    await machine.run(["wait", uuid]);
    const { run, agents } = await machine.json(["workflow", "show", uuid, "--json"]);
    report.workflows++;
    report.agents += agents.length;
    if (run.exit_code !== 0 || run.result !== expected)
      report.wrong.push(`${uuid}: ended with ${run.exit_code}, ${run.error?.message ?? run.result}`);
    if (agents.length !== AGENTS) report.wrong.push(`${uuid}: ${agents.length} agents instead of ${AGENTS}`);
    report.askedAgain += model.requests.length - from - AGENTS;
    report.wrong.push(...repeated(agents, model.requests.slice(from)).map((one) => `${uuid}: ${one}`));
  }
  return report;
}

/** Agents that were asked for again after their end. */
function repeated(
  agents: readonly { intent: string; ended_at_ms: number | null }[],
  requests: readonly RecordedRequest[],
): string[] {
  return [...Map.groupBy(agents, ({ intent }) => intent)].flatMap(([intent, of]) => {
    const last = Math.max(...of.map(({ ended_at_ms }) => ended_at_ms ?? Number.POSITIVE_INFINITY));
    const late = requests.filter(
      (one) => firstUserMessage(one) === intent && performance.timeOrigin + one.at > last,
    );
    return late.length > 0 ? [`"${intent}" was asked ${late.length} times after its end`] : [];
  });
}
