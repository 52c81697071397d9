/** One run: what it is and what can be done with it, and a view of it: steps, timeline, calls, files, result, comparison. */

import { useEffect, useMemo } from "preact/hooks";
import { runningMs, stateText } from "../run/group.ts";
import { AskCard } from "./ask-card.tsx";
import { Compare } from "./compare.tsx";
import { Files } from "./files-view.tsx";
import { Actions } from "./now.tsx";
import { asks, live, now } from "./page-api.ts";
import { clock, cost, count, elapsed } from "./page-format.ts";
import { FollowedRun } from "./page-run.ts";
import { Result } from "./result-view.tsx";
import { Steps } from "./steps-view.tsx";
import { Timeline } from "./timeline.tsx";
import { Trace } from "./trace.tsx";
import { UnitStrip } from "./unit-strip.tsx";

/** How often a run that is not live is read again. */
const ENDED_MS = 5_000;

/** In the address, and on the page. */
const VIEWS = {
  steps: "Steps",
  timeline: "Timeline",
  trace: "Syscalls",
  files: "Files",
  result: "Result",
  compare: "Compare",
} as const;

interface RunViewProps {
  uuid: string;
  view: string;
  /** A step, or the UUID of another run. */
  chosen: string | undefined;
}

export function RunView({ uuid, view, chosen }: RunViewProps) {
  const followed = useMemo(() => new FollowedRun(uuid), [uuid]);
  useEffect(() => () => followed.close(), [followed]);
  const row = live.value.get(uuid);
  useEffect(() => {
    followed.renew(row !== undefined);
  }, [followed, row?.steps]);
  useEffect(() => {
    if (row !== undefined) return undefined;
    // It may be resumed, and end, between two changes that the page gets.
    const timer = setInterval(() => !document.hidden && followed.renew(false), ENDED_MS);
    return () => clearInterval(timer);
  }, [followed, row === undefined]);
  const detail = followed.detail.value;
  const run = row ?? detail;
  if (followed.problem.value !== "" && run === null) return <p role="alert">{followed.problem}</p>;
  if (run === null) return <p>…</p>;
  return (
    <>
      <h1 title={run.intent}>{run.workflow?.label ?? run.intent}</h1>
      <p class="facts">
        <span>{run.agent}</span>
        <span>{run.model}</span>
        <span>PID {run.pid}</span>
        <span>{run.project}</span>
        <span>{clock(run.created_at_ms)}</span>
        <span>{elapsed(runningMs(run, now.value))}</span>
        <span>{count(run.tokens_used)} tokens</span>
        <span>{cost(run.cost_usd)}</span>
        <a href={`/api/export?uuid=${uuid}`} download>
          Export as one file
        </a>
      </p>
      <p class="doing" role="status">
        {stateText(run, clock)}
      </p>
      <Actions run={run} group="any" />
      <UnitStrip units={row?.units ?? detail?.all_units ?? []} />
      {asks.value
        .filter((ask) => ask.uuid === uuid)
        .map((ask) => (
          <AskCard key={ask.request_id} ask={ask} />
        ))}
      {detail?.result && (
        <section aria-label="Answer">
          <h2>Answer</h2>
          <pre>{detail.result}</pre>
        </section>
      )}
      <nav class="tabs" aria-label="Of this run">
        {Object.entries(VIEWS).map(([name, title]) => (
          <a key={name} href={`#/run/${uuid}/${name}`} aria-current={name === view ? "page" : undefined}>
            {title}
          </a>
        ))}
      </nav>
      {view === "steps" && <Steps followed={followed} opened={Number(chosen ?? 0)} />}
      {view === "timeline" && <Timeline followed={followed} />}
      {view === "trace" && <Trace uuid={uuid} />}
      {view === "files" && <Files uuid={uuid} />}
      {view === "result" && detail && <Result run={detail} />}
      {view === "compare" && detail && <Compare followed={followed} run={detail} other={chosen} />}
    </>
  );
}
