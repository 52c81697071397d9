import { describe, expect, test } from "bun:test";
import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../../support/machine.ts";
import { says } from "../../support/scenes.ts";

const SECRET = "secret-of-the-user";
/** Each as an error of YAML or of the keys would show it. */
const CONTENTS = [`KEY=${SECRET}\n`, `${SECRET}: 1\n`, `max_steps: ${SECRET}\nproviders: ${SECRET}\n`];
const COMMANDS = [["spawn", "a task"], ["trust", "--show"], ["config"], ["providers"], ["agents"]];

describe("a project file that links to a file of the user shows nothing of it", () => {
  for (const file of ["config.yaml", "providers.yaml", "mcp.yaml", "init.yaml", "../.mcp.json"]) {
    test(file, async () => {
      await using machine = new Machine();
      const model = await machine.play({ "a task": [says("done")] });
      mkdirSync(join(machine.project, ".rnix"));
      symlinkSync(join(machine.elsewhere, "secret"), join(machine.project, ".rnix", file));
      for (const content of CONTENTS) {
        machine.write(join(machine.elsewhere, "secret"), content);
        for (const command of COMMANDS) {
          const { stdout, stderr } = await machine.run(command);
          expect([command, stdout + stderr]).not.toEqual([command, expect.stringContaining(SECRET)]);
        }
      }
      expect(model.requests.some(({ text }) => text.includes(SECRET))).toBe(false);
    });
  }

  test(".rnix as a link neither, while a link inside the project is followed", async () => {
    await using machine = new Machine();
    machine.write(join(machine.elsewhere, "config.yaml"), CONTENTS[0] ?? "");
    symlinkSync(machine.elsewhere, join(machine.project, ".rnix"));
    const { code, stdout, stderr } = await machine.run(["config"]);
    expect(code).toBe(64);
    expect(stderr).toContain("expected a file inside the project, found a link");
    expect(stdout + stderr).not.toContain(SECRET);
    machine.remove(".rnix");
    mkdirSync(join(machine.project, ".rnix"));
    machine.write("shared/config.yaml", "max_steps: 7\n");
    symlinkSync("../shared/config.yaml", join(machine.project, ".rnix/config.yaml"));
    expect((await machine.run(["config"])).stdout).toMatch(/max_steps +7 /);
  });
});
