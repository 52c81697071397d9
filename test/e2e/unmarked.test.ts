import { describe, expect, test } from "bun:test";
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { binary } from "./support/binary.ts";
import { Machine, OPENAI_KEY } from "./support/machine.ts";
import { toolResults } from "./support/requests.ts";
import { bash, says } from "./support/scenes.ts";
import { Receipt } from "./support/verdict.ts";

const RNIX = `'${binary()}'`;

/** The output of each of the commands in the shell of a run, which has its key from a file. */
async function typed(machine: Machine, commands: readonly string[]): Promise<string> {
  const all = commands.map((command) => `${command}; echo "code $?"`).join("; ");
  const model = await machine.play({
    "parent task": [bash(all), says("done")],
    "child chore": [says("never")],
  });
  machine.write(join(machine.configDir, "env"), `OPENAI_API_KEY=${OPENAI_KEY}\n`);
  chmodSync(join(machine.configDir, "env"), 0o600);
  const { code, stdout } = await machine.run(["spawn", "parent task", "--output", "json"]);
  expect(code).toBe(0);
  expect(Receipt.parse(JSON.parse(stdout))).toMatchObject({ children: [] });
  expect(await machine.json(["ps", "-a", "--json"])).toHaveLength(1);
  return model.requests.flatMap(toolResults).at(-1) ?? "";
}

describe.if(process.platform === "linux")("a run that removes RNIX_UNIT", () => {
  test("can't start its own kernel, whose children would have limits of their own", async () => {
    await using machine = new Machine();
    const ways = [
      `${RNIX} spawn 'child chore' --no-daemon`,
      `env -u RNIX_UNIT ${RNIX} spawn 'child chore' --no-daemon`,
      `setsid -w env -u RNIX_UNIT ${RNIX} spawn --trust 'child chore' --no-daemon`,
      `env -u RNIX_UNIT prlimit --rttime=5000000000 ${RNIX} spawn 'child chore' --no-daemon`,
      `env -u RNIX_UNIT XDG_RUNTIME_DIR="$PWD/other" ${RNIX} spawn 'child chore'`,
      `env -u RNIX_UNIT RNIX_SOCKET="$PWD/other/it.sock" ${RNIX} spawn 'child chore' --detach`,
    ];
    const result = await typed(machine, ["mkdir -m 700 other", ...ways]);
    expect(result.match(/^code 69$/gm)).toHaveLength(ways.length);
    expect(result.match(/refused inside a run|none is started from inside a run/g)).toHaveLength(ways.length);
  });

  test("is still not taken for a person", async () => {
    await using machine = new Machine();
    machine.write("plugins/x.ts", "throw new Error('it was run');\n");
    const commands = ["trust --yes", "trust --follow --yes", "daemon start --foreground", "gc", "resume 1"];
    const result = await typed(
      machine,
      commands.map((command) => `env -u RNIX_UNIT ${RNIX} ${command}`),
    );
    expect(result.match(/^code 1$/gm)).toHaveLength(commands.length);
    expect(result.match(/refused inside a run/g)).toHaveLength(commands.length);
    expect(machine.has(`${machine.dataDir}/trust`)).toBe(false);
  });
});
