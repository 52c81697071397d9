import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../support/machine.ts";

const COMMANDS =
  "::error::e\n##[group]g\nx ##vso[task.setvariable variable=PATH]/x\n##teamcity[setParameter name='a']";
/** As the runners of GitHub, Azure and TeamCity find them. */
const RUNS = /^\s*::[a-z-]+(?: [^:\n]*)?::|##\[|##vso\[|##teamcity\[/im;
const SPAWN = ["spawn", "--provider", "replay", "--model", "script.yaml"];

async function machineThatPrints(): Promise<Machine> {
  const machine = new Machine();
  machine.write("all.txt", COMMANDS);
  const call = `{ name: Bash, input: { command: cat all.txt } }`;
  const text = JSON.stringify(COMMANDS);
  machine.write(
    "script.yaml",
    `responses:\n  - { text: ${text}, tool_calls: [${call}] }\n  - text: ${text}\n`,
  );
  return machine;
}

test("nothing that a model, a tool or a file says is a command of the pipeline", async () => {
  for (const name of ["GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"]) {
    await using machine = await machineThatPrints();
    const env = { [name]: "true" };
    const of = async (...args: string[]) => {
      const { stdout, stderr } = await machine.run(args, { env });
      // Those of Rnix: the switch for the time of the run, and its annotations.
      const own =
        /^::(?:(?:stop-commands::)?[0-9a-f-]{36}(?:::)?|(?:error|warning) title=Rnix[^:\n]*::.*)$/gm;
      return `${stdout}\n${stderr}`.replace(own, "");
    };
    expect(await of(...SPAWN, "go")).toContain(":\u200b:error");
    for (const args of [
      [...SPAWN, COMMANDS],
      [...SPAWN, "-q", "go"],
      [...SPAWN, "--output", "json", "go"],
      [...SPAWN, "--output", "jsonl", "go"],
      ["log"],
      ["log", "--json"],
      ["steps"],
      ["show"],
      ["show", "--json"],
      ["wait", "last"],
      ["wait", "last", "--json"],
      ["call", "Read", "path=all.txt"],
      ["call", "Read", "path=all.txt", "--json"],
      ["ps", "-a"],
      ["search", "group"],
      ["cat", "/no\n::error::x"],
      ["no\n::error::x"],
    ])
      expect({ name, args, found: RUNS.exec(await of(...args)) }).toMatchObject({ found: null });
    const { stdout } = await machine.ok([...SPAWN, "--output", "json", "go"], { env });
    expect(JSON.parse(stdout).result).toBe(COMMANDS);
  }
});

test("a file, and a terminal of no pipeline, get the text as it is", async () => {
  await using machine = await machineThatPrints();
  const none = { CI: "true", GITHUB_ACTIONS: undefined };
  expect((await machine.ok([...SPAWN, "-q", "go"], { env: none })).stdout.trimEnd()).toBe(COMMANDS);
  const out = join(machine.elsewhere, "out");
  const shell = Bun.spawn(["sh", "-c", `"$RNIX" ${SPAWN.join(" ")} -q go > ${out}`], {
    cwd: machine.project,
    env: { ...machine.env, GITHUB_ACTIONS: "true", RNIX: join(import.meta.dir, "../../../rnix") },
  });
  expect(await shell.exited).toBe(0);
  expect(readFileSync(out, "utf8").trimEnd()).toBe(COMMANDS);
});
