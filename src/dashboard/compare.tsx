/** Two runs side by side, step by step: a fork and its origin, or any two. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type RunDetail, read, type Step } from "./page-api.ts";
import { cost, count, elapsed } from "./page-format.ts";
import type { FollowedRun } from "./page-run.ts";
import { Rows } from "./rows.tsx";

interface CompareProps {
  followed: FollowedRun;
  run: RunDetail;
  /** The UUID of the other run, or its beginning. */
  other: string | undefined;
}

interface Difference {
  kind: string;
  step: number | null;
  message: string;
  recorded: string | null;
  replayed: string | null;
}

export function Compare({ followed, run, other = run.origin_uuid ?? undefined }: CompareProps) {
  const second = useSignal<{ run: RunDetail; steps: Step[] } | null>(null);
  const differences = useSignal<Difference[] | null>(null);
  const problem = useSignal("");
  const wanted = useSignal(other ?? "");
  useEffect(() => {
    second.value = null;
    differences.value = null;
    if (!other) return;
    problem.value = "";
    const failed = (error: Error): void => {
      problem.value = error.message;
    };
    Promise.all([
      read<RunDetail>("show", { uuid: other }),
      read<{ steps: Step[] }>("list_steps", { uuid: other }),
    ]).then(([found, { steps }]) => {
      second.value = { run: found, steps };
      read<{ differences: Difference[] }>("compare_runs", { uuid: found.uuid, replayed: run.uuid }).then(
        (answer) => {
          differences.value = answer.differences;
        },
        failed,
      );
    }, failed);
  }, [other]);
  const mine = followed.steps.value;
  const theirs = second.value?.steps ?? [];
  const most = Math.max(mine.length, theirs.length);
  const pairs = Array.from({ length: most }, (_, i) => ({ at: i, left: theirs[i], right: mine[i] }));
  return (
    <section aria-label="Compare">
      <form
        class="actions"
        onSubmit={(event) => {
          event.preventDefault();
          location.hash = `#/run/${run.uuid}/compare/${wanted.value.trim()}`;
        }}
      >
        <label>
          With the run{" "}
          <input
            placeholder="UUID"
            value={wanted}
            onInput={({ currentTarget }) => (wanted.value = currentTarget.value)}
          />
        </label>
        <button type="submit">Compare</button>
      </form>
      {problem.value !== "" && <p role="alert">{problem}</p>}
      {second.value && (
        <>
          <table>
            <thead>
              <tr>
                <th>Run</th>
                <th>Steps</th>
                <th>Tokens</th>
                <th>Cost</th>
                <th>Time</th>
                <th>End</th>
              </tr>
            </thead>
            <tbody>
              {[second.value.run, run].map((one, i) => (
                <tr key={i}>
                  <th>
                    <a href={`#/run/${one.uuid}/steps`}>
                      {i === 0 ? "left" : "right"}: PID {one.pid}
                    </a>
                  </th>
                  <td>{one.steps}</td>
                  <td>{count(one.tokens_used)}</td>
                  <td>{cost(one.cost_usd)}</td>
                  <td>{elapsed(one.elapsed_ms)}</td>
                  <td>{one.exit_reason ?? one.status}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {differences.value?.length === 0 && <p role="status">No differences.</p>}
          {differences.value?.map((one, i) => (
            <details key={i}>
              <summary>
                {one.step === null ? "" : `step ${one.step}, `}
                {one.kind}: {one.message}
              </summary>
              <div class="pair">
                <pre>{one.recorded}</pre>
                <pre>{one.replayed}</pre>
              </div>
            </details>
          ))}
          <Rows
            items={pairs}
            keyOf={({ at }) => at}
            row={({ at, left, right }) => (
              <div class={`pair line ${left?.did === right?.did ? "" : "differs"}`}>
                <span class="did">
                  {at + 1} {left?.did ?? "–"}
                </span>
                <span class="did">
                  {at + 1} {right?.did ?? "–"}
                </span>
              </div>
            )}
          />
        </>
      )}
    </section>
  );
}
