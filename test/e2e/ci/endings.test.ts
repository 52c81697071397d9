import { expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { until } from "../../support/until.ts";
import { processesOf } from "../support/leftovers.ts";
import { Machine } from "../support/machine.ts";
import { Receipt } from "../support/verdict.ts";

setDefaultTimeout(300_000);

const FILE = join(import.meta.dir, "../../../docs/ci.md");
const BETWEEN = /(<!-- endings -->\n)[\s\S]*?(<!-- \/endings -->)/;

interface Ending {
  /** What the table says. */
  how: string;
  /** The model's script; by default it answers at once. */
  script?: string;
  flags?: string[];
  config?: Record<string, unknown>;
  env?: Record<string, string | undefined>;
  /** Signals that the command gets once its program runs, each after the one before had its effect. */
  signals?: readonly NodeJS.Signals[];
  files?: Record<string, string>;
  intent?: string | null;
  /** The project is a git repository. */
  git?: boolean;
}

const answer = (text: string): string => `responses:\n  - text: ${text}\n`;
const bash = (command: string): string =>
  `responses:\n  - tool_calls: [{ name: Bash, input: { command: ${JSON.stringify(command)} } }]\n  - text: done\n`;
const HOLD = bash("touch held; sleep 60");
const many = (call: string): string =>
  `responses:\n${Array.from({ length: 40 }, () => `  - tool_calls: [${call}]\n`).join("")}`;

const ENDINGS: Ending[] = [
  { how: "the agent finishes" },
  { how: "the agent finishes, with the definitions of `--base`", flags: ["--base", "main"], git: true },
  { how: "the agent finishes, all checks pass", flags: ["--check", "true"] },
  { how: "a tool call failed, and the agent finishes", script: bash("exit 3") },
  { how: "a check fails to the end", flags: ["--check", "false", "--check-attempts", "1"] },
  {
    how: "the answer does not fit `--output-schema`",
    script: "responses:\n  - text: a\n  - text: b\n  - text: c\n",
    flags: ["--output-schema", "schema.json"],
    files: { "schema.json": '{"type":"object"}' },
  },
  { how: "`--timeout` is over", script: HOLD, flags: ["--timeout", "1s"], config: { grace: "100ms" } },
  {
    how: "`--max-steps` are used up",
    script: many("{ name: Bash, input: { command: date +%N } }"),
    flags: ["--max-steps", "3"],
  },
  {
    how: "`--budget` is used up",
    script: many("{ name: Bash, input: { command: date +%N } }"),
    flags: ["--budget", "600"],
  },
  {
    how: "the same call again and again",
    script: many("{ name: Bash, input: { command: 'true' } }"),
    config: { loop_threshold: 5 },
  },
  { how: "the model fails", script: "responses: []\n" },
  {
    how: "the model refuses, or its answer is cut",
    script: "responses:\n  - { text: no, stop_reason: refusal }\n",
  },
  {
    how: "a child fails, and the agent finishes",
    script: `responses:
  - tool_calls: [{ name: Agent, input: { agent: default, intent: break } }]
  - text: done
children: [{ agent: default, intent: break, responses: [] }]
`,
  },
  { how: "one signal (INT or TERM)", script: HOLD, signals: ["SIGTERM"] },
  { how: "two signals, with `CI` set", script: HOLD, signals: ["SIGINT", "SIGTERM"] },
  {
    how: "two signals, without `CI`",
    script: bash("trap '' TERM; touch held; while :; do sleep 0.1; done"),
    signals: ["SIGINT", "SIGINT"],
    env: { CI: undefined },
    config: { grace: "5m" },
  },
  { how: "KILL", script: HOLD, signals: ["SIGKILL"] },
  { how: "no intent", intent: null },
  { how: "an unknown flag", flags: ["--agnet", "x"] },
  { how: "an unknown agent", flags: ["--agent", "nobody"] },
  {
    how: "an invalid agent file",
    flags: ["--agent", "bad"],
    files: { "agents/bad/agent.yaml": "nme: bad\n" },
  },
  { how: "`--base` names no commit", flags: ["--base", "gone"], git: true },
  { how: "`--base`, and no git", flags: ["--base", "main"], git: true, env: { PATH: "/nonexistent" } },
  { how: "a file of `--untrusted` is missing", flags: ["--untrusted", "gone"] },
  { how: "no provider and no key", flags: [], env: { RNIX_PROVIDER: undefined, RNIX_MODEL: undefined } },
  {
    how: "an MCP server of `--mcp` does not start",
    flags: ["--mcp", "gone", "--trust"],
    files: { ".mcp.json": '{"mcpServers":{"gone":{"command":"/nonexistent"}}}' },
  },
  {
    how: "`--sandbox required`, and no bubblewrap",
    flags: ["--sandbox", "required"],
    env: { PATH: "/nonexistent" },
  },
];

/** Runs one ending, and returns its row of the table. */
async function rowOf(ending: Ending): Promise<string> {
  await using machine = new Machine({ git: ending.git });
  machine.write("script.yaml", ending.script ?? answer("done"));
  for (const [path, text] of Object.entries(ending.files ?? {})) machine.write(path, text);
  machine.config({ ...ending.config });
  const before = new Set(readdirSync(machine.project));
  const env = { CI: "true", RNIX_PROVIDER: "replay", RNIX_MODEL: "script.yaml", ...ending.env };
  const intent = ending.intent === null ? [] : ["do it"];
  const args = ["spawn", "--no-daemon", "--no-stdin", "--output", "json", ...(ending.flags ?? []), ...intent];
  const command = machine.start(args, { env });
  for (const [at, signal] of (ending.signals ?? []).entries()) {
    if (at === 0) await until(() => machine.has("held"), "the program");
    else await until(() => command.stderr.text.includes("suspending"), "the signal before");
    command.signal(signal);
  }
  const { code, stdout } = await command.done;
  if (ending.signals?.includes("SIGKILL")) return await killedRow(ending, machine, stdout);
  const receipt = Receipt.parse(JSON.parse(stdout));
  expect(receipt.exit_code).toBe(code);
  expect(processesOf(machine.root)).toEqual([]);
  const made = readdirSync(machine.project).filter((name) => !before.has(name) && name !== "held");
  expect(made.filter((name) => name !== ".rnix")).toEqual([]);
  return row(ending.how, code, receipt.exit_reason, receipt.uuid === "" ? "nothing" : "the record");
}

/** The command has no chance to say or end anything: what it leaves ends with the next rnix. */
async function killedRow({ how }: Ending, machine: Machine, stdout: string): Promise<string> {
  expect(stdout).toBe("");
  expect(processesOf(machine.root).length).toBeGreaterThan(0);
  const shown = await machine.run(["ps", "-a", "--json"]);
  expect(shown).toMatchObject({ code: 0, stderr: "" });
  expect(JSON.parse(shown.stdout)).toMatchObject([{ state: "suspended" }]);
  await machine.run(["daemon", "stop"]);
  await until(() => processesOf(machine.root).length === 0, "the end of the program");
  return row(how, "137", "no JSON", "the record, and programs until the next rnix or the runner ends them");
}

function row(how: string, code: number | string, reason: string, left: string): string {
  return `| ${how} | ${code} | ${reason === "no JSON" ? reason : `\`${reason}\``} | ${left} |\n`;
}

/** With UPDATE_DOCS=1 the table is written instead of compared. */
test("every way a CI run can end is tried, and is in the table of docs/ci.md", async () => {
  const rows: string[] = [];
  const left = ENDINGS.entries();
  const player = async (): Promise<void> => {
    for (const [at, ending] of left) rows[at] = await rowOf(ending);
  };
  await Promise.all([player(), player(), player()]);
  const table = ["| how it ends | exit | `exit_reason` | left behind |\n|---|--:|---|---|\n", ...rows].join(
    "",
  );
  const document = readFileSync(FILE, "utf8");
  expect(document).toMatch(BETWEEN);
  const expected = document.replace(BETWEEN, (_all, head: string, foot: string) => `${head}${table}${foot}`);
  if (process.env.UPDATE_DOCS) writeFileSync(FILE, expected);
  else expect(document, "UPDATE_DOCS=1 writes the table").toBe(expected);
});
