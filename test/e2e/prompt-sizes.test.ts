import { expect, test } from "bun:test";
import { Machine } from "./support/machine.ts";
import { systemPrompt, toolNames } from "./support/requests.ts";
import { says } from "./support/scenes.ts";
import { verdict } from "./support/verdict.ts";

test("rnix tools --agent shows each part of the request with its size, as a run sends it", async () => {
  await using machine = new Machine();
  const model = await machine.play({ "do it": [says("done")] });
  machine.write("AGENTS.md", "Rules of the project: größer.\n");
  machine.write(
    "agents/poet/agent.yaml",
    "name: poet\ndescription: Writes\nskills: [rhyme]\ndeferred_skills: [testing]\nchecks: ['true']\n",
  );
  machine.write("agents/poet/instructions.md", "You write poems.\n");
  machine.write("skills/rhyme/SKILL.md", "---\nname: rhyme\ndescription: Rhymes\n---\nRhyme it.\n");
  machine.write(".rnix/plugins/motto.ts", MOTTO);
  await machine.run(["trust", "--yes"]);

  const { stdout } = await machine.run(["tools", "--agent", "poet"]);
  const rows = stdout
    .slice(stdout.indexOf("PART OF EACH REQUEST"))
    .trim()
    .split("\n")
    .slice(1)
    .map((line) => /^(.*?) +(\d+) +~(\d+)$/.exec(line)?.slice(1) ?? [line]);
  const parts = rows.slice(0, -2);
  expect(parts.map(([part]) => part)).toEqual([
    "instructions",
    "skill rhyme",
    "skills to load",
    "AGENTS.md",
    "plugin motto: Motto",
    "environment",
    "checks",
  ]);
  expect(rows.at(-2)?.[0]).toMatch(/^\d+ tools$/);
  expect(rows.at(-1)?.[0]).toBe("all");

  await verdict(machine, ["do it", "--agent", "poet"]);
  const [request] = model.requests;
  if (request === undefined) throw new Error("the model was never asked");
  const bytes = parts.reduce((sum, [, size]) => sum + Number(size), 0);
  expect(bytes + 2 * (parts.length - 1)).toBe(Buffer.byteLength(systemPrompt(request)));
  expect(rows.at(-2)?.[0]).toBe(`${toolNames(request).length} tools`);
  expect(await machine.json(["tools", "--agent", "poet", "--json"])).toBeArray();
});

const MOTTO = `import { definePlugin, defineTool } from "rnix/plugin";

const motto = defineTool({ name: "Motto", description: "Says it.", input: { type: "object" }, defer: true, run: () => "" });

export default definePlugin({
  name: "motto",
  tools: [motto],
  prompt: async () => ({ title: "Motto", text: "Slowly, but well." }),
});
`;
