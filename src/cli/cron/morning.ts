/** The report of `rnix morning`: what the daemon's answer means, for a terminal and as Markdown. */

import { basename } from "node:path";
import { localZone } from "../../lib/time-zone.ts";
import type { JobInfo, LedgerRow } from "../../plugin/index.ts";
import type { Answers } from "../../server/methods/method-table.ts";
import { formatCost, formatCount, oneLine, plural } from "../output/format.ts";
import type { Style } from "../output/style.ts";
import { answerHint, askedLine } from "../questions/question-text.ts";
import { firstLine, whatOf } from "./rows.ts";
import { instantText, shortTime } from "./when.ts";

type Morning = Answers["morning"];
type State = LedgerRow["state"];

const LINE = 300;
/** Failures of one job that are listed, the newest. */
const MAX_FAILURES = 3;

export type MorningReport = ReturnType<typeof morningReport>;

export function morningReport(morning: Morning) {
  const { since_ms, now_ms, jobs, rows, runs, interactive, asks, silent } = morning;
  const byJob = Map.groupBy(rows, ({ job_id }) => job_id);
  const known = new Map(jobs.map((job) => [job.id, job]));
  const jobReports = [...byJob].map(([id, own]) => jobReport(known.get(id), own));
  const others = runs.map(runReport);
  const count = (state: State): number => rows.filter((row) => row.state === state).length;
  const used = [...rows, ...runs, interactive];
  return {
    since: new Date(since_ms).toISOString(),
    until: new Date(now_ms).toISOString(),
    /** Of jobs and others. */
    runs: {
      done: count("ran") + others.filter(({ state }) => state === "done").length,
      failed: count("failed") + others.filter(({ state }) => state === "failed").length,
      waiting: count("parked") + others.filter(({ state }) => state === "waiting").length,
      running: count("running"),
    },
    tokens_used: used.reduce((sum, { tokens_used }) => sum + tokens_used, 0),
    /** null: no price is known. */
    cost_usd: costOf(used),
    /** Jobs that were due, failed ones first. */
    jobs: jobReports.toSorted((a, b) => badness(b) - badness(a)),
    other_runs: others,
    /** Conversations, and runs that a person started at a terminal: only counted. */
    interactive,
    /** Questions that wait for the user. */
    asks: asks.map((ask) => ({
      id: ask.request_id,
      agent: ask.agent,
      project: ask.project,
      question: askedLine(ask, LINE),
      answer: answerHint(ask),
      until: ask.until_ms === null ? null : new Date(ask.until_ms).toISOString(),
    })),
    /** Jobs that don't run as they should. */
    attention: attentionOf(jobs, silent),
  };
}

type JobReport = ReturnType<typeof jobReport>;

function jobReport(job: JobInfo | undefined, rows: readonly LedgerRow[]) {
  const last = rows[rows.length - 1];
  if (last === undefined) throw new Error("a job without rows");
  const counts: Partial<Record<State, number>> = {};
  for (const { state, count = 1 } of rows) counts[state] = (counts[state] ?? 0) + count;
  const failures = rows.filter(({ state }) => state === "failed" || state === "blocked").slice(-MAX_FAILURES);
  return {
    job: last.job,
    project: job === undefined ? "" : basename(job.project),
    counts,
    tokens_used: rows.reduce((sum, { tokens_used }) => sum + tokens_used, 0),
    cost_usd: costOf(rows),
    /** What came of its last time. */
    last: { due: last.due, state: last.state, what: whatOf(last), uuid: last.uuid },
    failures: failures.map((row) => ({
      due: row.due,
      state: row.state,
      reason: whatOf(row),
      uuid: row.uuid,
    })),
  };
}

function runReport(run: Morning["runs"][number]) {
  const { uuid, agent, project, state, exit_code, intent, result, reason, tokens_used, cost_usd } = run;
  const end: "waiting" | "done" | "failed" =
    state === "suspended" ? "waiting" : exit_code === 0 ? "done" : "failed";
  const came = end === "done" ? firstLine(result ?? "") : (reason ?? run.exit_reason ?? "");
  return {
    uuid,
    agent,
    project: basename(project),
    state: end,
    ended: new Date(run.ended_at_ms).toISOString(),
    what: oneLine(`${intent.replaceAll(/\s+/g, " ").slice(0, 60)}${came === "" ? "" : `: ${came}`}`, LINE),
    tokens_used,
    cost_usd,
  };
}

function attentionOf(jobs: readonly JobInfo[], silent: Morning["silent"]) {
  return jobs.flatMap((job) => {
    const { id, name, state, reason, expect_every } = job;
    const project = basename(job.project);
    if (state === "blocked" || state === "paused")
      return { job: name, project, state, reason: oneLine(reason ?? "", LINE) };
    const late = silent.find(({ job_id }) => job_id === id);
    if (!late) return [];
    const since =
      late.last_success === null ? "it has never succeeded" : `no success since ${late.last_success}`;
    const why = `${since}; expected every ${expect_every}`;
    return { job: name, project, state: "silent" as const, reason: why };
  });
}

/** The known costs together. */
function costOf(used: readonly { cost_usd: number | null }[]): number | null {
  const known = used.flatMap(({ cost_usd }) => cost_usd ?? []);
  return known.length === 0 ? null : known.reduce((sum, cost) => sum + cost, 0);
}

function badness({ counts, last }: JobReport): number {
  if (last.state === "failed" || last.state === "blocked") return 3;
  if (last.state === "parked") return 2;
  return counts.failed || counts.blocked || counts.missed ? 1 : 0;
}

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
