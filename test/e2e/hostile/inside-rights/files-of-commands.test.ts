import { describe, expect, test } from "bun:test";
import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { binary } from "../../support/binary.ts";
import { Machine } from "../../support/machine.ts";
import { toolResults } from "../../support/requests.ts";
import { bash, says } from "../../support/scenes.ts";
import { verdict } from "../../support/verdict.ts";
import { typed } from "./typed.ts";

const RNIX = binary();
const SPAWN = `${RNIX} spawn 'child chore' -q`;
const SECRET = "secret-of-the-user";

function prepared(): Machine {
  const machine = new Machine();
  const schema = JSON.stringify({ type: "object", description: SECRET });
  machine.write(join(machine.elsewhere, "secret.json"), schema);
  machine.write("schema.json", schema);
  machine.write(".hidden/SKILL.md", SECRET);
  machine.write("script.yaml", `intent: ${SECRET}\nturns:\n  - text: ${SECRET}\n`);
  symlinkSync(machine.elsewhere, join(machine.project, "outside"));
  return machine;
}

describe("what rnix writes and reads inside a run needs the right to it", () => {
  test("a run that may only call rnix writes and reads no file by it", async () => {
    await using machine = prepared();
    const { elsewhere: out, configDir, home } = machine;
    const written = [
      `${SPAWN} --summary ${home}/.bashrc`,
      `${SPAWN} --junit ${out}/made`,
      `${SPAWN} --code-quality=made`,
      `${SPAWN} --summary .rnix/made`,
      `${SPAWN} --summary .git/hooks/made`,
      `${SPAWN} --summary ${configDir}/made`,
      `${SPAWN} --summary outside/made`,
      `${SPAWN} --summary ../elsewhere/made`,
      `${SPAWN} --record made`,
      `${SPAWN} --record ${out}/made`,
      `${RNIX} replay 1 --export made.yaml`,
      `${RNIX} test . --junit made`,
      `${RNIX} export 1 --html made`,
      `${RNIX} init`,
      `${RNIX} plugins new made`,
      `${RNIX} agents new made`,
      `${RNIX} skills new made`,
      `${RNIX} export 1 --html made`,
      `${RNIX} export 1 --html ${out}/made`,
    ];
    const read = [
      `${SPAWN} --output-schema schema.json`,
      `${SPAWN} --output-schema ${out}/secret.json`,
      `${SPAWN} --system-prompt @schema.json`,
      `${SPAWN} --untrusted schema.json`,
      `${RNIX} skills check .hidden`,
      `${RNIX} replay script.yaml`,
      `${RNIX} log --record .rnix`,
      `${RNIX} sh script.yaml`,
      `${RNIX} sh ${out}/secret.json`,
      `${RNIX} workflow run ./script.yaml`,
      `${RNIX} workflow run ${out}/secret.json`,
      `${RNIX} compose up -f ${out}/secret.json`,
      `${RNIX} compose graph -f script.yaml`,
      `${SPAWN} < ${out}/secret.json`,
      `${RNIX} spawn -q - < schema.json`,
      `${RNIX} sh < script.yaml`,
      `${RNIX} call Bash - < schema.json`,
      `${SPAWN} --add /dev/stdin < ${out}/secret.json`,
      `${SPAWN} --system-prompt @/dev/fd/3 3< schema.json`,
      `${SPAWN} --output-schema /proc/self/fd/0 < schema.json`,
      `${SPAWN} --add /dev/null --untrusted - < schema.json`,
    ];
    const commands = [...written, ...read];
    const results = await typed(machine, commands, [`Bash(${RNIX} *)`]);
    for (const [i, command] of commands.entries()) {
      const right = i < written.length ? "Write(" : "Read(";
      expect([command, results[i]]).toEqual([command, expect.stringContaining(`needs the right ${right}`)]);
      expect([command, results[i]]).not.toEqual([command, expect.stringContaining("child done")]);
      expect([command, results[i]]).not.toEqual([command, expect.stringContaining(SECRET)]);
    }
    const made = [`${home}/.bashrc`, `${out}/made`, `${configDir}/made`, "made", "made.yaml", ".rnix/made"];
    const inSettings = ["config.yaml", "plugins", "agents", "skills", "types"].map((name) => `.rnix/${name}`);
    for (const file of [...made, ...inSettings]) expect([file, machine.has(file)]).toEqual([file, false]);
  });

  test("a run writes where it may, and protected paths need a rule that names them", async () => {
    await using machine = prepared();
    const allowed = [
      `${SPAWN} --summary out/summary.md --junit out/junit.xml`,
      `${SPAWN} --output-schema schema.json --summary /dev/null`,
      `${RNIX} replay 1 --export out/run.yaml`,
    ];
    const refused = [
      `${SPAWN} --summary summary.md`,
      `${SPAWN} --summary out/denied.md`,
      `${SPAWN} --summary out/../summary.md`,
      `${SPAWN} --summary out/.git/config`,
      `${RNIX} agents new made`,
    ];
    machine.write("out/kept", "");
    const rights = [`Bash(${RNIX} *)`, "Write(out/**)", "Read"];
    const model = await machine.play({
      "parent task": [bash(...allowed, ...refused), says("done")],
      "child chore": [says("{}")],
    });
    const allow = rights.flatMap((right) => ["--allow", right]);
    await verdict(machine, ["parent task", ...allow, "--deny", "Write(out/denied.md)"]);
    const last = model.requests.filter(({ text }) => text.includes('"parent task"')).at(-1);
    const results = toolResults(last ?? expect.unreachable());
    for (const [i, command] of allowed.entries())
      expect([command, results[i]]).not.toEqual([command, expect.stringContaining("[exit code ")]);
    for (const [i, command] of refused.entries()) {
      const result = results[allowed.length + i];
      expect([command, result]).toEqual([command, expect.stringContaining("needs the right Write(")]);
    }
    for (const file of ["out/summary.md", "out/junit.xml", "out/run.yaml"])
      expect(machine.has(file)).toBe(true);
    for (const file of ["summary.md", "out/denied.md", ".rnix/agents"]) expect(machine.has(file)).toBe(false);
    const named = await typed(
      machine,
      [`${RNIX} agents new made`],
      [`Bash(${RNIX} *)`, "Write(.rnix/agents/**)"],
    );
    expect(named[0]).toContain(".rnix/agents/made/agent.yaml");
  });

  test("a child for a folder outside is refused before anything is made there", async () => {
    await using machine = prepared();
    const folder = `--cwd ${machine.elsewhere}`;
    const commands = [`${SPAWN} ${folder}`, `${RNIX} sh ${folder} -c ls`];
    for (const result of await typed(machine, commands, ["Bash", "Read", "Write"]))
      expect(result).toContain("is outside the folders of process");
    expect(machine.has(join(machine.elsewhere, ".rnix"))).toBe(false);
  });

  test("the folder of a child's records, which a variable names, needs the right to it", async () => {
    await using machine = prepared();
    const at = `RNIX_DATA_DIR=${machine.elsewhere}/made`;
    const commands = [`${at} ${SPAWN}`, `${at} ${RNIX} sh -c 'echo x'`, `RNIX_DATA_DIR=$PWD/out ${SPAWN}`];
    for (const result of await typed(machine, commands, ["Bash"]))
      expect(result).toContain("needs the right Write(");
    for (const path of ["out", join(machine.elsewhere, "made")]) expect(machine.has(path)).toBe(false);
    // What the user has chosen is the parent's, too.
    const env = { RNIX_DATA_DIR: join(machine.elsewhere, "mine") };
    await machine.play({ "parent task": [bash(SPAWN), says("done")], "child chore": [says("child done")] });
    await machine.ok(["spawn", "parent task", "--allow", "Bash"], { env });
    expect((await machine.ok(["log"], { env })).stdout).toContain("child done");
  });

  test("what a run may not write itself, its unrestricted shell does not have written", async () => {
    await using machine = prepared();
    const commands = [`${SPAWN} --summary .rnix/made`, `${RNIX} init`, `${SPAWN} --summary made`];
    const results = await typed(machine, commands, ["Bash", "Write(src/**)"]);
    for (const result of results) expect(result).toContain("needs the right Write(");
  });

  test("a run exports itself, and no run that it did not start", async () => {
    await using machine = prepared();
    const rights = [`Bash(${RNIX} *)`, "Write", "Read"];
    machine.write("taken.txt", "before");
    await typed(machine, [`echo ${SECRET} >taken.txt`], ["Bash"]);
    const [other, itself] = await typed(
      machine,
      [`${RNIX} export 1 --html other.html`, `${RNIX} export 2 --html itself.html`],
      rights,
    );
    expect(other).toContain("was not spawned by the run that asks");
    expect(machine.has("other.html")).toBe(false);
    expect(itself).not.toContain("[exit code ");
    expect(machine.read("itself.html")).toContain("parent task");
  });

  test("a run of --no-daemon has nobody to ask, and gets nothing written", async () => {
    await using machine = prepared();
    const model = await machine.play({
      "parent task": [bash(`${RNIX} init`, `${RNIX} replay 1 --export made.yaml`), says("done")],
    });
    await verdict(machine, ["parent task", "--no-daemon", "--allow", "Bash", "--allow", "Write"]);
    for (const result of model.requests.flatMap(toolResults)) expect(result).toMatch(/\[exit code (1|69)\]/);
    for (const file of ["made.yaml", ".rnix/config.yaml"]) expect(machine.has(file)).toBe(false);
  });

  test("the step summary of a pipeline is the run's own, and not its child's", async () => {
    await using machine = prepared();
    const model = await machine.play({
      "parent task": [bash(SPAWN), says("done")],
      "child chore": [says("child done")],
    });
    const env = { GITHUB_ACTIONS: "true", GITHUB_STEP_SUMMARY: join(machine.elsewhere, "step.md") };
    machine.write(env.GITHUB_STEP_SUMMARY, "");
    const { code } = await machine.run(["spawn", "parent task"], { env });
    expect(code).toBe(0);
    expect(model.requests.flatMap(toolResults)[0]).toContain("child done");
    expect(machine.read(env.GITHUB_STEP_SUMMARY)).not.toContain("child chore");
    expect(machine.read(env.GITHUB_STEP_SUMMARY)).toContain("done");
  });
});
