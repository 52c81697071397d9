import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { binary } from "../../support/binary.ts";
import { Machine } from "../../support/machine.ts";
import { toolResults } from "../../support/requests.ts";
import { calls, type Scene, says } from "../../support/scenes.ts";
import { verdict } from "../../support/verdict.ts";
import { typed } from "./typed.ts";

const RNIX = binary();
const SECRET = "secret-of-the-user";

function prepared(): Machine {
  const machine = new Machine();
  machine.write(join(machine.elsewhere, "secret.txt"), SECRET);
  machine.write(
    join(machine.elsewhere, "secret.json"),
    JSON.stringify({ type: "object", description: SECRET }),
  );
  machine.write(join(machine.elsewhere, "secret-script.yaml"), `turns:\n  - text: ${SECRET}\n`);
  machine.write(join(machine.configDir, "notes.txt"), SECRET);
  machine.write("inside.json", '{"type":"object"}');
  machine.write("notes.txt", "notes");
  machine.write(join(machine.configDir, "agents/checked/instructions.md"), "Work.\n");
  machine.write(
    join(machine.configDir, "agents/checked/agent.yaml"),
    "name: checked\ndescription: has a check\nchecks: ['touch taken']\n",
  );
  machine.write(
    join(machine.elsewhere, "plugin.ts"),
    "import { writeFileSync } from 'node:fs'; writeFileSync('taken', '');",
  );
  return machine;
}

describe("the options of a child need the rights of its parent", () => {
  const SPAWN = `${RNIX} spawn 'child chore' -q`;

  test("a run that may only spawn can't run a command, read a file or set a variable through a child", async () => {
    await using machine = prepared();
    const out = machine.elsewhere;
    const commands = [
      `${SPAWN} --check 'touch taken'`,
      `${SPAWN} --check 'rnix --version' --check 'touch taken'`,
      `${SPAWN} --agent checked`,
      `${SPAWN} --add ${out}/secret.txt`,
      `${SPAWN} --add ${machine.configDir}/notes.txt`,
      `${SPAWN} --system-prompt @${out}/secret.txt`,
      `${SPAWN} --output-schema ${out}/secret.json`,
      `${SPAWN} --output-schema ${out}/secret.txt`,
      `${SPAWN} --provider replay --model ${out}/secret-script.yaml`,
      `${SPAWN} --env BASH_ENV=${out}/secret.txt`,
      `${SPAWN} --env PATH=${out}`,
      `${RNIX} plugins check ${out}/plugin.ts`,
      // Its project's files are no exception: it may not read them.
      `${SPAWN} --add notes.txt`,
      `${SPAWN} --system-prompt @notes.txt`,
    ];
    const results = await typed(machine, commands, [`Bash(${RNIX} *)`]);
    for (const [i, command] of commands.entries()) {
      expect([command, results[i]]).toEqual([command, expect.stringContaining("[exit code ")]);
      expect([command, results[i]]).not.toEqual([command, expect.stringContaining(SECRET)]);
      expect([command, results[i]]).not.toEqual([command, expect.stringContaining("child done")]);
    }
    expect(results[0]).toContain("needs the right Bash(touch taken) itself");
    expect(results[3]).toContain(`needs the right Read(${out}/secret.txt) itself`);
    expect(results[9]).toContain("needs the right Bash itself");
    expect(results[11]).toContain("refused inside a run");
    expect(machine.has("taken")).toBe(false);
  });

  test("a parent may give its child what it may do itself", async () => {
    await using machine = prepared();
    const commands = [
      `${SPAWN} --check 'test -f notes.txt'`,
      `${SPAWN} --add notes.txt`,
      `${SPAWN} --system-prompt @notes.txt`,
      SPAWN,
    ];
    const rights = [`Bash(${RNIX} *)`, "Bash(test *)", "Read"];
    const results = await typed(machine, commands, rights);
    expect(results).toEqual(commands.map(() => "child done"));
    const beyond = [`${SPAWN} --add ${machine.elsewhere}/secret.txt`, `${SPAWN} --check 'touch taken'`];
    for (const result of await typed(machine, beyond, rights)) expect(result).toContain("needs the right");
  });

  test("a run with an unrestricted shell may give its child everything except denied tools", async () => {
    await using machine = prepared();
    const commands = [
      `${SPAWN} --check 'touch taken' --env A=b --add ${machine.elsewhere}/secret.txt`,
      `${SPAWN} --agent checked --system-prompt @${machine.elsewhere}/secret.txt`,
    ];
    expect(await typed(machine, commands, ["Bash"])).toEqual(["child done", "child done"]);
    expect(machine.has("taken")).toBe(true);
  });

  test("the tool Agent refuses a check that the parent may not run", async () => {
    await using machine = prepared();
    const wish: Scene = calls(["Agent", { agent: "checked", intent: "child chore" }]);
    const model = await machine.play({
      "parent task": [wish, says("done")],
      "child chore": [says("child done")],
    });
    await verdict(machine, ["parent task", "--allow", "Agent", "--allow", "Read"]);
    expect(model.requests.flatMap(toolResults).at(-1)).toContain("needs the right Bash(touch taken) itself");
    expect(machine.has("taken")).toBe(false);
  });
});
