/** One job for many agents, written in four ways, and a daemon that is killed at random. */

import type { Turn } from "../../../support/model-server/script.ts";
import type { RecordedRequest } from "../../../support/model-server/server.ts";
import { seeded } from "../../../support/seeded.ts";
import type { Machine } from "../machine.ts";
import { firstUserMessage, toolResults } from "../requests.ts";
import { says } from "../scenes.ts";

export interface TeamTortureReport {
  kills: number;
  runs: number;
  agents: number;
  /** Requests of agents that a kill has cut off. */
  askedAgain: number;
  /** Of one run that nothing disturbs. */
  alone: { ms: number; requests: number; tokens: number };
  /** One sentence for each agent that ran twice or was lost, and each result that is not what it should be. */
  wrong: string[];
}

/** Reviews of 40 files by eight agents, and a summary. */
const FILES = 40;
const PARTS = 8;
const PER_PART = FILES / PARTS;
const CHARS_PER_TOKEN = 4;
const SLOWEST_MS = 120;
const SHORTEST_LIFE_MS = 40;
const LONGEST_LIFE_MS = 600;
const parts = Array.from({ length: PARTS }, (_, i) => i);

interface Form {
  file: string;
  text: string;
  /** The command line that starts it. */
  start: string[];
  /** Of the run itself; the summary of the others is an agent's. */
  requests: number;
}

const FORMS = {
  workflow: {
    file: "review.js",
    text: `export const meta = { name: "review", description: "Review files" };
phase("review");
const notes = await parallel(args.map((i) => () => agent("review part " + i)));
phase("summary");
return await agent("sum up " + notes.join(" "));
`,
    start: ["workflow", "run", "--detach", "./review.js", "--args", JSON.stringify(parts)],
    requests: 0,
  },
  compose: {
    file: "review.yaml",
    text: `nodes:
  review:
    for_each: [${parts.join(", ")}]
    prompt: "review part {{item}}"
  summary:
    needs: [review]
    prompt: sum up
`,
    start: ["compose", "up", "--detach", "-f", "review.yaml"],
    requests: 0,
  },
  sh: {
    file: "review.sh",
    text: `${parts.map((i) => `spawn "review part ${i}" > note-${i} &\n`).join("")}wait\ncat note-* | spawn "sum up"\n`,
    start: ["sh", "--detach", "./review.sh"],
    requests: 0,
  },
  agents: {
    file: "review.txt",
    text: "",
    start: ["spawn", "--detach", "--no-stdin", "review all"],
    requests: 2,
  },
} satisfies Record<string, Form>;

export type FormName = keyof typeof FORMS;

export const FORM_NAMES: readonly FormName[] = ["workflow", "compose", "sh", "agents"];

/** Runs the job in one form until the daemon was killed this often, and resumes each run until it has ended. */
export async function teamTorture(
  machine: Machine,
  as: FormName,
  { kills, seed }: { kills: number; seed: number },
): Promise<TeamTortureReport> {
  const random = seeded(seed);
  const { file, text, start, requests } = FORMS[as];
  const model = await machine.model(async (request) => {
    await Bun.sleep(random() * SLOWEST_MS);
    const input_tokens = Math.ceil(JSON.stringify(request.body).length / CHARS_PER_TOKEN);
    return { ...answer(request), usage: { input_tokens, output_tokens: 20 } };
  });
  for (let i = 0; i < FILES; i++) machine.write(`file-${i}`, `content of file ${i}\n`);
  machine.write(file, text);
  const ended: Ended[] = [];
  const begin = async (): Promise<Begun> => {
    const from = model.requests.length;
    const { stdout } = await machine.ok(start);
    return { from, uuid: stdout.trim().split(" ").at(-1) ?? "" };
  };
  const finish = async ({ from, uuid }: Begun): Promise<Ended> => {
    await machine.run(["wait", uuid]);
    const one = await endedRun(machine, uuid, model.requests.slice(from));
    ended.push(one);
    return one;
  };
  const first = await begin();
  const { ms, tokens, requests: asked } = await finish(first);
  let killed = 0;
  while (killed < kills) {
    const run = await begin();
    while (killed < kills) {
      await Bun.sleep(SHORTEST_LIFE_MS + random() * (LONGEST_LIFE_MS - SHORTEST_LIFE_MS));
      await machine.endDaemon();
      killed++;
      const { exit_code } = await machine.json(["show", run.uuid, "--json"]);
      if (exit_code === 0) break;
      await machine.run(["resume", run.uuid, "--detach"]);
    }
    await finish(run);
  }
  const fewest = PARTS * 2 + requests + (as === "agents" ? 0 : 1);
  return {
    kills: killed,
    runs: ended.length,
    agents: ended.reduce((sum, { agents }) => sum + agents, 0),
    askedAgain: ended.reduce((sum, one) => sum + one.requests - fewest, 0),
    alone: { ms, tokens, requests: asked },
    wrong: ended.flatMap(({ wrong }) => wrong),
  };
}

interface Begun {
  uuid: string;
  /** Requests before it. */
  from: number;
}

interface Ended {
  agents: number;
  requests: number;
  ms: number;
  tokens: number;
  wrong: string[];
}

/** An agent reads the files of its part; who sums up names the parts that it was given. */
function answer(request: RecordedRequest): Turn {
  const asked = firstUserMessage(request);
  const results = toolResults(request);
  const part = /review part (\d+)/.exec(asked)?.[1];
  if (asked.startsWith("review all") && results.length === 0)
    return { tool_calls: parts.map((i) => ({ name: "Agent", input: { intent: `review part ${i}` } })) };
  if (part === undefined) {
    const given = new Set(JSON.stringify(request.body).match(/NOTE-\d+/g));
    return says([...given].sort().join(" "));
  }
  if (results.length > 0) return says(`NOTE-${part}`);
  const files = Array.from({ length: PER_PART }, (_, i) => `file-${Number(part) * PER_PART + i}`);
  return { tool_calls: files.map((path) => ({ name: "Read", input: { path } })) };
}

async function endedRun(
  machine: Machine,
  uuid: string,
  requests: readonly RecordedRequest[],
): Promise<Ended> {
  const run = await machine.json(["show", uuid, "--json"]);
  const all: { intent: string; parent_uuid: string | null; exit_code: number | null; ended_at_ms: number }[] =
    await machine.json(["ps", "-a", "--json"]);
  const agents = all.filter(({ parent_uuid }) => parent_uuid === uuid);
  const expected = parts.map((i) => `NOTE-${i}`).join(" ");
  const wrong: string[] = [];
  if (run.exit_code !== 0 || !run.result.includes(expected))
    wrong.push(`ended with ${run.exit_code}, ${run.error?.message ?? run.result}`);
  for (const i of parts) {
    const of = agents.filter(({ intent }) => intent === `review part ${i}`);
    if (of.length !== 1 || of[0]?.exit_code !== 0) wrong.push(`${of.length} agents have reviewed part ${i}`);
    const late = requests.filter(
      (one) =>
        firstUserMessage(one).startsWith(`review part ${i}`) &&
        performance.timeOrigin + one.at > Math.max(...of.map(({ ended_at_ms }) => ended_at_ms)),
    );
    if (late.length > 0) wrong.push(`part ${i} was asked ${late.length} times after its end`);
  }
  return {
    agents: agents.length,
    requests: requests.length,
    ms: run.ended_at_ms - run.created_at_ms,
    tokens: run.tokens_used,
    wrong: wrong.map((one) => `${uuid}: ${one}`),
  };
}
