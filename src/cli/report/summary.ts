/** Writes the end of a run as Markdown, for the summary page of a pipeline. */

import { lastAttempt } from "../../lib/check-attempts.ts";
import type { FileChange, Receipt } from "../../protocol/methods.ts";
import { EXIT } from "../exit.ts";
import { formatCost, formatCount, formatElapsed, plural, printable } from "../output/format.ts";
import { resumeCommand, suspendedLine } from "../output/suspension.ts";

interface SummaryFacts {
  intent: string;
  receipt: Receipt;
  /** What the command that resumes the run needs. */
  resumeFlags: readonly string[];
  /** The changed lines of each file, if they are known. */
  changes: readonly Pick<FileChange, "path" | "added" | "removed">[] | null;
}

/** GitHub refuses a summary of more than 1 MiB. */
const MAX_TEXT = 50_000;
const MAX_FILES = 100;

export function summaryMarkdown({ intent, receipt, resumeFlags, changes }: SummaryFacts): string {
  const parts = [
    `### Rnix: ${verdict(receipt)}`,
    quoted(intent, 2_000),
    ...(receipt.error === null ? [] : [`**${receipt.error.code}**: ${inline(receipt.error.message)}`]),
    factsTable(receipt),
    ...checksPart(receipt),
    ...filesPart(receipt, changes),
    ...personPart(receipt, resumeFlags),
    ...(receipt.result
      ? [`**Answer**${receipt.partial ? " (incomplete)" : ""}`, quoted(receipt.result, MAX_TEXT)]
      : []),
  ];
  return `${parts.join("\n\n")}\n`;
}

function verdict({ exit_code, exit_reason }: Receipt): string {
  if (exit_code === EXIT.ok) return `✅ ${exit_reason}`;
  if (exit_code === EXIT.suspended) return "⏸️ suspended";
  return `❌ ${exit_reason} (exit ${exit_code})`;
}

function factsTable(receipt: Receipt): string {
  const { agent, provider, model, steps, tool_calls, tokens_used, cost_usd, elapsed_ms, uuid, base } =
    receipt;
  return table([
    ["agent", `${agent}, ${provider}/${model}`],
    ...(base === null ? [] : [["base", `${code(base.ref)} (${base.commit.slice(0, 12)})`] as const]),
    ["work", `${plural(steps, "step")}, ${plural(tool_calls, "tool call")}, ${formatElapsed(elapsed_ms)}`],
    ["tokens", `${formatCount(tokens_used)}, cost ${cost_usd === null ? "unknown" : formatCost(cost_usd)}`],
    ["run", `\`${uuid || "none"}\``],
  ]);
}

function checksPart({ checks }: Receipt): string[] {
  const last = lastAttempt(checks);
  if (last.length === 0) return [];
  const rows = last.map(({ command, exit_code, attempt = 1 }) => {
    const nth = attempt > 1 ? ` in attempt ${attempt}` : "";
    const result = exit_code === 0 ? "✅ passed" : `❌ failed (exit ${exit_code ?? "none"})`;
    return [code(command), result + nth] as const;
  });
  const failed = last.find(({ exit_code }) => exit_code !== 0);
  const output = failed?.output?.trim();
  return ["**Checks**", table(rows), ...(output ? [fenced(output)] : [])];
}

function filesPart(
  { files_changed, files_changed_complete }: Receipt,
  changes: SummaryFacts["changes"],
): string[] {
  if (files_changed.length === 0) return [];
  const counts = new Map(changes?.map((change) => [change.path, change]));
  const rows = files_changed.slice(0, MAX_FILES).map((path) => {
    const { added = null, removed = null } = counts.get(path) ?? {};
    return `- ${code(path)}${added === null || removed === null ? "" : ` +${added} −${removed}`}`;
  });
  const more = files_changed.length - rows.length;
  if (more > 0) rows.push(`- … and ${more} more`);
  const head = `**Changed files** (${files_changed.length}${files_changed_complete ? "" : " or more"})`;
  return [head, rows.join("\n")];
}

/** What a person has to do or to know. */
function personPart(
  { uuid, suspended, exit_code, notices, children }: Receipt,
  resumeFlags: readonly string[],
): string[] {
  const resume = resumeCommand(uuid, resumeFlags);
  const lines = [
    ...(exit_code === EXIT.suspended ? [inline(suspendedLine(resume, suspended))] : []),
    ...notices.map(inline),
    ...children
      .filter((child) => child.exit_code !== 0)
      .map(
        (child) =>
          `the child ${inline(child.agent)} ended with ${child.exit_reason ?? "no reason"}: \`${child.uuid}\``,
      ),
  ];
  return lines.length === 0 ? [] : ["**Needs a person**", lines.map((line) => `- ${line}`).join("\n")];
}

function table(rows: readonly (readonly [string, string])[]): string {
  return [
    "| | |",
    "|---|---|",
    ...rows.map(([name, value]) => `| ${name} | ${value.replaceAll("|", "\\|")} |`),
  ].join("\n");
}

/** Text of a model or a program as one line that is no markup. */
function inline(text: string): string {
  const line = printable(text)
    .replaceAll(/\s+/g, " ")
    .replaceAll(/[\\`*_[\]<>#|!]/g, "\\$&");
  return withoutAddresses(line);
}

/** No address becomes a link by itself, and no text is a mention: `@user`, `#12`, `!12`. */
function withoutAddresses(text: string): string {
  return text
    .replaceAll("://", ":\\//")
    .replaceAll(/www\./gi, "$&\u200b")
    .replaceAll(/(?:@|[#!](?=\d)|\bGH-(?=\d))/gi, "$&\u200b");
}

/** A fence with the language that follows it. */
const FENCE = /^((?:[\s>*+-]|\d+[.)])*(?:`{3,}|~{3,}))(?=[^\S\n]*[^\s`~][^`\n]*$)/gm;

/**
 * No link, picture or definition of one: its reader's browser would ask the address, and a text could hide where it leads.
 * Code has no language: of some (`mermaid`), pages draw diagrams with links and pictures.
 */
function inert(text: string): string {
  const plain = text.replaceAll(FENCE, "$1text ");
  return withoutAddresses(plain.replaceAll(/\](?=\\*[([:])/g, "] ").replaceAll(/</g, "&lt;"));
}

function code(text: string): string {
  const line = printable(text).replaceAll(/\s+/g, " ");
  const ticks = "`".repeat(longestTicks(line) + 1);
  return ticks.length > 1 ? `${ticks} ${line} ${ticks}` : `\`${line}\``;
}

function fenced(text: string): string {
  const fence = "`".repeat(Math.max(3, longestTicks(text) + 1));
  return `${fence}\n${printable(text).slice(-MAX_TEXT)}\n${fence}`;
}

function longestTicks(text: string): number {
  return Math.max(0, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
}

/** As a quotation: its Markdown is shown as such, none of it leaves the quotation, and none of it is a link. */
function quoted(text: string, most: number): string {
  const shown =
    text.length > most ? `${text.slice(0, most)}\n\n… (${text.length - most} more characters)` : text;
  return inert(printable(shown)).trim().replaceAll(/^/gm, "> ");
}
