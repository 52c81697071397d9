import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { TurnFunction } from "../../../support/model-server/server.ts";
import { Machine } from "../../support/machine.ts";
import { toolResults } from "../../support/requests.ts";
import { calls, says } from "../../support/scenes.ts";
import { receiptOf } from "../../support/verdict.ts";

const SECRET = "the secret that rules deny";
const HARMLESS = "something harmless";
/** Calls of one answer, and answers of each kind. */
const CALLS = 120;
const ROUNDS = 3;
/** Where the machine is busy, the program that exchanges the links may stand still for a while. */
const MAX_ROUNDS = 20;

/** Replaces a link by another at the same path, as fast as it can, until it is ended. */
const SWAPPER = `
  const { symlinkSync, renameSync } = require("node:fs");
  const links = process.argv.slice(-6);
  const place = (name, aim) => { symlinkSync(aim, name + ".new"); renameSync(name + ".new", name); };
  for (let first = true; ; first = false) {
    for (let i = 0; i < links.length; i += 3) { place(links[i], links[i + 1]); place(links[i], links[i + 2]); }
    if (first) console.log("ready");
  }`;

async function whileSwapping(machine: Machine, run: () => Promise<void>): Promise<void> {
  const links = ["folder", "public", "secret", "records", "public", ".rnix/data/steps/other"];
  const swapper = Bun.spawn([process.execPath, "-e", SWAPPER, ...links], {
    cwd: machine.project,
    stdout: "pipe",
    stderr: "inherit",
  });
  try {
    await swapper.stdout.getReader().read();
    await run();
  } finally {
    swapper.kill("SIGKILL");
    await swapper.exited;
  }
}

interface Attack {
  tool: string;
  input(n: number): Record<string, unknown>;
  /** Shows in a result that the call met the link while that led to the harmless folder. */
  harmless: string;
}

const REFUSED = /PERMISSION|left out by rules/;

/**
 * Asks for the same calls until both aims of the link were met, ROUNDS times at least. Every second step is a
 * harmless one: on a busy machine each call of a step may meet the same aim, and steps that only fail end a run.
 */
function attacker({ tool, input, harmless }: Attack): TurnFunction {
  let step = 0;
  return (request) => {
    const results = toolResults(request);
    if (step++ % 2 === 1) return calls(["Plan", { steps: [`step ${step}`] }]);
    const round = Math.floor(results.length / (CALLS + 1));
    const met = results.some((text) => text.includes(harmless)) && results.some((text) => REFUSED.test(text));
    if (round >= MAX_ROUNDS || (met && round >= ROUNDS)) return says("done");
    return calls(
      ...Array.from({ length: CALLS }, (_, n): [string, Record<string, unknown>] => [tool, input(n)]),
    );
  };
}

const ATTACKS: Record<string, Attack> = {
  Read: { tool: "Read", input: () => ({ path: "folder/key" }), harmless: HARMLESS },
  Grep: {
    tool: "Grep",
    input: () => ({ pattern: "s", path: "folder", output_mode: "content" }),
    harmless: HARMLESS,
  },
  "Grep of one file": {
    tool: "Grep",
    input: () => ({ pattern: "s", path: "folder/key", output_mode: "content" }),
    harmless: HARMLESS,
  },
  Glob: { tool: "Glob", input: () => ({ pattern: "*", path: "folder" }), harmless: "public/key" },
  "a suggestion": { tool: "Read", input: () => ({ path: "folder/hidden.txt" }), harmless: "hidden2.txt" },
  Edit: {
    tool: "Edit",
    input: () => ({ path: "folder/key", old_string: "the  secret that", new_string: "x" }),
    harmless: "old_string was not found",
  },
  Write: {
    tool: "Write",
    input: (n) => ({ path: `folder/deep/${n % 7}`, content: "written" }),
    harmless: "public/deep",
  },
  "Write to records": {
    tool: "Write",
    input: () => ({ path: "records/proc-info.json", content: "written" }),
    harmless: "public/proc-info.json",
  },
};

for (const [name, attack] of Object.entries(ATTACKS)) {
  test(`a link that is replaced during a call does not bypass the rules: ${name}`, async () => {
    await using machine = new Machine();
    machine.write("public/key", HARMLESS);
    machine.write("public/hidden2.txt", HARMLESS);
    machine.write("secret/key", SECRET);
    machine.write("secret/hidden1.txt", SECRET);
    machine.write(".rnix/data/steps/other/proc-info.json", "{}");
    const model = await machine.model(attacker(attack));
    const deny = ["Read", "Write", "Edit"].flatMap((tool) => ["--deny", `${tool}(secret/**)`]);
    await whileSwapping(machine, async () => {
      const run = await machine.run(["spawn", "attack", "--output", "json", ...deny]);
      expect(receiptOf(run)).toMatchObject({ exit_code: 0, result: "done" });
    });
    const last = model.requests.at(-1);
    const results = last ? toolResults(last) : [];
    expect(results).not.toHaveLength(0);
    expect(results.filter((text) => text.includes(SECRET) || text.includes("hidden1"))).toEqual([]);
    expect(results.filter((text) => text.includes("secret/key") && !text.includes("PERMISSION"))).toEqual([]);
    expect(readdirSync(join(machine.project, "secret")).toSorted()).toEqual(["hidden1.txt", "key"]);
    expect(machine.read("secret/key")).toBe(SECRET);
    expect(machine.read(".rnix/data/steps/other/proc-info.json")).toBe("{}");
    // It is an attack only where both aims were met.
    expect(results.filter((text) => text.includes(attack.harmless))).not.toEqual([]);
    expect(results.filter((text) => REFUSED.test(text))).not.toEqual([]);
  });
}
