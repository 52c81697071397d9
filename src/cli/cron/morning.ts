/** The report of `rnix morning`: what the answer of the daemon means for the user. */

import { basename } from "node:path";
import type { JobInfo, LedgerRow } from "../../plugin/index.ts";
import type { Answers } from "../../server/methods/method-table.ts";
import { oneLine } from "../output/format.ts";
import { answerHint, askedLine } from "../questions/question-text.ts";
import { firstLine, whatOf } from "./rows.ts";

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
