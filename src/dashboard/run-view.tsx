/** One run: what it is, its steps from the newest, and the body of a step when it is opened. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { AskCard } from "./ask-card.tsx";
import { Actions, stateText } from "./now.tsx";
import { asks, live, now, type Run, read, type Step } from "./page-api.ts";
import { clock, cost, count, elapsed } from "./page-format.ts";
import { StepBody } from "./step-body.tsx";

/** Of a row, in CSS pixels: rows of one height need no measuring. */
const ROW = 34;
/** Rows beyond the window that are mounted. */
const MORE = 10;
/** Of a run, in one answer. */
const ALL = 10_000;

export function RunView({ uuid }: { uuid: string }) {
  const known = useSignal<Run | null>(null);
  const steps = useSignal<readonly Step[]>([]);
  const problem = useSignal("");
  const opened = useSignal<number | null>(null);
  const row = live.value.get(uuid);
  const at = row?.steps ?? -1;
  useEffect(() => {
    const from = steps.value.at(-1)?.step ?? 0;
    Promise.all([
      read<Run>("show", { uuid }),
      read<{ steps: Step[] }>("list_steps", { uuid, after: from, limit: ALL }),
    ]).then(
      ([run, found]) => {
        known.value = run;
        const last = steps.value.at(-1)?.step ?? 0;
        steps.value = [...steps.value, ...found.steps.filter(({ step }) => step > last)];
      },
      (error: Error) => {
        problem.value = error.message;
      },
    );
  }, [uuid, at, row === undefined]);
  const run = row ?? known.value;
  if (problem.value !== "" && run === null) return <p role="alert">{problem}</p>;
  if (run === null) return <p>…</p>;
  const took = run.ended_at_ms === null && run.elapsed_at_ms ? now.value - run.elapsed_at_ms : run.elapsed_ms;
  return (
    <>
      <h1>{run.workflow?.label ?? run.intent}</h1>
      <p class="facts">
        <span>{run.agent}</span>
        <span>{run.model}</span>
        <span>PID {run.pid}</span>
        <span>{run.project}</span>
        <span>{clock(run.created_at_ms)}</span>
        <span>{elapsed(took)}</span>
        <span>{count(run.tokens_used)} tokens</span>
        <span>{cost(run.cost_usd)}</span>
      </p>
      <p class="doing" role="status">
        {stateText(run)}
      </p>
      <Actions run={run} group="any" />
      {asks.value
        .filter((ask) => ask.uuid === uuid)
        .map((ask) => (
          <AskCard key={ask.request_id} ask={ask} />
        ))}
      {known.value?.result && (
        <section aria-label="Answer">
          <h2>Answer</h2>
          <pre>{known.value.result}</pre>
        </section>
      )}
      <Steps
        steps={steps.value}
        opened={opened.value}
        open={(step) => (opened.value = opened.value === step ? null : step)}
      />
      {opened.value !== null && (
        <StepBody key={opened.value} uuid={uuid} step={opened.value} close={() => (opened.value = null)} />
      )}
    </>
  );
}

interface StepsProps {
  steps: readonly Step[];
  opened: number | null;
  open(step: number): void;
}

/** Only the rows in view are mounted, whatever the number of steps. It begins at the end. */
function Steps({ steps, opened, open }: StepsProps) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  const atEnd = useRef(true);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    height.value = element.clientHeight;
    if (atEnd.current) element.scrollTop = element.scrollHeight;
  }, [steps.length]);
  const first = Math.max(0, Math.floor(top.value / ROW) - MORE);
  const last = Math.min(steps.length, Math.ceil((top.value + height.value) / ROW) + MORE);
  return (
    <section aria-label="Steps">
      <h2>
        Steps <span class="number">{steps.length}</span>
      </h2>
      <div
        class="steps"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls by keys.
        tabIndex={0}
        ref={box}
        onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
          top.value = scrollTop;
          height.value = clientHeight;
          atEnd.current = scrollTop + clientHeight > scrollHeight - ROW;
        }}
      >
        <ol style={{ height: `${steps.length * ROW}px` }}>
          {steps.slice(first, last).map((step, i) => (
            <li key={step.step} style={{ top: `${(first + i) * ROW}px` }}>
              <button
                type="button"
                class={step.has_error ? "failed" : ""}
                aria-expanded={opened === step.step}
                onClick={() => open(step.step)}
              >
                <span class="step">{step.step}</span>
                <span class="did">{step.did}</span>
                <span class="took">{step.duration_ms > 0 ? elapsed(step.duration_ms) : ""}</span>
                <span class="took">{count(step.token_count)}</span>
              </button>
            </li>
          ))}
        </ol>
      </div>
    </section>
  );
}
