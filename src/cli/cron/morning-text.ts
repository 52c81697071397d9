/** Formats the report of `rnix morning`: for a terminal, and as Markdown. */

import { localZone } from "../../lib/time-zone.ts";
import { formatCost, formatCount, oneLine, plural } from "../output/format.ts";
import type { Style } from "../output/style.ts";
import type { MorningReport } from "./morning.ts";
import { instantText, shortTime } from "./when.ts";

type Job = MorningReport["jobs"][number];

/** How the parts are marked. */
interface Form {
  title(text: string): string;
  item(mark: "good" | "bad" | "note", text: string, details?: readonly string[]): string;
  /** Text that is shown as it is. */
  plain(text: string): string;
}

export function terminalText(report: MorningReport, style: Style, columns: number): string {
  const mark = {
    good: style.green(style.glyph.ok),
    bad: style.red(style.glyph.failed),
    note: style.yellow(style.glyph.note),
  };
  return text(report, {
    title: (title) => `\n${style.bold(title)}\n`,
    item: (kind, line, details = []) =>
      [
        `${mark[kind]} ${oneLine(line, columns - 2)}\n`,
        ...details.map((one) => `    ${style.dim(oneLine(one, columns - 4))}\n`),
      ].join(""),
    plain: (line) => line,
  });
}

export function markdownText(report: MorningReport): string {
  const mark = { good: "✅", bad: "❌", note: "⚠️" };
  return text(report, {
    title: (title) => `\n## ${title}\n\n`,
    item: (kind, line, details = []) =>
      [`- ${mark[kind]} ${escaped(line)}\n`, ...details.map((one) => `  - ${escaped(one)}\n`)].join(""),
    plain: escaped,
  });
}

/** Text of models and programs, which must not become markup. */
function escaped(line: string): string {
  return line.replace(/[\\`*_[\]<>|#]/g, "\\$&");
}

function text(report: MorningReport, form: Form): string {
  const { since, runs, tokens_used, cost_usd, jobs, other_runs, interactive, asks, attention } = report;
  const now = Date.parse(report.until);
  const counts = Object.entries(runs).filter(([state, count]) => state === "done" || count > 0);
  const parts = [
    ...counts.map(([state, count]) => `${count} ${state}`),
    `${formatCount(tokens_used)} tokens`,
    ...(cost_usd === null ? [] : [formatCost(cost_usd)]),
  ];
  let all = `${form.plain(`Since ${instantText(since, localZone())}: ${parts.join(", ")}`)}\n`;
  if (asks.length > 0) {
    all += form.title("Waiting for you");
    for (const { agent, project, question, answer } of asks)
      all += form.item("note", `${agent} (${project}) asks: ${question}`, [answer]);
  }
  if (attention.length > 0) {
    all += form.title("Jobs that need you");
    for (const { job, project, state, reason } of attention)
      all += form.item("bad", `${job} (${project}) is ${state}: ${reason}`);
  }
  if (jobs.length > 0) {
    all += form.title("Jobs");
    for (const job of jobs) all += form.item(markOf(job), jobLine(job, now), detailsOf(job, now));
  }
  if (other_runs.length > 0) {
    all += form.title("Other runs");
    for (const { state, agent, project, ended, what, cost_usd: cost, uuid } of other_runs) {
      const parts = [costText(cost), what].filter((part) => part !== "");
      const line = `${shortTime(ended, now)} ${agent} (${project}): ${parts.join("; ")}`;
      const mark = ({ done: "good", failed: "bad", waiting: "note" } as const)[state];
      all += form.item(mark, line, state === "done" ? [] : [`rnix log ${uuid}`]);
    }
  }
  if (interactive.runs > 0) {
    const { runs, failed, tokens_used, cost_usd: cost } = interactive;
    const facts = [
      `${plural(runs, "run")} of yours at a terminal`,
      failed > 0 && `${failed} failed`,
      `${formatCount(tokens_used)} tokens`,
      costText(cost),
    ];
    all += `\n${form.plain(facts.filter(Boolean).join(", "))}\n`;
  }
  if (jobs.length + other_runs.length + interactive.runs === 0) all += `${form.plain("Nothing has run.")}\n`;
  return all;
}

function markOf({ last, counts }: Job): "good" | "bad" | "note" {
  if (last.state === "failed" || last.state === "blocked") return "bad";
  if (last.state === "ran" && !counts.failed && !counts.blocked && !counts.missed) return "good";
  return "note";
}

function jobLine({ job, project, counts, cost_usd, last }: Job, now: number): string {
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const name = project === "" ? job : `${job} (${project})`;
  const what = last.state === "ran" ? last.what : `${last.state}${last.what === "" ? "" : `: ${last.what}`}`;
  const each = all > 1 ? Object.entries(counts).map(([state, count]) => `${count} ${state}`) : [];
  const parts = [each.join(", "), costText(cost_usd), what].filter((part) => part !== "");
  return `${shortTime(last.due, now)} ${name}: ${parts.join("; ")}`;
}

/** Failures before the last time, and the command that shows the last one. */
function detailsOf({ last, failures }: Job, now: number): string[] {
  const earlier = failures
    .filter(({ due }) => due !== last.due)
    .map(({ due, state, reason }) => `${shortTime(due, now)} ${state}: ${reason}`);
  const isBad = last.state === "failed" || last.state === "parked";
  return [...earlier, ...(isBad && last.uuid !== null ? [`rnix log ${last.uuid}`] : [])];
}

function costText(usd: number | null): string {
  return usd === null || usd === 0 ? "" : formatCost(usd);
}
