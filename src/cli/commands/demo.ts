/** `rnix demo`: replays a recorded run that fixes a bug, without a key or network. */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { userPaths } from "../../config/environment/paths.ts";
import { failedCheck } from "../../lib/check-attempts.ts";
import type { Receipt } from "../../protocol/methods.ts";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { type Io, project, refuseInsideRun, withWire } from "../io.ts";
import { type Style, styleOf } from "../output/style.ts";
import { runAgent } from "../run/run.ts";
import { ownName } from "../system/own-name.ts";

export default defineCommand({
  about: "Show a complete run that needs no key and no network: an agent fixes a bug",
  examples: { "rnix demo": "exits 0 when the project's own test proves the fix" },
  notes: [
    "Only the model's answers are played back. The daemon, the shell, the edits and the test are real. The project is created in its own folder and removed afterwards; the record of the run stays.",
  ],
  async run(io) {
    await refuseInsideRun(io, "demo");
    const style = styleOf(io, io.stdout);
    const demo = new DemoProject(join(userPaths(io.env).dataDir, "demo"));
    try {
      io.stdout.write(introduction(io, demo.dir, style));
      // All output goes to one stream, so that its order is kept.
      const { code, receipt } = await runAgent(
        { ...io, stderr: io.stdout },
        {
          open: (wire, given) => wire.open("spawn", { ...RUN, ...given, cwd: demo.dir }),
          env: {},
          detach: false,
          unattended: true,
          inside: false,
          output: "text",
          quiet: false,
          atReadingPace: true,
        },
      );
      const isChecked =
        receipt?.exit_code === EXIT.ok && receipt.checks.length > 0 && !failedCheck(receipt.checks);
      const fixed = isChecked && demo.changed();
      const next = fixed ? await nextCommands(io, receipt) : [];
      io.stdout.write(conclusion(fixed, next, { style, columns: io.stdout.columns }));
      return fixed ? EXIT.ok : code === EXIT.ok ? EXIT.error : code;
    } finally {
      demo.remove();
    }
  },
});

/** A folder for this run in a project of the user's data folder: the record outlives it, and all demos are one project. */
class DemoProject {
  readonly dir: string;

  constructor(root: string) {
    mkdirSync(join(root, ".rnix"), { recursive: true, mode: 0o700 });
    this.dir = mkdtempSync(join(root, "run-"));
    for (const [name, text] of Object.entries(FILES)) writeFileSync(join(this.dir, name), text);
    writeFileSync(join(this.dir, SCRIPT_FILE), `${JSON.stringify(SCRIPT, null, 2)}\n`);
  }

  changed(): boolean {
    return readFileSync(join(this.dir, BROKEN_FILE), "utf8") !== FILES[BROKEN_FILE];
  }

  remove(): void {
    rmSync(this.dir, { recursive: true, force: true });
  }
}

function introduction(io: Io, dir: string, style: Style): string {
  return [
    `A small project with a bug, in ${dir}:`,
    ...Object.entries(FILES).map(
      ([name, text]) => `  ${style.bold(name.padEnd(12))}${/^(?:# )?(.*)/.exec(text)?.[1]}`,
    ),
    "",
    `${style.bold(`${ownName(io)} spawn`)} ${JSON.stringify(INTENT)} --check ${JSON.stringify(TEST)}`,
    style.dim("The model's words are played back from a script. Everything else is real."),
    "",
    "",
  ].join("\n");
}

function conclusion(
  fixed: boolean,
  next: readonly (readonly [string, string])[],
  { style, columns }: { style: Style; columns: number },
): string {
  if (!fixed) {
    return `\n${style.red(`${style.glyph.failed} the bug is not fixed`)}; run rnix doctor to find out why\n`;
  }
  const width = Math.max(...next.map(([command]) => command.length));
  const isNarrow = next.some(([, about]) => width + about.length + 4 > columns);
  const gap = (command: string): string => (isNarrow ? "\n      " : " ".repeat(width - command.length + 2));
  return [
    "",
    style.green(
      `${style.glyph.ok} fixed: the project's own test fails without this change and passes with it`,
    ),
    "",
    style.bold("Now you:"),
    ...next.map(([command, about]) => `  ${style.cyan(command)}${gap(command)}${style.dim(about)}`),
    "",
  ].join("\n");
}

/** What to try next, as the user would type it here. */
async function nextCommands(io: Io, { pid }: Receipt): Promise<[string, string][]> {
  const rnix = ownName(io);
  const { providers } = await withWire(io, (wire) => wire.request("list_providers", project(io)));
  const hasModel = providers.some(({ name, usable }) => usable && name !== "replay");
  return [
    hasModel ? [rnix, "talk with an agent"] : [`${rnix} setup`, "choose a model, enter its key, in a minute"],
    [`${rnix} spawn "explain this project"`, "run one in this folder"],
    [`${rnix} log ${pid}`, "what this run did: its record stays"],
  ];
}

/** sh only, so that it runs wherever rnix runs. The bug: the list's last line has no newline, and `read` drops it. */
export const FILES: Readonly<Record<string, string>> = {
  "prices.txt": "apples 12\nbread 7\ncheese 23",
  "total.sh": `# Prints the sum of the prices in prices.txt.
total=0
while read -r name price; do
  total=$((total + price))
done < prices.txt
echo "$total"
`,
  "test.sh": `# The project's own test.
got=$(sh total.sh)
if [ "$got" = 42 ]; then
  echo "PASS: the total is 42"
else
  echo "FAIL: expected 42, got $got"
  exit 1
fi
`,
};

export const INTENT = "The test fails: find the bug and fix it.";
export const TEST = "sh test.sh";
export const BROKEN_FILE = "total.sh";

const BROKEN = "while read -r name price; do";
const FIXED = 'while read -r name price || [ -n "$name" ]; do';

/** What the replay driver says in place of a model. Its tool calls are made for real; paths are relative. */
export const SCRIPT = {
  responses: [
    {
      text: "I will look at the failing test first, then at the code it tests.",
      tool_calls: [
        {
          name: "Plan",
          input: {
            steps: [
              "Run the test and see how it fails",
              "Read the code",
              "Fix the bug",
              "Run the test again",
            ],
          },
        },
      ],
    },
    { tool_calls: [{ name: "Bash", input: { command: TEST } }] },
    {
      text: "42 are expected and 19 come out: the 23 of the last line are missing.",
      tool_calls: [
        { name: "Read", input: { path: "total.sh" } },
        { name: "Bash", input: { command: "wc -l prices.txt" } },
      ],
    },
    {
      text: "Three prices and two newlines: the last line ends without one. Then `read` fills its variables but fails, and the loop ends before the last price is added. The loop must go on when a name was read.",
      tool_calls: [{ name: "Edit", input: { path: "total.sh", old_string: BROKEN, new_string: FIXED } }],
    },
    { text: "Now the test again.", tool_calls: [{ name: "Bash", input: { command: TEST } }] },
    {
      text: "Fixed. total.sh dropped the last price because prices.txt ends without a newline; it now counts a line that was read without one. The test passes.",
    },
  ],
};

/** The replay driver's model: relative to the run's folder. */
const SCRIPT_FILE = ".demo.json";
const RUN = { intent: INTENT, provider: "replay", model: SCRIPT_FILE, check: [TEST] };
