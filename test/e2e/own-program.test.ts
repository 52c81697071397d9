import { expect, test } from "bun:test";
import { chmodSync, existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "./support/machine.ts";
import { bash, says } from "./support/scenes.ts";

test("inside a run rnix is the same binary, and every other program is found where it was", async () => {
  await using machine = new Machine();
  // An older one on the PATH is not taken.
  const tools = join(machine.elsewhere, "bin");
  for (const name of ["rnix", "mine"]) {
    chmodSync(machine.write(join(tools, name), `#!/bin/sh\necho the other ${name}\n`), 0o755);
  }
  const env = { PATH: `${tools}:${machine.env.PATH}` };
  const look = "rnix version; mine; command -v mine sh; rnix ps | tail -1";
  await machine.play({ look: [bash(look), says("Done.")] });
  const version = (await machine.run(["version"])).stdout.trim();
  const sh = Bun.which("sh", { PATH: env.PATH });
  for (const flags of [[], ["--no-daemon"]]) {
    const run = await machine.run(["spawn", "look", ...flags], { env });
    expect(run.code).toBe(0);
    expect(run.stderr).toContain(`    ${version}\n    the other mine\n    ${tools}/mine\n    ${sh}\n`);
    // It speaks to the daemon of its run.
    if (flags.length === 0) expect(run.stderr).toMatch(/\d+ +running +default +m .* look/);
  }
  const links = join(machine.dataDir, "bin");
  expect(readdirSync(links)).toHaveLength(1);
  await machine.run(["daemon", "stop"]);
  expect(readdirSync(links)).toEqual([]);
});

test("the link of a killed daemon goes with the next one", async () => {
  await using machine = await Machine.playing({
    look: [bash("true"), says("Done.")],
  });
  await machine.run(["spawn", "look"]);
  const links = join(machine.dataDir, "bin");
  const [before] = readdirSync(links);
  machine.killDaemon();
  await machine.until(["ps", "-a"], /completed/);
  await machine.run(["spawn", "look"]);
  expect(readdirSync(links)).toHaveLength(1);
  expect(existsSync(join(links, before ?? ""))).toBe(false);
});
