import { expect, test } from "bun:test";
import { mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { allowAlways, withdrawAlways } from "../../src/config/settings/always-rules.ts";
import { loadSettings } from "../../src/config/settings/settings.ts";
import { trustItems } from "../../src/config/trust-items.ts";
import { Sandbox } from "./sandbox.ts";

const PUSH = "Bash(git push *)";

class Place extends Sandbox {
  readonly file = join(this.projectDir, ".rnix", "config.yaml");

  constructor(config?: string) {
    super();
    if (config !== undefined) writeFileSync(this.file, config);
  }

  async rules(): Promise<string[]> {
    return (await loadSettings(this.sources())).allowAlways.map(({ rule }) => rule);
  }
}

test("an answer is a line of the file that counts at once, and everything else in it stays", async () => {
  using place = new Place("# our limits\nmax_steps: 20 # enough\nallow_always:\n  - Bash(rm *)\n");
  await allowAlways(place.userDataDir, place.project(), [PUSH]);
  expect(readFileSync(place.file, "utf8")).toBe(
    `# our limits\nmax_steps: 20 # enough\nallow_always:\n  - Bash(rm *)\n  - ${PUSH}\n`,
  );
  expect(await place.rules()).toEqual([PUSH]);
  expect(place.trust().since).toBeNull();
  expect(await withdrawAlways(place.userDataDir, place.project(), [PUSH, "Read"])).toEqual(["Read"]);
  expect(await place.rules()).toEqual([]);
  expect(readFileSync(place.file, "utf8")).toContain("Bash(rm *)");
});

test("a line that came with the project counts once it is trusted, by itself", async () => {
  using place = new Place("allow_always: [Read]\n");
  const accept = async (): Promise<void> =>
    place.trust().accept(await trustItems(place.sources(), place.trust(), []), 0);
  expect(await place.rules()).toEqual([]);
  await accept();
  expect(await place.rules()).toEqual(["Read"]);
  writeFileSync(place.file, "allow_always: [Read, Bash]\n");
  expect(await place.rules()).toEqual(["Read"]);
});

test("the answers of one folder do not count in another that takes its place", async () => {
  using place = new Place();
  await allowAlways(place.userDataDir, place.project(), [PUSH]);
  expect(await place.rules()).toEqual([PUSH]);
  renameSync(place.projectDir, `${place.projectDir}.old`);
  mkdirSync(join(place.projectDir, ".rnix"), { recursive: true });
  writeFileSync(place.file, `allow_always:\n  - ${PUSH}\n`);
  expect(await place.rules()).toEqual([]);
});

test("a followed folder stays trusted after an answer in a run, and distrusts what a run writes", async () => {
  using place = new Place("max_steps: 5000\n");
  const items = () => trustItems(place.sources(), place.trust(), []);
  place.trust().follow(await items(), 0);
  place.trust().beginRuns("k", await items());
  await allowAlways(place.userDataDir, place.project(), [PUSH]);
  expect((await loadSettings(place.sources())).values.max_steps).toBe(5000);
  writeFileSync(place.file, `${readFileSync(place.file, "utf8")}  - Bash\n`);
  expect(await place.rules()).toEqual([PUSH]);
  expect(place.trust().settleRuns(["k"], await items())).toEqual([".rnix/config.yaml"]);
  expect(await place.rules()).toEqual([PUSH]);
});

test("a file that is a link out of the project, or that can't be read, is left as it is", async () => {
  using place = new Place();
  const outside = join(place.projectDir, "..", "outside.yaml");
  writeFileSync(outside, "");
  symlinkSync(outside, place.file);
  await expect(allowAlways(place.userDataDir, place.project(), [PUSH])).rejects.toThrow("found a link to");
  expect(readFileSync(outside, "utf8")).toBe("");
  using broken = new Place("allow_always: {\n");
  await expect(allowAlways(broken.userDataDir, broken.project(), [PUSH])).rejects.toThrow("config.yaml");
  expect(readFileSync(broken.file, "utf8")).toBe("allow_always: {\n");
});
