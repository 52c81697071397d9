import { expect, setDefaultTimeout, test } from "bun:test";
import { Machine } from "../support/machine.ts";
import { toolResults } from "../support/requests.ts";
import { calls, says, scenes } from "../support/scenes.ts";
import { verdict } from "../support/verdict.ts";

setDefaultTimeout(120_000);

const WORDS = `import { defineTool } from "rnix/plugin";

export default defineTool({
  name: "CountWords",
  description: "Count the words of a text.",
  input: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  run: ({ text }) => \`\${text.split(/\\s+/).filter(Boolean).length} words\`,
});
`;

test("eight lines are a plugin: its tool is offered, its input is checked, its result is used", async () => {
  await using machine = new Machine();
  const model = await machine.model(
    scenes({
      "count it": [calls(["CountWords", { text: "one two three" }], ["CountWords", {}]), says("counted")],
    }),
  );
  machine.write(".rnix/plugins/words.ts", WORDS);
  await verdict(machine, ["count it", "--trust"]);
  const [counted, refused] = model.requests.slice(-1).flatMap(toolResults);
  expect(counted).toBe("3 words");
  expect(refused).toStartWith("Error INVALID");
});

test("plugins new says how to trust what is being written, and how to check it", async () => {
  await using machine = new Machine();
  const { stderr } = await machine.run(["plugins", "new", "jira"]);
  expect(stderr).toContain("rnix trust --follow");
  expect(stderr).toContain("rnix plugins check .rnix/plugins/jira.ts");
});
