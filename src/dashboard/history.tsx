/** The view History: the runs of all projects, newest first, by agent, project, end, time and text, with charts per day. */

import { useComputed, useSignal } from "@preact/signals";
import { DayChart } from "./day-chart.tsx";
import { left, type PastRun } from "./page-api.ts";
import { clock, cost, count, duration } from "./page-format.ts";
import { useRead } from "./page-read.ts";
import { Rows } from "./rows.tsx";
import { Select } from "./select.tsx";

const DAY_MS = 24 * 3600_000;
const SPANS = { 1: "a day", 7: "a week", 30: "a month", "": "any time" } as const;
/** Two lines, in CSS pixels. */
const ROW = 52;

/** Runs that are asked for first. */
const FIRST = 200;

export function History() {
  const days = useSignal("30");
  const filter = useSignal({ agent: "", project: "", end: "", text: "", least: 0 });
  /** The text that is looked for in conversations: after Enter. */
  const searched = useSignal("");
  // The same instant until the span changes: it is part of the request.
  const since = useComputed(() => (days.value === "" ? undefined : Date.now() - Number(days.value) * DAY_MS));
  const span = { since_ms: since.value };
  // Some are there at once; all of them may take a second.
  const newest = useRead("history", { ...span, limit: FIRST }, left.value);
  const whole = useRead("history", span, left.value);
  const found = whole.found ?? newest.found;
  const { problem } = whole;
  const search = useRead("search", searched.value === "" ? null : { text: searched.value });
  const hits = new Map(
    searched.value === "" ? [] : (search.found?.hits ?? []).map(({ uuid, snippet }) => [uuid, snippet]),
  );
  const all = found?.runs ?? [];
  const { agent, project, end, text, least } = filter.value;
  const words = text.toLowerCase();
  const runs = all
    .filter(
      (run) =>
        (agent === "" || run.agent === agent) &&
        (project === "" || run.project === project) &&
        (end === "" || endOf(run) === end) &&
        (least === 0 || (run.cost_usd ?? 0) >= least) &&
        (words === "" || run.title.toLowerCase().includes(words) || hits.has(run.uuid)),
    )
    .toReversed();
  const set = (more: Partial<typeof filter.value>): void => {
    filter.value = { ...filter.value, ...more };
  };
  const choice = (name: "agent" | "project" | "end", label: string, of: (run: PastRun) => string) => (
    <Select
      label={label}
      value={filter.value[name]}
      options={[["", "any"], ...[...new Set(all.map(of))].sort()]}
      pick={(value) => set({ [name]: value })}
    />
  );
  return (
    <>
      <h1>History</h1>
      <form
        class="actions"
        onSubmit={(event) => {
          event.preventDefault();
          searched.value = text.trim();
        }}
      >
        {choice("agent", "Agent", (run) => run.agent)}
        {choice("end", "End", endOf)}
        {choice("project", "Project", (run) => run.project)}
        <Select
          label="Within"
          value={days.value}
          options={Object.entries(SPANS)}
          pick={(value) => (days.value = value)}
        />
        <Select
          label="From"
          value={least}
          options={[0, 0.01, 0.1, 1, 10].map((usd) => [usd, `$${usd}`] as const)}
          pick={(value) => set({ least: Number(value) })}
        />
        <label>
          Text{" "}
          <input
            type="search"
            placeholder="Enter: in conversations, too"
            value={text}
            onInput={({ currentTarget }) => set({ text: currentTarget.value })}
          />
        </label>
      </form>
      {(problem || search.problem) && <p role="alert">{problem || search.problem}</p>}
      <p class="facts" role="status">
        <span>
          {runs.length} of {found?.total ?? "…"} runs
        </span>
        <span>{count(runs.reduce((sum, run) => sum + run.tokens_used, 0))} tokens</span>
        <span>{cost(runs.reduce((sum, run) => sum + (run.cost_usd ?? 0), 0))}</span>
        {search.found && search.found.pending > 0 && (
          <span>{search.found.pending} runs are not indexed yet</span>
        )}
      </p>
      <div class="plots">
        <DayChart
          title="Runs"
          runs={runs}
          kinds={["done", "failed", "other"]}
          of={verdictsOf}
          text={String}
        />
        <DayChart
          title="Cost"
          runs={runs}
          kinds={["cost"]}
          of={(some) => [some.reduce((sum, run) => sum + (run.cost_usd ?? 0), 0)]}
          text={cost}
        />
        <DayChart
          title="Duration, p50 and p95"
          runs={runs}
          kinds={["p50", "p95"]}
          of={durationsOf}
          text={duration}
        />
      </div>
      <Rows
        items={runs}
        height={ROW}
        keyOf={({ uuid }) => uuid}
        row={(run) => (
          <div class={`line past ${run.status}`}>
            <a href={`#/run/${run.uuid}`} class="title">
              {run.title}
            </a>
            <span class="facts">
              <span class="doing">{endOf(run)}</span>
              <span>{clock(run.created_at_ms)}</span>
              <span>{duration(run.elapsed_ms)}</span>
              <span>{cost(run.cost_usd)}</span>
              <span>{run.agent}</span>
              <span>{hits.get(run.uuid) ?? run.project}</span>
            </span>
          </div>
        )}
      />
    </>
  );
}

function endOf({ exit_reason, status }: PastRun): string {
  return exit_reason ?? status;
}

function verdictsOf(runs: readonly PastRun[]): number[] {
  const done = runs.filter(({ status }) => status === "done").length;
  const failed = runs.filter(({ status }) => status === "failed").length;
  return [done, failed, runs.length - done - failed];
}

/** The second is what p95 is longer than p50: bars stand on each other. */
function durationsOf(runs: readonly PastRun[]): number[] {
  const sorted = runs.map(({ elapsed_ms }) => elapsed_ms).sort((a, b) => a - b);
  const at = (part: number): number => sorted[Math.ceil(part * sorted.length) - 1] ?? 0;
  return [at(0.5), at(0.95) - at(0.5)];
}
