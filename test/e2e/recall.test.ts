import { expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { Machine } from "./support/machine.ts";
import { bash, says } from "./support/scenes.ts";

/** Finds what runs of this project have said, by the service `search`. */
const RECALL = `
import { defineTool } from "rnix/plugin";
export default defineTool({
  name: "Recall", description: "Recall.", needs: ["search", "history"],
  input: { type: "object", properties: { text: { type: "string" }, agent: { type: "string" } }, required: ["text"] },
  async run({ text, agent }, { search, history, project }) {
    const { hits, pending } = await search.find({ text, agent, runs: true, project: project.dir, limit: 10 });
    const runs = await history.runs({ project: project.dir, verdict: "completed", limit: 10 });
    return JSON.stringify({ found: hits.map(({ run, snippet }) => [run.pid, run.step, snippet]), pending, runs: runs.map(({ pid }) => pid) });
  },
});
`;

const Answer = z.object({
  found: z.array(z.tuple([z.number(), z.number(), z.string()])),
  pending: z.number(),
  runs: z.array(z.number()),
});

test.concurrent("a plugin recalls what earlier runs said, with a daemon and without one, after gc and a deleted index", async () => {
  await using machine = new Machine();
  machine.write(".rnix/plugins/recall.ts", RECALL);
  await machine.play({
    first: [bash("echo negotiated"), says("Kerberos was misconfigured.")],
    second: [says("The kerberos ticket had expired.")],
  });
  await machine.ok(["trust", "--yes"]);
  await machine.ok(["spawn", "first"]);
  await machine.ok(["spawn", "second", "--no-daemon"]);
  const recall = async (text: string, ...flags: string[]) => {
    const { code, stdout, stderr } = await machine.run([
      "call",
      ...flags,
      "Recall",
      JSON.stringify({ text }),
    ]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    return Answer.parse(JSON.parse(stdout));
  };
  for (const flags of [[], ["--no-daemon"]]) {
    const { found, pending, runs } = await recall("kerberos", ...flags);
    expect(found.map(([, , snippet]) => snippet).toSorted()).toEqual([
      "Kerberos was misconfigured.",
      "second The kerberos ticket had expired.",
    ]);
    expect(pending).toBe(0);
    expect(runs).toHaveLength(2);
  }
  expect((await recall("negotiated")).found).toMatchObject([
    [1, 1, expect.stringContaining("echo negotiated")],
  ]);
  rmSync(join(machine.dataDir, "index"), { recursive: true });
  expect((await recall("kerberos")).found).toHaveLength(2);
  machine.config({ retention_runs: 1 });
  expect((await machine.run(["gc"])).stdout).toContain("1 runs removed");
  expect((await recall("kerberos")).found).toEqual([
    [expect.any(Number), 1, "second The kerberos ticket had expired."],
  ]);
});

test.concurrent("rnix ps takes an agent, a state, a time and a number", async () => {
  await using machine = await Machine.playing({ good: [says("done")], bad: [says("done")] });
  machine.write(".rnix/agents/coder/agent.yaml", "name: coder\ndescription: Codes.\n");
  machine.write(".rnix/agents/coder/instructions.md", "Code.\n");
  await machine.run(["trust", "--yes"]);
  const spawn = (...args: string[]) => machine.run(["spawn", ...args]);
  expect((await spawn("good", "--agent", "coder")).code).toBe(0);
  expect((await spawn("bad", "--check", "false")).code).toBe(1);
  expect((await spawn("good")).code).toBe(0);
  const pids = async (...flags: string[]) => {
    const { code, stdout, stderr } = await machine.run(["ps", "-a", "--json", ...flags]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    return z
      .array(z.object({ pid: z.number() }))
      .parse(JSON.parse(stdout))
      .map(({ pid }) => pid);
  };
  expect(await pids()).toEqual([1, 2, 3]);
  expect(await pids("--agent", "coder")).toEqual([1]);
  expect(await pids("--state", "failed")).toEqual([2]);
  expect(await pids("--state", "done", "--limit", "1")).toEqual([3]);
  expect(await pids("--limit", "2")).toEqual([2, 3]);
  expect(await pids("--since", "1h")).toEqual([1, 2, 3]);
  expect(await pids("--since", "2100-01-01")).toEqual([]);
  expect((await machine.run(["ps", "-a", "--since", "soon"])).code).toBe(64);
  expect((await machine.run(["ps", "--limit", "2", "--json"])).stdout).toBe("[]\n");
});
