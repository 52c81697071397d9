import { expect, test } from "bun:test";
import { join } from "node:path";
import { Machine } from "../../support/machine.ts";
import { bash, says } from "../../support/scenes.ts";
import { verdict } from "../../support/verdict.ts";

test("calls in a foreign record are shown and exported, but not replayed", async () => {
  await using machine = await Machine.playing({
    do: [bash("echo one"), says("done")],
  });
  const { receipt } = await verdict(machine, ["do it"]);
  const { uuid } = receipt;
  const folder = join(".rnix/data/steps", uuid);
  const mark = join(machine.elsewhere, "mark");
  const play = [
    ["replay", uuid],
    ["spawn", "do it", "--provider", "replay", "--model", uuid],
  ];
  for (const args of play) expect([args, (await machine.run(args)).code]).toEqual([args, 0]);

  const forge = (file: string, from: string, to: string): void => {
    machine.write(join(folder, file), machine.read(join(folder, file)).replaceAll(from, to));
  };
  const refused = async (): Promise<void> => {
    for (const args of play) {
      const { code, stderr } = await machine.run(args);
      expect([args, code, stderr]).toEqual([args, 1, expect.stringContaining("is foreign")]);
    }
    expect(machine.has(mark)).toBe(false);
  };
  forge("steps.jsonl", "echo one", `touch ${mark}`);
  await refused();
  forge("proc-info.json", '"do it"', '"do that"');
  await refused();
  const script = join(machine.elsewhere, "script.yaml");
  await machine.ok(["replay", uuid, "--export", script]);
  expect(machine.read(script)).toContain("touch");
});
