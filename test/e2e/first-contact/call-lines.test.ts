import { expect, setDefaultTimeout, test } from "bun:test";
import { Machine } from "../support/machine.ts";

setDefaultTimeout(60_000);

const SCRIPT = {
  responses: [
    {
      tool_calls: [
        { name: "Nothing", input: { path: "a.txt" } },
        { name: "Write", input: { file: "a.txt" } },
        { name: "Read", input: { path: "a.txt" } },
      ],
    },
    { text: "done" },
  ],
};

/** The lines of step 1. */
function firstStep(text: string): string {
  return /^\* step 1.*\n([\s\S]*?)^\* step 2/m.exec(text)?.[1] ?? "";
}

test("a call that is refused has its line above the error, on the screen as in the log", async () => {
  await using machine = new Machine();
  machine.write("a.txt", "apples\n");
  machine.write("script.json", JSON.stringify(SCRIPT));
  const spawned = await machine.run(["spawn", "go", "--provider", "replay", "--model", "script.json"]);
  const shown = firstStep(spawned.stderr);
  expect(shown).toMatch(/^ {2}> Nothing path=a\.txt\n {4}failed: There is no tool "Nothing"/m);
  expect(shown).toMatch(/^ {2}> Write file=a\.txt\n {4}failed: Write: the input does not fit/m);
  expect(shown.match(/^ {2}> /gm)).toHaveLength(3);
  expect(shown).toBe(firstStep((await machine.run(["log", "1"])).stdout));
});
