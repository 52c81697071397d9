/** The reports of a run for a pipeline: a summary, JUnit, code quality, and GitHub's annotations. */

import { SyscallError } from "../../plugin/index.ts";
import type { FileChange, Receipt } from "../../protocol/methods.ts";
import { EXIT } from "../exit.ts";
import type { Io, Session } from "../io.ts";
import { isGitHub, type ReportedRun, type ReportFiles, type WriteReports } from "../run-flags.ts";
import { terminalText } from "../system/terminal-text.ts";
import { ReportFile } from "./report-file.ts";

/** The files to write at the end. */
export class Reports {
  readonly #io: Io;
  readonly #files: { [flag in keyof ReportFiles]: ReportFile | undefined };
  /** Of GitHub's step; undefined elsewhere. */
  readonly #step: ReportFile | undefined;
  /** The paths of those that could not be written. */
  readonly #failed: string[] = [];

  /** Fails with INVALID when a file could not be written: a run may cost money, so this is checked before it. */
  constructor(io: Io, files: ReportFiles) {
    this.#io = io;
    const { GITHUB_STEP_SUMMARY: step, RNIX_UNIT: unit } = io.env;
    // The summary of a run's child is not the step's.
    this.#step = isGitHub(io) && step && !unit ? new ReportFile(step) : undefined;
    this.#files = {
      summary: ReportFile.named(io, "--summary", files.summary),
      junit: ReportFile.named(io, "--junit", files.junit),
      "code-quality": ReportFile.named(io, "--code-quality", files["code-quality"]),
    };
  }

  /**
   * Called before the run. Returns the function that writes the reports at its end. It fails with INTERNAL when the run
   * completed and a report could not be written. On GitHub, what the run prints in between is no workflow command: it is
   * the text of models and programs.
   */
  begin(run: Omit<ReportedRun, "receipt" | "changes">): WriteReports {
    const token = crypto.randomUUID();
    if (isGitHub(this.#io)) command(this.#io, `::stop-commands::${token}`);
    return async (receipt, session) => {
      if (isGitHub(this.#io)) command(this.#io, `::${token}::`);
      await this.#write({ ...run, receipt, changes: await changesOf(receipt, session) });
      // The exit code of a run that has failed says more.
      if (this.#failed.length > 0 && receipt.exit_code === EXIT.ok)
        throw new SyscallError("INTERNAL", `the run completed; not written: ${this.#failed.join(", ")}`);
    };
  }

  /** A file that can't be written is named on stderr. */
  async #write(run: ReportedRun): Promise<void> {
    const { summary, junit, "code-quality": quality } = this.#files;
    const [{ problemsOf }, { summaryMarkdown }, { annotations, checkReport, codeQuality }] =
      await Promise.all([import("./problems.ts"), import("./summary.ts"), import("./formats.ts")]);
    const problems = problemsOf(run.receipt, run.cwd);
    const markdown = summaryMarkdown(run);
    if (summary !== undefined && summary.path !== this.#step?.path) await this.#try(summary, markdown);
    if (this.#step) await this.#try(this.#step, markdown, "append");
    if (junit !== undefined) await this.#try(junit, checkReport(run.intent, run.receipt));
    if (quality !== undefined) await this.#try(quality, codeQuality(problems));
    if (!isGitHub(this.#io)) return;
    for (const line of annotations(run.receipt, problems, run.resumeFlags)) command(this.#io, line);
  }

  async #try(file: ReportFile, text: string, how?: "append"): Promise<void> {
    try {
      await file.write(text, how);
    } catch (error) {
      if (!(error instanceof Error && "code" in error)) throw error;
      this.#failed.push(file.path);
      const { notesTo } = await import("../output/notes.ts");
      notesTo(this.#io.stderr).info(`the report ${file.path} could not be written: ${error.message}`);
    }
  }
}

/** Text that `write` prints is inert for the runner. */
function command({ stderr }: Io, line: string): void {
  stderr.writeBytes(new TextEncoder().encode(`${terminalText(line)}\n`));
}

/** The changed lines of each file; null if they can't be had: the report shows the files without them. */
async function changesOf({ uuid }: Receipt, session: Session | null): Promise<readonly FileChange[] | null> {
  if (session === null || uuid === "") return null;
  try {
    const wire = await session.connect();
    return (await wire.request("diff", { uuid, patch: false })).files;
  } catch (error) {
    if (error instanceof SyscallError) return null;
    throw error;
  }
}
