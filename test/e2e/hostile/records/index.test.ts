import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../../support/machine.ts";
import { bash, says } from "../../support/scenes.ts";

/** What a run does to the files of the index while the daemon has them open; INDEX is their folder. */
const ATTACKS: Record<string, string> = {
  "truncates every file": `for f in INDEX/*.db; do : > "$f"; done`,
  "writes a journal that rolls a database back": `for f in INDEX/*.db; do rm -f "$f-journal"; printf '\\331\\325\\005\\371\\040\\241\\143\\327\\377\\377\\377\\377' >"$f-journal"; head -c 4096 /dev/zero >>"$f-journal"; done`,
  "removes the folder": "rm -rf INDEX",
};

describe.if(process.platform === "linux")("the index", () => {
  for (const [name, attack] of Object.entries(ATTACKS)) {
    test(`is not mapped into memory, and ends no daemon when a run ${name}`, async () => {
      await using machine = new Machine();
      const index = join(machine.dataDir, "index");
      await machine.play({
        first: [says("one")],
        second: [says("two")],
        attack: [bash(attack.replaceAll("INDEX", `'${index}'`)), says("done")],
      });
      const listed = async (): Promise<number> => {
        const { code, stdout } = await machine.run(["ps", "-a", "--json"]);
        expect(code).toBe(0);
        return stdout.match(/"uuid"/g)?.length ?? 0;
      };
      const pid = async (): Promise<string> => {
        const { stdout } = await machine.run(["daemon", "status", "--json"]);
        return /"pid": ?(\d+)/.exec(stdout)?.[1] ?? "none";
      };
      await machine.run(["spawn", "first"]);
      expect(await listed()).toBe(1);
      await machine.run(["spawn", "second"]);
      expect(await listed()).toBe(2);
      const daemon = await pid();
      expect(machine.has(".rnix/data/index")).toBe(false);
      expect(readFileSync(`/proc/${daemon}/maps`, "latin1")).not.toContain(index);
      expect((await machine.run(["spawn", "attack"])).stdout).toBe("done\n");
      for (let time = 0; time < 3; time++) expect(await listed()).toBe(3);
      expect(await pid()).toBe(daemon);
      expect(readFileSync(`/proc/${daemon}/maps`, "latin1")).not.toContain(index);
    });
  }
});
