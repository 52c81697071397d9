import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { installed } from "../../support/installed.ts";
import { Machine } from "../support/machine.ts";
import { toolResults } from "../support/requests.ts";
import { calls, says } from "../support/scenes.ts";
import { dropPrivileges } from "../support/unprivileged.ts";
import { ATTEMPTS } from "./attempts.ts";
import { furnish, SECRET, script } from "./stage.ts";

const there = installed("bwrap", "setpriv");

const WHO = ["root", "root without a network", "an ordinary user"] as const;

for (const who of there ? WHO : []) {
  describe(`${who} in a sandbox`, () => {
    let machine: Machine;
    let other: Bun.Subprocess;
    let output = "";

    beforeAll(async () => {
      machine = new Machine({ git: true });
      furnish(machine);
      if (who === "an ordinary user") dropPrivileges(machine);
      const flags = who === "root without a network" ? ["--network", "off"] : [];
      other = Bun.spawn([...machine.wrapper, "sleep", "98765"], { env: { OF_ANOTHER: SECRET } });
      const model = await machine.play({
        "leave the sandbox": [calls(["Bash", { command: script(machine, other.pid) }]), says("done")],
        "a child": [says("done")],
      });
      await machine.ok(["spawn", "--no-stdin", "--sandbox", "required", ...flags, "leave the sandbox"]);
      const results = model.requests.flatMap(toolResults);
      output = results.find((text) => text.includes("ALL TRIED")) ?? "";
      expect(output).toContain("ALL TRIED");
    });
    afterAll(async () => {
      other.kill("SIGKILL");
      rmSync(machine.home, { recursive: true });
      await machine[Symbol.asyncDispose]();
    });

    for (const [title, by] of ATTEMPTS) {
      test(`can't ${title}: ${by}`, () => {
        expect(output.split("\n")).not.toContain(`ESCAPED ${title.replaceAll("'", "")}`);
      });
    }
  });
}
