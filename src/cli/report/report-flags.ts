/** The flags of the reports of a run. The reports are loaded only if one is asked for. */

import type { FileChange, Receipt } from "../../protocol/methods.ts";
import { text } from "../flags.ts";
import type { Io, Session } from "../io.ts";

export const REPORT_FLAGS = {
  summary: text("write the end of the run as Markdown; on GitHub the step's summary gets it too", "FILE", {
    file: "write",
  }),
  junit: text("write the run and its checks as a JUnit report", "FILE", { file: "write" }),
  "code-quality": text("write the places that a failed check names as GitLab's code quality report", "FILE", {
    file: "write",
  }),
};

export interface ReportFiles {
  summary: string | undefined;
  junit: string | undefined;
  "code-quality": string | undefined;
}

/** What a report is about. */
export interface ReportedRun {
  intent: string;
  /** The folder of the run, absolute. */
  cwd: string;
  receipt: Receipt;
  /** What the command that resumes the run needs. */
  resumeFlags: readonly string[];
  changes: readonly FileChange[] | null;
}

/** Writes the reports at the end of a run. */
export type WriteReports = (receipt: Receipt, session: Session | null) => Promise<void>;

/** Called before the run. undefined: no report is asked for. */
export async function reportsOf(
  io: Io,
  files: ReportFiles,
  run: Omit<ReportedRun, "receipt" | "changes">,
): Promise<WriteReports | undefined> {
  const { summary, junit, "code-quality": quality } = files;
  if ([summary, junit, quality].every((file) => file === undefined) && !isGitHub(io)) return undefined;
  const { Reports } = await import("./reports.ts");
  return new Reports(io, files).begin(run);
}

export function isGitHub({ env }: Pick<Io, "env">): boolean {
  return env.GITHUB_ACTIONS === "true";
}
