/** How a run ended: notices, checks, why it did not complete, its receipt, and the command that resumes it. */

import { lastAttempt } from "../../../lib/check-attempts.ts";
import type { Receipt } from "../../../protocol/methods.ts";
import { EXIT } from "../../exit.ts";
import { checkText, receiptText, whyText } from "../../output/end.ts";
import type { Look } from "../look.ts";
import { wrap } from "../width.ts";

/** `resume`: the command that resumes this run, as the user would type it here. null: it can't be resumed. */
export function endLines(
  receipt: Receipt,
  { columns, resume }: { columns: number; resume: string | null },
  look: Look,
): string[] {
  const partial = receipt.partial && receipt.result ? " (the text above is not a finished answer)" : "";
  const why = whyText(receipt, look, { more: partial, resume: resume ?? undefined });
  const parts = [
    ...lastAttempt(receipt.checks).map((check) => checkText(check, look)),
    ...(why === null ? [] : [why]),
    receiptText(receipt, look),
    // The reason of a suspended run has the command already.
    ...(resume === null || why?.includes(resume)
      ? []
      : [look.dim(resumeText(receipt, resume, columns, look))]),
  ];
  return parts.flatMap((part) => part.split("\n")).flatMap((line) => wrap(line, columns, "  "));
}

/** The command stands on a line of its own where it would be broken: it is to be copied. */
function resumeText({ exit_code }: Receipt, resume: string, columns: number, look: Look): string {
  const isDone = exit_code === EXIT.ok;
  const command = isDone ? `${resume} "${look.mark.ellipsis}"` : resume;
  const why = isDone ? "to continue it:" : "to resume it:";
  const gap = why.length + 1 + command.length > columns ? "\n" : " ";
  return `${why}${gap}${command}`;
}
