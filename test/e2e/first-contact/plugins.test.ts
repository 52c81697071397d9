import { expect, test } from "bun:test";
import { chmodSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../support/machine.ts";
import { toolResults } from "../support/requests.ts";
import { calls, says } from "../support/scenes.ts";
import { verdict } from "../support/verdict.ts";

const WORDS = `import { defineTool } from "rnix/plugin";

export default defineTool({
  name: "CountWords",
  description: "Count the words of a text.",
  input: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  run: ({ text }) => \`\${text.split(/\\s+/).filter(Boolean).length} words\`,
});
`;

test("a plugin of eight lines works: its tool is offered, its input checked, its result used", async () => {
  await using machine = new Machine();
  const model = await machine.play({
    "count it": [calls(["CountWords", { text: "one two three" }], ["CountWords", {}]), says("counted")],
  });
  machine.write(".rnix/plugins/words.ts", WORDS);
  await verdict(machine, ["count it", "--trust"]);
  const [counted, refused] = model.requests.slice(-1).flatMap(toolResults);
  expect(counted).toBe("3 words");
  expect(refused).toStartWith("Error INVALID");
});

test("a plugin may have any extension of JavaScript; what is not loaded is named", async () => {
  await using machine = new Machine();
  const source = (tool: string) => WORDS.replace("CountWords", tool);
  const common = 'const { defineTool } = require("rnix/plugin");\nmodule.exports = defineTool({';
  for (const extension of ["js", "mjs", "tsx", "jsx", "mts", "cts"]) {
    machine.write(`.rnix/plugins/a-${extension}.${extension}`, source(`Words_${extension}`));
  }
  machine.write(
    ".rnix/plugins/a-cjs.cjs",
    source("Words_cjs").replace(/^import.*\n\nexport default defineTool\(\{/, common),
  );
  machine.write(".rnix/plugins/in/index.mjs", source("Words_in"));
  machine.write("plugins/shared.js", source("Words_shared"));
  machine.write("plugins/of-another-tool.js", "export default (app) => app.use(1);\n");
  machine.write("plugins/of-another-tool.ts", source("Words_ts"));
  machine.write(".rnix/plugins/a-js.ts", source("Words_both"));
  await machine.run(["trust", "--yes"]);
  const { stdout } = await machine.run(["plugins", "--json"]);
  const plugins: { name: string; source: string; state: string; problems: { message: string }[] }[] =
    JSON.parse(stdout).filter(({ layer }: { layer: string }) => layer === "project");
  const states = plugins.map(({ source, state }) => [source.slice(machine.project.length + 1), state]);
  expect(Object.fromEntries(states)).toEqual({
    "plugins/of-another-tool.ts": "loaded",
    "plugins/shared.js": "loaded",
    ".rnix/plugins/a-cjs.cjs": "loaded",
    ".rnix/plugins/a-cts.cts": "loaded",
    ".rnix/plugins/a-js.ts": "loaded",
    ".rnix/plugins/a-js.js": "broken",
    ".rnix/plugins/a-jsx.jsx": "loaded",
    ".rnix/plugins/a-mjs.mjs": "loaded",
    ".rnix/plugins/a-mts.mts": "loaded",
    ".rnix/plugins/a-tsx.tsx": "loaded",
    ".rnix/plugins/in/index.mjs": "loaded",
  });
  expect((await machine.run(["plugins"])).stderr).toContain("a-js.js");
  for (const tool of ["Words_cjs", "Words_tsx", "Words_shared"]) {
    expect(await machine.run(["call", tool, '{"text":"a b"}'])).toMatchObject({ stdout: "2 words\n" });
  }
});

test("an import that does not exist is named, and no file of Rnix", async () => {
  await using machine = new Machine();
  machine.write(".rnix/plugins/bad.ts", WORDS.replaceAll("defineTool", "defineTools"));
  const { code, stdout } = await machine.run(["plugins", "check", ".rnix/plugins/bad.ts", "--run", "--yes"]);
  expect(code).toBe(1);
  expect(stdout).toMatch(/^error +SyntaxError: Export named 'defineTools' not found/m);
});

test("a syntax error shows the source line with a caret", async () => {
  await using machine = new Machine();
  const file = machine.write(".rnix/plugins/bad.ts", 'import "rnix/plugin";\n\n\texport default {{;\n');
  const caret = /\n +3 \| ( export default \{\{;)\n +\| ( {17})\^\n/;
  const check = await machine.run(["plugins", "check", ".rnix/plugins/bad.ts"]);
  expect(check.code).toBe(1);
  expect(check.stdout).toContain(`${file}:3:`);
  expect(check.stdout).toMatch(caret);
  expect((await machine.run(["plugins"])).stderr).toMatch(caret);
  const json = await machine.run(["plugins", "check", ".rnix/plugins/bad.ts", "--json"]);
  expect(JSON.parse(json.stdout).problems[0]).toMatchObject({ line: 3, source: "\texport default {{;" });
});

const KEY = "jira-key-of-the-user-1234567890";
const JIRA = `import { defineTool } from "rnix/plugin";

export default defineTool({
  name: "Jira",
  description: "Asks Jira.",
  input: { type: "object", properties: { name: { type: "string" } } },
  needs: ["secret"],
  secrets: ["JIRA_TOKEN"],
  async run({ name = "JIRA_TOKEN" }, context) {
    const key = await context.secret(name);
    context.log("info", "asked with " + key);
    return \`\${key.length} characters: \${key}\`;
  },
});
`;

for (const where of ["file", "environment"] as const) {
  test(`a plugin gets its own key from the ${where}; other tools and records do not`, async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "ask jira": [
        calls(["Jira", {}], ["Jira", { name: "OPENAI_API_KEY" }], ["Bash", { command: "env; echo end" }]),
        says("asked"),
      ],
    });
    machine.write(".rnix/plugins/jira.ts", JIRA);
    if (where === "file") {
      const file = machine.write(join(machine.configDir, "env"), `JIRA_TOKEN=${KEY}\n`);
      chmodSync(file, 0o600);
    }
    const env = where === "environment" ? { JIRA_TOKEN: KEY, COPY: `Bearer ${KEY}` } : {};
    const { info } = await verdict(machine, ["ask jira", "--trust"], { env });
    const [asked, refused, shell] = model.requests.slice(-1).flatMap(toolResults);
    expect(asked).toBe(`${KEY.length} characters: [key]`);
    expect(refused).toStartWith("Error PERMISSION");
    expect(refused).toContain("Plugin jira may read JIRA_TOKEN");
    expect(shell).not.toContain("JIRA");
    expect(shell).not.toContain(KEY);
    const call = await machine.run(["call", "--trust", "Jira"], { env });
    expect(call.stdout).toBe(`${KEY.length} characters: [key]\n`);
    expect(filesWith(machine.project, KEY)).toEqual([]);
    expect(filesWith(machine.dataDir, KEY)).toEqual([]);
    expect(info.uuid).toBeString();
  });
}

test("a key that is not set is named by the check and by the call", async () => {
  await using machine = new Machine();
  const file = machine.write(".rnix/plugins/jira.ts", JIRA);
  await machine.run(["trust", "--yes"]);
  const check = await machine.run(["plugins", "check", file]);
  expect(check.stdout).toMatch(/keys +JIRA_TOKEN/);
  expect(check.stdout).toContain(
    `JIRA_TOKEN is not set. Write JIRA_TOKEN=… into ${machine.configDir}/env (chmod 600).`,
  );
  const call = await machine.run(["call", "Jira"]);
  expect(call).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/UNAVAILABLE JIRA_TOKEN is not set.* \(chmod 600\)/),
  });
  machine.write(file, JIRA.replace('needs: ["secret"],', ""));
  const broken = await machine.run(["plugins", "check", file, "--run", "--yes"]);
  expect(broken.stdout).toContain("Add it to needs");
});

/** Files below the folder that contain the text. */
function filesWith(folder: string, text: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((item) => item.isFile())
    .map((item) => join(item.parentPath, item.name))
    .filter((path) => readFileSync(path).includes(text));
}

test("plugins new says how to trust and how to check the new plugin", async () => {
  await using machine = new Machine();
  const { stderr } = await machine.run(["plugins", "new", "jira"]);
  expect(stderr).toContain("rnix trust --follow");
  expect(stderr).toContain("rnix plugins check .rnix/plugins/jira.ts");
  expect(stderr).toContain(`rnix call Jira '{"text": "one two"}'`);
  await machine.run(["trust", "--follow", "--yes"]);
  expect(await machine.run(["call", "Jira", '{"text": "one two"}'])).toMatchObject({
    stdout: "2 words\n",
    stderr: "",
  });
});
