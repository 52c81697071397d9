import { expect, test } from "bun:test";
import { chmodSync } from "node:fs";
import { join } from "node:path";
import { Machine } from "../../support/machine.ts";

/** Between these a terminal shows other text than the file has, or nothing. */
const HIDING: [name: string, from: string, to: string][] = [
  ["the title of a window", "\u001b]0;", "\u0007"],
  ["a link", "\u001b]8;;", "\u001b\\\u001b]8;;\u001b\\"],
  ["a device's string", "\u001bP", "\u001b\\"],
  ["text that is concealed", "\u001b[8m", "\u001b[0m"],
  ["a line that is written over", "", "\u001b[2K\r"],
  ["the other direction", "\u202e", "\u202c"],
  ["an isolate", "\u2067", "\u2069"],
  ["characters without a width", "\u200b", "\ufeff"],
  ["lines of its own", "\n", "\n"],
];
const HIDDEN = "touch taken";

/** What nothing that decides may contain: controls but newline, and what reorders or hides. */
const UNSEEN = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

function clone(machine: Machine, from: string, to: string): void {
  const command = `npm test ;${from};${HIDDEN};${to}`;
  const agent = { name: "tester", description: "tests", checks: [command] };
  machine.agent("tester", JSON.stringify(agent), "Test.\n");
  machine.write(
    ".mcp.json",
    JSON.stringify({ mcpServers: { good: { command: "sh", args: ["-c", command] } } }),
  );
  machine.write(
    ".rnix/init.yaml",
    JSON.stringify({ services: [{ name: "queue", type: "command", config: { command } }] }),
  );
  machine.write(
    ".rnix/providers.yaml",
    JSON.stringify({ providers: { mine: { driver: "openai-compatible", api_key_command: command } } }),
  );
}

for (const [name, from, to] of HIDING) {
  test(`rnix trust shows the whole content, with nothing hidden: ${name}`, async () => {
    await using machine = new Machine();
    clone(machine, from, to);
    const { code, stdout } = await machine.run(["trust", "--show"]);
    expect(code).toBe(0);
    const rows = stdout.split("\n");
    for (const what of ["agent tester: checks", "good runs sh -c", "queue runs", "provider mine"]) {
      expect(rows.find((row) => row.includes(what))).toContain(HIDDEN);
    }
    expect(stdout).not.toMatch(UNSEEN);
  });
}

test("file names and errors do not move the cursor", async () => {
  await using machine = new Machine();
  const script = "check\u001b[2J\u202e.sh";
  machine.write(
    "agents/tester/agent.yaml",
    JSON.stringify({ name: "tester", description: "tests", checks: [`sh '${script}'`] }),
  );
  machine.write("agents/tester/instructions.md", "Test.\n");
  chmodSync(machine.write(script, "true\n"), 0o755);
  machine.write(join("plugins", "bad\u001b[2J\u202e.ts"), "export default\n");
  const { code, stdout, stderr } = await machine.run(["trust", "--show"]);
  expect(code).toBe(0);
  expect(stdout).toContain("tester binds check\\u{1b}[2J\\u{202e}.sh");
  expect(stdout + stderr).not.toMatch(UNSEEN);
});
