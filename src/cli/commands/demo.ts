/** `rnix demo`: replays a recorded run that fixes a bug, without a key or network. */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { userPaths } from "../../config/paths.ts";
import { failedCheck } from "../../lib/check-attempts.ts";
import type { Receipt } from "../../protocol/methods.ts";
import { defineCommand } from "../command.ts";
import { BROKEN_FILE, FILES, INTENT, SCRIPT, TEST } from "../demo/project.ts";
import { EXIT } from "../exit.ts";
import type { Io } from "../io.ts";
import { type Style, styleOf } from "../output/style.ts";
import { runAgent } from "../run.ts";

export default defineCommand({
  about: "Show a complete run that needs no key and no network: an agent fixes a bug",
  flags: {},
  examples: [{ line: "rnix demo", about: "exits 0 when the project's own test proves the fix" }],
  notes: [
    "Only the model's answers are played back. The daemon, the shell, the edits and the test are real. The project is created in its own folder and removed afterwards; the record of the run stays.",
  ],
  async run(io) {
    const style = styleOf(io, io.stdout);
    const demo = new DemoProject(join(userPaths(io.env).dataDir, "demo"));
    try {
      io.stdout.write(introduction(demo.dir, style));
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
        },
      );
      const fixed = receipt !== null && isFixed(receipt) && demo.changed();
      io.stdout.write(conclusion(io, receipt, fixed, demo, style));
      return fixed ? EXIT.ok : code === EXIT.ok ? EXIT.error : code;
    } finally {
      demo.remove();
    }
  },
});

/** The replay driver's model: relative to the run's folder. */
const SCRIPT_FILE = ".demo.json";
const RUN = { intent: INTENT, provider: "replay", model: SCRIPT_FILE, check: [TEST] };

/**
 * A folder for this run in a project in the user's data folder. So the record outlives the folder, and all
 * demos are one project in the list of known ones.
 */
class DemoProject {
  readonly #root: string;
  readonly dir: string;

  constructor(root: string) {
    this.#root = root;
    mkdirSync(join(root, ".rnix"), { recursive: true, mode: 0o700 });
    this.dir = mkdtempSync(join(root, "run-"));
    for (const [name, text] of Object.entries(FILES)) writeFileSync(join(this.dir, name), text);
    writeFileSync(join(this.dir, SCRIPT_FILE), `${JSON.stringify(SCRIPT, null, 2)}\n`);
  }

  /** The path of a run's record. */
  recordOf(uuid: string, { env }: Io): string {
    return join(env.RNIX_DATA_DIR || join(this.#root, ".rnix", "data"), "steps", uuid);
  }

  changed(): boolean {
    return this.now() !== FILES[BROKEN_FILE];
  }

  now(): string {
    return readFileSync(join(this.dir, BROKEN_FILE), "utf8");
  }

  remove(): void {
    rmSync(this.dir, { recursive: true, force: true });
  }
}

function isFixed({ exit_code, checks }: Receipt): boolean {
  return exit_code === EXIT.ok && checks.length > 0 && failedCheck(checks) === undefined;
}

function introduction(dir: string, style: Style): string {
  return [
    `A small project with a bug, in ${dir}:`,
    ...Object.entries(FILES).map(([name, text]) => `  ${style.bold(name.padEnd(12))}${firstWords(text)}`),
    "",
    `${style.bold("rnix spawn")} ${JSON.stringify(INTENT)} --check ${JSON.stringify(TEST)}`,
    style.dim("The model's words are played back from a script. Everything else is real."),
    "",
    "",
  ].join("\n");
}

function conclusion(
  io: Io,
  receipt: Receipt | null,
  fixed: boolean,
  demo: DemoProject,
  style: Style,
): string {
  if (receipt === null || !fixed) {
    return `\n${style.red(`${style.glyph.failed} the bug is not fixed`)}; run rnix doctor to find out why\n`;
  }
  return [
    "",
    `${style.bold("What changed")} in ${BROKEN_FILE}:`,
    ...difference(FILES[BROKEN_FILE] ?? "", demo.now(), style),
    "",
    style.green(
      `${style.glyph.ok} fixed: the project's own test (${TEST}) fails without this change and passes with it`,
    ),
    "",
    `The record of the run: ${demo.recordOf(receipt.uuid, io)}`,
    `  rnix log ${receipt.uuid}      what it did`,
    `  rnix steps ${receipt.uuid}    its steps, one by one`,
    "",
    keyIsThere(io)
      ? "With a model of your own:"
      : "With a model of your own: export ANTHROPIC_API_KEY=… (or OPENAI_API_KEY=…), then",
    '  rnix spawn "explain what this project does"',
    "",
  ].join("\n");
}

function keyIsThere({ env }: Io): boolean {
  return Boolean(env.ANTHROPIC_API_KEY || env.OPENAI_API_KEY);
}

function firstWords(text: string): string {
  const [line = ""] = text.split("\n");
  return line.replace(/^# /, "");
}

/** Lines that are only in one of the two. */
function difference(before: string, after: string, style: Style): string[] {
  const old = before.split("\n");
  const now = after.split("\n");
  return [
    ...old.filter((line) => !now.includes(line)).map((line) => style.red(`  - ${line}`)),
    ...now.filter((line) => !old.includes(line)).map((line) => style.green(`  + ${line}`)),
  ];
}
