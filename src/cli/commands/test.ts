/** `rnix test`: plays a folder of recorded cases as a test suite, without a model. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CaseFolder, findCases } from "../cases/case-folder.ts";
import type { CaseOptions, CaseResult } from "../cases/play-case.ts";
import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { absoluteFolder } from "../files/paths.ts";
import { bool, count, json, text } from "../flags.ts";
import { type Io, refuseInsideRun, withSession } from "../io.ts";
import { formatElapsed, plural, printable } from "../output/format.ts";
import { junitXml } from "../output/junit.ts";
import { print } from "../output/print.ts";
import { type Style, styleOf } from "../output/style.ts";
import { differencesText } from "../replay/report.ts";
import { ReportFile } from "../report/report-file.ts";

/** Cases played at the same time. */
const JOBS = 4;

export default defineCommand({
  about: "Play a folder of recorded cases as tests of your agents: no model, no key, no cost",
  args: [{ name: "DIR", about: "a folder with cases, or one case", file: true }],
  flags: {
    filter: text("play only cases whose name contains this text", "TEXT"),
    jobs: count(`how many cases are played at the same time (default ${JOBS})`, "N"),
    junit: text("write a JUnit report into this file", "FILE", { file: "write" }),
    project: text(
      "use the agents, skills and plugins of this project; the default is the current folder",
      "DIR",
    ),
    trust: bool("let the cases use everything the project brings, trusted or not"),
    keep: bool("keep the folder of each case, and print it"),
    json,
  },
  examples: {
    "rnix test tests/agents": "exits 0 if all cases end as recorded, 1 if one differs",
    "rnix test tests/agents --junit report.xml --trust": "in a pipeline, with a report that it can show",
  },
  notes: [
    "A case is a folder with script.yaml (a replay script with its intent and its outcome), files/ (the project at the start) and expected/ (files as they must be at the end). It is played in a temporary copy, with real tools. `rnix replay UUID --export FILE` writes the script of a recorded run.",
    "Exit codes: 0 all passed, 1 a case differs or can't be played, 64 no case found.",
  ],
  async run(io, flags, [dir = ""]) {
    await refuseInsideRun(io, "test");
    const cases = selected(findCases(absoluteFolder(io, "DIR", dir)), flags.filter);
    const options = {
      project: absoluteFolder(io, "--project", flags.project ?? "."),
      trust: flags.trust,
      keep: flags.keep,
    };
    const junit = ReportFile.named(io, "--junit", flags.junit);
    const onResult = flags.json ? undefined : caseLine(io, styleOf(io, io.stdout));
    const results = await playAll(io, cases, options, flags.jobs ?? JOBS, onResult);
    await junit?.write(junitReport(results));
    const failed = results.filter(({ passed }) => !passed).length;
    print(io, flags, results, () => `${results.length - failed} passed, ${failed} failed\n`);
    return failed === 0 ? EXIT.ok : EXIT.error;
  },
});

function selected(cases: CaseFolder[], filter: string | undefined): CaseFolder[] {
  const found = cases.filter(({ name }) => name.includes(filter ?? ""));
  if (found.length > 0) return found;
  throw usageError(
    `--filter: no case has ${JSON.stringify(filter)} in its name; there are ${plural(cases.length, "case")}`,
  );
}

/** Results in the order of the cases; `onResult` gets each in this order, as soon as it and those before it are there. */
async function playAll(
  io: Io,
  cases: readonly CaseFolder[],
  options: CaseOptions,
  jobs: number,
  onResult: ((result: CaseResult) => void) | undefined,
): Promise<CaseResult[]> {
  const { playCase } = await import("../cases/play-case.ts");
  const records = mkdtempSync(join(tmpdir(), "rnix-cases-"));
  // The records of the cases are not among the user's own runs.
  const env = { ...io.env, XDG_DATA_HOME: records, RNIX_DATA_DIR: undefined };
  try {
    return await withSession(io, { inside: true, env }, async (session) => {
      const results: (CaseResult | undefined)[] = cases.map(() => undefined);
      let printed = 0;
      const left = cases.entries();
      const player = async (): Promise<void> => {
        for (const [at, found] of left) {
          results[at] = await playCase(io, session, found, options);
          for (let next = results[printed]; next !== undefined; next = results[++printed]) onResult?.(next);
        }
      };
      await Promise.all(Array.from({ length: Math.min(jobs, cases.length) }, player));
      return results.flatMap((result) => result ?? []);
    });
  } finally {
    rmSync(records, { recursive: true, force: true });
  }
}

function caseLine(io: Io, style: Style): (result: CaseResult) => void {
  return ({ name, passed, receipt, error, ms, folder, differences }) => {
    const mark = passed ? style.green(style.glyph.ok) : style.red(style.glyph.failed);
    const did = receipt && `${plural(receipt.steps, "step")}, ${plural(receipt.tool_calls, "tool call")}, `;
    io.stdout.write(`${mark} ${printable(name)}  ${style.dim(`${did ?? ""}${formatElapsed(ms)}`)}\n`);
    const notices = passed ? [] : (receipt?.notices ?? []);
    for (const notice of notices)
      io.stdout.write(`${indented(style.yellow(`note: ${printable(notice)}`))}\n`);
    if (error !== null) io.stdout.write(`${indented(printable(error))}\n`);
    if (differences.length > 0) io.stdout.write(`${indented(differencesText(differences, style).trim())}\n`);
    if (folder !== null) io.stdout.write(`  ${folder}\n`);
  };
}

function indented(text: string): string {
  return text.replaceAll(/^(?=.)/gm, "  ");
}

function junitReport(results: readonly CaseResult[]): string {
  const plain: Style = styleOf({ env: { NO_COLOR: "1" } }, { isTTY: false });
  const rows = results.map(({ name, ms, error, differences }) => {
    const message = differences[0]?.message.split("\n")[0];
    const text = differencesText(differences, plain).trim();
    const failure = message === undefined ? null : { kind: "failure" as const, message, text };
    const problem = error === null ? failure : { kind: "error" as const, message: error, text: error };
    return { name, group: "rnix test", ms, problem };
  });
  return junitXml("rnix test", rows);
}
