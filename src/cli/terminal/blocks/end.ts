/** How a run ended: notices, checks, why it did not complete, its receipt; and the command that resumes it. */

import { lastAttempt } from "../../../lib/check-attempts.ts";
import type { Receipt } from "../../../protocol/methods.ts";
import { EXIT } from "../../exit.ts";
import { checkText, receiptText, resumeHint, whyText } from "../../output/end.ts";
import type { Look } from "../look.ts";
import { wrap } from "../width.ts";

export function endLines(receipt: Receipt, columns: number, look: Look): string[] {
  const more = receipt.partial && receipt.result ? " (the text above is not a finished answer)" : "";
  const why = whyText(receipt, look, { more, resume: null });
  const parts = [
    ...lastAttempt(receipt.checks).map((check) => checkText(check, look)),
    ...(why === null ? [] : [why]),
    receiptText(receipt, look),
  ];
  return parts.flatMap((part) => part.split("\n")).flatMap((line) => wrap(line, columns, "  "));
}

/** The command that resumes the run, on a line that the terminal alone may break: it is to be copied. */
export function resumeLine(receipt: Receipt, command: string, columns: number, look: Look): string {
  const [why, shown] =
    receipt.exit_code === EXIT.ok
      ? ["to continue it:", `${command} "${look.mark.ellipsis}"`]
      : resumeHint(receipt, command);
  const gap = why.length + 1 + shown.length > columns ? "\n" : " ";
  return look.dim(`${why}${gap}${shown}`);
}
