/** The steps of a run from the newest, and the body of the one that is opened. */

import { count, duration } from "./page-format.ts";
import type { FollowedRun } from "./page-run.ts";
import { Rows } from "./rows.tsx";
import { StepBody } from "./step-body.tsx";

/** `opened`: the number of a step; 0: none. */
export function Steps({ followed, opened }: { followed: FollowedRun; opened: number }) {
  const { uuid, steps } = followed;
  const last = steps.value.at(-1)?.step ?? 0;
  return (
    <>
      <section aria-label="Steps">
        <h2>
          Steps <span class="number">{steps.value.length}</span>
        </h2>
        <Rows
          items={steps.value}
          keyOf={({ step }) => step}
          fromEnd
          row={(step) => (
            <a
              href={opened === step.step ? `#/run/${uuid}/steps` : `#/run/${uuid}/steps/${step.step}`}
              class={`line ${step.has_error ? "failed" : ""}`}
              aria-current={opened === step.step}
            >
              <span class="step">{step.step}</span>
              <span class="did">{step.did}</span>
              <span class="took">{step.duration_ms > 0 ? duration(step.duration_ms) : ""}</span>
              <span class="took">{count(step.token_count)}</span>
            </a>
          )}
        />
      </section>
      {opened > 0 && <StepBody key={opened} uuid={uuid} step={opened} last={last} />}
    </>
  );
}
