/** The view Schedules: each job with its next instants, its latest attempts as a strip, and whether it is silent. */

import { now } from "./page-api.ts";
import { clock, elapsed } from "./page-format.ts";
import { useRead } from "./page-read.ts";

export function Jobs() {
  const minute = Math.floor(now.value / 10_000);
  const { found, problem } = useRead("jobs", {}, minute);
  return (
    <>
      <h1>Schedules</h1>
      {problem !== "" && <p role="alert">{problem}</p>}
      {found?.jobs.length === 0 && <p class="empty">There are no jobs: rnix cron add</p>}
      <ul class="runs">
        {found?.jobs.map((job) => (
          <li key={job.id} class={`row ${job.is_silent || job.reason ? "failed" : ""}`}>
            <h2>
              {job.name} <span class="number">{job.state}</span>
            </h2>
            <p class="facts">
              <span>{job.project}</span>
              <span>{JSON.stringify(job.trigger).replace(/["{}]/g, "").replaceAll(",", ", ")}</span>
              {job.next.map((instant) => (
                <span key={instant}>
                  next {clock(Date.parse(instant))}, in {elapsed(Date.parse(instant) - now.value)}
                </span>
              ))}
            </p>
            <p>{job.intent}</p>
            {job.is_silent && <p class="doing">Silent: it was expected every {job.expect_every}.</p>}
            {job.reason && <p class="doing">{job.reason}</p>}
            <p class="strip">
              {job.attempts.map(({ due, state, reason, uuid }) => {
                const text = `${clock(Date.parse(due))}: ${state}${reason ? `, ${reason}` : ""}`;
                const cell = (
                  <span class={`cell ${state}`} title={text}>
                    <span class="hidden">{text}</span>
                  </span>
                );
                return uuid === null ? cell : <a href={`#/run/${uuid}`}>{cell}</a>;
              })}
            </p>
          </li>
        ))}
      </ul>
    </>
  );
}
