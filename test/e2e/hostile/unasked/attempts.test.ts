import { expect, test } from "bun:test";
import { chmodSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../../support/machine.ts";
import { toolResults } from "../../support/requests.ts";
import { calls, says } from "../../support/scenes.ts";
import { verdict } from "../../support/verdict.ts";

type Calls = [string, Record<string, unknown>][];

/** Commands that act, or read outside of the project. One a line, with the backslashes of a JavaScript string. */
const ATTEMPTS = (await Bun.file(join(import.meta.dir, "attempts.txt")).text())
  .trimEnd()
  .split("\n")
  .map((line): string => JSON.parse(`"${line.replaceAll('"', '\\"')}"`));
/** Calls of one answer. */
const MOST = 50;

test("no command of the list of attempts goes unasked in the mode outside", async () => {
  await using machine = new Machine({ git: true });
  const outside = join(machine.elsewhere, "outside.txt");
  machine.write(outside, "the secret");
  machine.write("trap.sh", '#!/bin/sh\ntouch "$(dirname "$0")/ran"\n');
  chmodSync(join(machine.project, "trap.sh"), 0o755);
  for (const name of ["ls", "git"]) symlinkSync("trap.sh", join(machine.project, name));
  symlinkSync(outside, join(machine.project, "link.txt"));
  machine.write("names.txt", `${outside}\n`);
  machine.write("src/a.txt", "a\n");
  machine.git("config", "pretty.evil", "%GG");
  machine.commit("files");
  machine.write("a.txt", "a/c\n");
  const through: string[] = [];
  for (let at = 0; at < ATTEMPTS.length; at += MOST) {
    const some = ATTEMPTS.slice(at, at + MOST);
    const made = some.map((command): Calls[number] => ["Bash", { command }]);
    const model = await machine.play({ go: [calls(...made), says("done")] });
    await verdict(machine, ["go", "--ask-mode", "outside"]);
    const results = toolResults(model.last);
    through.push(...some.filter((_, i) => !results[i]?.includes("(asked because ")));
  }
  expect(through).toEqual([]);
  expect([machine.has("ran"), machine.has(join(machine.elsewhere, "ran"))]).toEqual([false, false]);
});
