import { describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../../support/machine.ts";
import { bash, calls, says } from "../../support/scenes.ts";
import { verdict } from "../../support/verdict.ts";

const PLUGIN = (mark: string): string =>
  `import { writeFileSync } from "node:fs"; writeFileSync(${JSON.stringify(mark)}, "");\nexport default { name: "late" };\n`;

/** What a run may leave behind it that Rnix would load: by its name, how a shell writes it. */
function seeds(mark: string): Record<string, string> {
  return {
    "plugins/late.ts": PLUGIN(mark),
    ".rnix/plugins/later.ts": PLUGIN(mark),
    "agents/late/agent.yaml": "name: late\ndescription: d\n",
    "agents/default/agent.yaml": "name: default\ndescription: d\n",
    ".claude/skills/late/SKILL.md": "---\nname: late\ndescription: d\n---\nLate.\n",
    ".claude/skills/late/scripts/go.sh": "true\n",
    ".mcp.json": '{"mcpServers":{"late":{"command":"true"}}}',
    ".rnix/config.yaml": "max_steps: unlimited\n",
    ".rnix/providers.yaml": "default_provider: replay\n",
    ".rnix/init.yaml": `services: [{ name: late, type: command, config: { command: "touch ${mark}" } }]\n`,
    "check.sh": "true # changed\n",
  };
}

const shell = (files: Record<string, string>): string =>
  Object.entries(files)
    .map(([path, text]) => `mkdir -p "$(dirname ${path})" && cat > ${path} <<'E'\n${text}\nE`)
    .join("\n");

/** A project of the user's own, with a check and instructions for the agents that a run may write. */
async function followed(machine: Machine): Promise<string> {
  machine.write("agents/own/agent.yaml", "name: own\ndescription: d\nchecks: ['sh check.sh']\n");
  for (const name of ["own", "late", "default"]) machine.write(`agents/${name}/instructions.md`, "Do.\n");
  machine.write("check.sh", "true\n");
  await machine.ok(["trust", "--follow", "--yes"]);
  return join(machine.elsewhere, "mark");
}

async function states(machine: Machine): Promise<Record<string, string>> {
  const { items } = await machine.json(["trust", "--show", "--json"]);
  return Object.fromEntries(
    items.map(({ kind, name, state }: Record<string, string>) => [`${kind} ${name}`, state]),
  );
}

const OF_A_RUN = {
  "plugin late": "by a run",
  "plugin later": "by a run",
  "config max_steps": "by a run",
  "provider default_provider": "by a run",
  "mcp .mcp.json": "by a run",
  "init .rnix/init.yaml": "by a run",
  "agent own": "trusted",
  "checks own": "by a run",
  "agent default": "by a run",
  "agent late": "by a run",
  "scripts late": "by a run",
};

describe("a folder that is trusted with --follow", () => {
  test("applies a user's change at once, and a run's change only after the user trusts it", async () => {
    await using machine = new Machine();
    const mark = await followed(machine);
    await machine.play({
      change: [bash(shell(seeds(mark))), says("changed")],
      do: [says("done")],
    });
    // A person's.
    machine.write("plugins/mine.ts", PLUGIN(join(machine.elsewhere, "mine")));
    expect((await verdict(machine, ["do it", "--agent", "own"])).receipt.exit_code).toBe(0);
    expect(machine.has(join(machine.elsewhere, "mine"))).toBe(true);

    await verdict(machine, ["change it"]);
    expect(await states(machine)).toEqual({ ...OF_A_RUN, "plugin mine": "trusted" });
    const after = await verdict(machine, ["do it"]);
    expect(after.receipt).toMatchObject({ exit_code: 0, provider: "openai" });
    for (const part of [
      "Plugin late",
      "Plugin later",
      "max_steps: unlimited",
      "init.yaml",
      "the stock agent default",
    ]) {
      expect(after.stderr).toContain(part);
    }
    expect((await machine.run(["spawn", "do it", "--agent", "own"])).code).toBe(64);
    expect(machine.has(mark)).toBe(false);

    // Also what a person changes in such a file has the run's part in it; another file is the person's.
    machine.write("plugins/late.ts", `${PLUGIN(mark)}// mine\n`);
    machine.write("plugins/mine.ts", `${PLUGIN(join(machine.elsewhere, "mine"))}// mine\n`);
    await verdict(machine, ["do it"]);
    expect(await states(machine)).toEqual({ ...OF_A_RUN, "plugin mine": "trusted" });
    machine.write("check.sh", "true\n");
    expect((await verdict(machine, ["do it", "--agent", "own"])).receipt.exit_code).toBe(0);

    machine.remove(".rnix/init.yaml");
    machine.remove(".rnix/providers.yaml");
    await machine.ok(["trust", "--yes"]);
    expect(new Set(Object.values(await states(machine)))).toEqual(new Set(["trusted"]));
    const { stderr } = await verdict(machine, ["do it"]);
    expect(stderr).not.toContain("not trusted");
    expect(machine.has(mark)).toBe(true);
  });

  test.each([
    ["the daemon", []],
    ["the command itself", ["--no-daemon"]],
  ])("holds after a kill -9 of %s, and for a concurrent run", async (_, way) => {
    await using machine = new Machine();
    const mark = await followed(machine);
    await machine.play({
      change: [bash(`${shell(seeds(mark))}\ntouch held; sleep 600`), says("changed")],
      do: [says("done")],
    });
    const run = machine.start(["spawn", "change it", ...way]);
    await machine.held();
    expect((await machine.run(["spawn", "do it", ...way])).stderr).toContain("Plugin late");
    if (way.length === 0) machine.killDaemon();
    else run.signal("SIGKILL");
    await run.done;
    expect(await states(machine)).toEqual(OF_A_RUN);
    const args = ["spawn", "do it", "--agent", "code-analyst", "--no-daemon"];
    expect((await machine.run(args)).stderr).toContain("Plugin late");
    expect(await states(machine)).toEqual(OF_A_RUN);
    expect(machine.has(mark)).toBe(false);
    // Which sweeps what the killed one left.
    await machine.run(["daemon", "start"]);
  });

  test("is watched also while a run in a project above it is active", async () => {
    await using machine = new Machine();
    const mark = join(machine.elsewhere, "mark");
    const inner = join(machine.project, "packages/inner");
    for (const dir of [machine.project, inner])
      machine.write(join(dir, ".rnix/config.yaml"), "max_steps: 50\n");
    await machine.ok(["trust", "--follow", "--yes"], { cwd: inner });
    const path = "packages/inner/plugins/late.ts";
    await machine.play({
      change: [calls(["Write", { path, content: PLUGIN(mark) }]), says("changed")],
      do: [says("done")],
    });
    expect((await verdict(machine, ["change it", "--allow", "Write"])).receipt.files_changed).toEqual([path]);
    const after = await machine.run(["spawn", "do it"], { cwd: inner });
    expect([after.code, after.stderr, machine.has(mark)]).toEqual([
      0,
      expect.stringContaining("Plugin late"),
      false,
    ]);
    // A person's change there counts, with no run active.
    machine.write(join(inner, "plugins/mine.ts"), PLUGIN(join(machine.elsewhere, "mine")));
    await machine.ok(["spawn", "do it"], { cwd: inner });
    expect(machine.has(join(machine.elsewhere, "mine"))).toBe(true);
    // A deleted project does not affect one above it.
    machine.remove("packages");
    expect((await verdict(machine, ["do it"])).receipt.exit_code).toBe(0);
  });

  test("does not pass its trust to a folder that replaces it, except for unchanged content", async () => {
    await using machine = await Machine.playing({ do: [says("done")] });
    const [mine, mark] = [join(machine.elsewhere, "mine"), join(machine.elsewhere, "mark")];
    machine.write("plugins/mine.ts", PLUGIN(mine));
    await machine.ok(["trust", "--follow", "--yes"]);
    rmSync(machine.project, { recursive: true });
    machine.write("plugins/mine.ts", PLUGIN(mine));
    machine.write("plugins/late.ts", PLUGIN(mark));
    for (const _ of ["once", "twice"]) {
      const after = await verdict(machine, ["do it"]);
      expect(after.stderr).toContain("Plugin late");
      expect([machine.has(mine), machine.has(mark)]).toEqual([true, false]);
    }
    expect(await states(machine)).toEqual({ "plugin late": "new", "plugin mine": "trusted" });
    await machine.ok(["trust", "--follow", "--yes"]);
    await verdict(machine, ["do it"]);
    expect(machine.has(mark)).toBe(true);
  });
});
