import { expect, test } from "bun:test";
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../../support/machine.ts";
import { mcpJson } from "../../support/mcp.ts";
import { bash, says } from "../../support/scenes.ts";
import { verdict } from "../../support/verdict.ts";

test("known keys reach no prompt: of the intent, AGENTS.md, a file in lines of base64; nor do they reach records", async () => {
  await using machine = new Machine();
  const keys = {
    OPENAI_API_KEY: "sk-of-a-provider-0123456789",
    OWN_TOKEN: "token-in-the-file-of-the-user",
    header: "key-in-a-header-of-a-server",
  };
  const file = machine.write(join(machine.configDir, "env"), `OWN_TOKEN=${keys.OWN_TOKEN}\n`);
  chmodSync(file, 0o600);
  mcpJson(machine, {
    gone: {
      type: "http",
      url: "http://127.0.0.1:9/mcp",
      headers: { Authorization: `Bearer ${keys.header}` },
    },
  });
  machine.agent(
    "reader",
    "name: reader\ndescription: d\nallowed_tools: [Bash]\nmcp: [{ name: gone, required: false }]\n",
    "Read.",
  );
  machine.write("AGENTS.md", `The key is ${keys.OPENAI_API_KEY}.\n`);
  machine.write("all", `${"x".repeat(40)}${Object.values(keys).join(" and ")}\n`);
  const intent = `use ${keys.OWN_TOKEN}`;
  const model = await machine.play({ use: [bash("base64 all; cat all"), says(`it is ${keys.header}`)] });
  Object.assign(machine.env, { OPENAI_API_KEY: keys.OPENAI_API_KEY });
  await verdict(machine, [intent, "--agent", "reader", "--trust"]);
  const prompts = JSON.stringify(model.requests.map(({ body }) => body));
  expect(prompts).toContain("[key]");
  for (const key of Object.values(keys)) {
    expect(prompts).not.toContain(key);
    expect(machine.search(key).filter((path) => path.startsWith("project/.rnix/data"))).toEqual([]);
  }
  const lines = prompts.replaceAll("\\\\n", "");
  for (const key of Object.values(keys)) expect(lines).not.toContain(btoa(`xxx${key}`).slice(8, -4));
});
