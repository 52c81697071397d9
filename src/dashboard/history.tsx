/** The view History: the ended and live runs of all projects, newest first, by agent, end and time. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { stateText } from "./now.tsx";
import { type Run, read } from "./page-api.ts";
import { clock, cost, count, elapsed } from "./page-format.ts";

const PAGE = 200;
const DAY_MS = 24 * 3600_000;
const SPANS = { "": "any time", 1: "a day", 7: "a week", 30: "a month" } as const;
const ENDS = [
  "",
  "completed",
  "failed",
  "check_failed",
  "budget_exceeded",
  "timeout",
  "llm_error",
  "terminated",
  "suspended",
];

interface Found {
  processes: Run[];
  total: number;
}

export function History() {
  const found = useSignal<Found | null>(null);
  const problem = useSignal("");
  const agent = useSignal("");
  const verdict = useSignal("");
  const days = useSignal("");
  const limit = useSignal(PAGE);
  useEffect(() => {
    const since_ms = days.value === "" ? undefined : Date.now() - Number(days.value) * DAY_MS;
    const filter = { agent: agent.value.trim() || undefined, verdict: verdict.value || undefined, since_ms };
    let isLast = true;
    read<Found>("list_all_procs", { all_projects: true, newest: true, limit: limit.value, ...filter }).then(
      (answer) => {
        if (isLast) found.value = { ...answer, processes: answer.processes.toReversed() };
      },
      (error: Error) => {
        problem.value = error.message;
      },
    );
    return () => {
      isLast = false;
    };
  }, [agent.value, verdict.value, days.value, limit.value]);
  const runs = found.value?.processes ?? [];
  const spent = runs.reduce((sum, run) => sum + (run.cost_usd ?? 0), 0);
  return (
    <>
      <h1>History</h1>
      <form class="actions" onSubmit={(event) => event.preventDefault()}>
        <label>
          Agent <input value={agent} onInput={({ currentTarget }) => (agent.value = currentTarget.value)} />
        </label>
        <label>
          End{" "}
          <select value={verdict} onChange={({ currentTarget }) => (verdict.value = currentTarget.value)}>
            {ENDS.map((end) => (
              <option key={end} value={end}>
                {end || "any"}
              </option>
            ))}
          </select>
        </label>
        <label>
          Within{" "}
          <select value={days} onChange={({ currentTarget }) => (days.value = currentTarget.value)}>
            {Object.entries(SPANS).map(([value, title]) => (
              <option key={value} value={value}>
                {title}
              </option>
            ))}
          </select>
        </label>
      </form>
      {problem.value !== "" && <p role="alert">{problem}</p>}
      <p class="facts" role="status">
        <span>
          {runs.length} of {found.value?.total ?? "…"} runs
        </span>
        <span>{count(runs.reduce((sum, run) => sum + run.tokens_used, 0))} tokens</span>
        <span>{cost(spent)}</span>
      </p>
      <ul class="runs">
        {runs.map((run) => (
          <li key={run.uuid}>
            <div class={`row ${run.exit_code === 0 ? "done" : run.ended_at_ms === null ? "" : "failed"}`}>
              <a href={`#/run/${run.uuid}`} class="title">
                {run.workflow?.label ?? run.intent}
              </a>
              <p class="facts">
                <span>{clock(run.created_at_ms)}</span>
                <span>{run.agent}</span>
                <span>{run.project}</span>
                <span>{elapsed(run.elapsed_ms)}</span>
                <span>{count(run.tokens_used)} tokens</span>
                <span>{cost(run.cost_usd)}</span>
              </p>
              <p class="doing">{stateText(run)}</p>
            </div>
          </li>
        ))}
      </ul>
      {found.value !== null && runs.length < found.value.total && (
        <button type="button" onClick={() => (limit.value += PAGE)}>
          Show more
        </button>
      )}
    </>
  );
}
