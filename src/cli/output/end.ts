/** Formats how a run ended: for the end of its command and of its log. */

import { lastAttempt } from "../../lib/check-attempts.ts";
import type { Receipt } from "../../protocol/methods.ts";
import { EXIT } from "../exit.ts";
import { formatCost, formatCount, formatElapsed, oneLine, plural, printable } from "./format.ts";
import type { Style } from "./style.ts";
import { resumeCommand, suspendedLine, suspendedText } from "./suspension.ts";

export type End = Omit<Receipt, "result" | "output">;

/** A check, and the end of its output if it failed. */
export function checkText(check: Receipt["checks"][number], style: Style): string {
  const { command, exit_code, output, attempt = 1 } = check;
  const passed = exit_code === 0;
  const nth = attempt > 1 ? ` in attempt ${attempt}` : "";
  const line = `check ${oneLine(command, 100)}: ${passed ? "passed" : `failed (exit ${exit_code ?? "none"})`}${nth}`;
  if (passed) return style.green(line);
  const shown = output ? `\n${style.dim(`    ${printable(output).trim().replaceAll("\n", "\n    ")}`)}` : "";
  return style.red(line) + shown;
}

/**
 * Why a run did not complete, and the command that resumes it. null for a completed one, and for one that was suspended
 * without more to say. `resume` is null where the command is shown elsewhere.
 */
export function whyText(
  end: End,
  style: Style,
  { more = "", resume = `rnix resume ${end.uuid}` }: { more?: string; resume?: string | null } = {},
): string | null {
  if (end.exit_code === EXIT.ok) return null;
  if (end.exit_code === EXIT.suspended) {
    const text = resume === null ? suspendedText(end.suspended) : suspendedLine(resume, end.suspended);
    return text === null ? null : style.yellow(printable(text));
  }
  const why = end.error === null ? "" : `: ${printable(end.error.message)}`;
  const failed = style.red(`${style.glyph.failed} ${end.exit_reason} (exit ${end.exit_code})${why}${more}`);
  // A recording that came to its end, or differs, answers no better later.
  const mayAnswerLater = end.exit_reason === "llm_error" && end.provider !== "replay";
  return mayAnswerLater && resume !== null
    ? `${failed}\n${resumeHint(end, resume, "later").join(" ")}`
    : failed;
}

/** What a command does for a run that did not complete, and the command. A model that does not exist fails again. */
export function resumeHint({ exit_reason, error }: End, command: string, later = ""): [string, string] {
  const lacksModel = exit_reason === "llm_error" && error?.code === "NOT_FOUND";
  if (lacksModel) return ["to resume it with another model:", `${command} --model MODEL`];
  return [`to resume it${later && ` ${later}`}:`, command];
}

const UNITS_WERE = { wait: "waited for", park: "suspended for", kill: "ended" } as const;

/** "completed · 3 steps · 2 tool calls · 1.2k tokens · $0.01 · 2.1s · sandbox none". */
export function receiptText(end: End, style: Style): string {
  const { units_at_end: units } = end;
  const parts = [
    end.exit_reason,
    plural(end.steps, "step"),
    plural(end.tool_calls, "tool call"),
    `${formatCount(end.tokens_used)} tokens`,
    ...(end.cost_usd === null ? [] : [formatCost(end.cost_usd)]),
    formatElapsed(end.elapsed_ms),
    `sandbox ${end.sandbox}`,
    ...(units ? [`${UNITS_WERE[units.on_units]} ${plural(units.ids.length, "unit")}`] : []),
    ...(end.files_changed.length === 0 ? [] : [`changed ${oneLine(end.files_changed.join(", "), 200)}`]),
  ];
  const done = end.exit_code === EXIT.ok ? `${style.glyph.ok} ` : "";
  return style.dim(`${done}${parts.join(style.glyph.dot)}`);
}

/** All of it, with the notices of the run: the end of its log. */
export function endText(end: End, style: Style): string {
  const lines = [
    ...end.notices.map((notice) => style.yellow(`note: ${printable(notice)}`)),
    // Earlier attempts were shown when they failed.
    ...lastAttempt(end.checks).map((check) => checkText(check, style)),
    whyText(end, style),
    receiptText(end, style),
  ];
  return lines.flatMap((line) => (line === null ? [] : [`${line}\n`])).join("");
}

/** The last lines of a run's command. A line that is not progress is printed with -q, too. */
export function endLines(
  receipt: Receipt,
  style: Style,
  resumeFlags: readonly string[] = [],
): { text: string; isProgress: boolean }[] {
  const more = receipt.partial && receipt.result ? " (the text above is not a finished answer)" : "";
  const why = whyText(receipt, style, { more, resume: resumeCommand(receipt.uuid, resumeFlags) });
  return [
    ...lastAttempt(receipt.checks).map((check) => ({
      text: checkText(check, style),
      isProgress: check.exit_code === 0,
    })),
    ...(why === null ? [] : [{ text: why, isProgress: false }]),
    { text: receiptText(receipt, style), isProgress: true },
  ];
}
