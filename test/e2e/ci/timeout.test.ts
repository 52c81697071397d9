import { expect, test } from "bun:test";
import { join } from "node:path";
import { Machine } from "../support/machine.ts";
import { Receipt } from "../support/verdict.ts";

const LIMIT_MS = 2000;
/** Far below the grace, and more than a busy machine needs. */
const LATE_MS = 20_000;
/** A program that TERM does not end. */
const DEAF = "trap '' TERM; sleep 60 & while :; do sleep 0.2; done";
const call = (...tools: string[]): string =>
  `responses:\n${tools.map((tool) => `  - tool_calls: [${tool}]\n`).join("")}  - text: done\n`;
const BASH = `{ name: Bash, input: { command: ${JSON.stringify(DEAF)} } }`;

interface Hanging {
  what: string;
  script?: string;
  flags?: string[];
  files?: Record<string, string>;
}

const server = JSON.stringify({ mcpServers: { deaf: { command: "sh", args: ["-c", DEAF] } } });
const HANGING: Hanging[] = [
  { what: "a program", script: call(BASH) },
  {
    what: "a program of a child",
    // The child's limit may end a moment before that of its parent, which then hangs too.
    script: `${call("{ name: Agent, input: { agent: default, intent: go } }", BASH)}children:
  - agent: default
    intent: go
    responses:
      - tool_calls: [${BASH}]
      - text: done
`,
  },
  { what: "a check", flags: ["--check", DEAF] },
  {
    what: "an MCP server that the run needs",
    flags: ["--mcp", "deaf", "--trust"],
    files: { ".mcp.json": server },
  },
  {
    what: "an MCP server that it can do without",
    script: call("{ name: ToolSearch, input: { query: 'mcp__deaf__*' } }"),
    flags: ["--trust"],
    files: { ".mcp.json": server },
  },
  {
    what: "a plugin",
    script: call("{ name: Stuck, input: {} }"),
    flags: ["--trust"],
    files: {
      "plugins/stuck.ts": `import { defineTool } from "rnix/plugin";
export default defineTool({ name: "Stuck", description: "x", input: { type: "object" }, run: () => new Promise(() => {}) });
`,
    },
  },
];

test.concurrent.each(HANGING)(
  "with CI set, --timeout ends the step without the grace, though $what hangs",
  async (hanging) => {
    await using machine = new Machine();
    machine.config({ grace: "1m" });
    machine.write("script.yaml", hanging.script ?? "responses:\n  - text: done\n");
    for (const [path, text] of Object.entries(hanging.files ?? {})) machine.write(path, text);
    const args = [
      "--no-daemon",
      "--no-stdin",
      "--output",
      "json",
      "--timeout",
      `${LIMIT_MS}ms`,
      ...(hanging.flags ?? []),
    ];
    const env = { CI: "true", RNIX_PROVIDER: "replay", RNIX_MODEL: join(machine.project, "script.yaml") };
    const { stdout, ms } = await machine.run(["spawn", ...args, "x"], { env });
    const receipt = Receipt.parse(JSON.parse(stdout));
    expect(receipt.exit_reason).toBe("timeout");
    expect(receipt.elapsed_ms).toBeLessThan(LIMIT_MS + LATE_MS);
    // The command itself also starts, and ends after its run.
    expect(ms).toBeLessThan(LIMIT_MS + 1.5 * LATE_MS);
  },
);

test("a run that does not want an MCP server that hangs ends at once, without its grace", async () => {
  await using machine = new Machine();
  machine.config({ grace: "1m" });
  machine.write("script.yaml", "responses:\n  - text: done\n");
  machine.write(".mcp.json", server);
  const env = { RNIX_PROVIDER: "replay", RNIX_MODEL: join(machine.project, "script.yaml") };
  const { code, ms } = await machine.run(["spawn", "--no-daemon", "--no-stdin", "--trust", "x"], { env });
  expect(code).toBe(0);
  expect(ms).toBeLessThan(LATE_MS);
});
