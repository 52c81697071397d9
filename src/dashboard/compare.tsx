/** Two runs side by side, step by step: a fork and its origin, or any two. */

import { useSignal } from "@preact/signals";
import type { RunDetail } from "./page-api.ts";
import { cost, count, duration } from "./page-format.ts";
import { useRead } from "./page-read.ts";
import type { FollowedRun } from "./page-run.ts";
import { Rows } from "./rows.tsx";

interface CompareProps {
  followed: FollowedRun;
  run: RunDetail;
  /** The UUID of the other run, or its beginning. */
  other: string | undefined;
}

export function Compare({ followed, run, other = run.origin_uuid ?? undefined }: CompareProps) {
  const wanted = useSignal(other ?? "");
  const target = other === undefined ? null : { uuid: other };
  const { found: second, problem } = useRead("show", target);
  const { found: listed } = useRead("list_steps", target);
  const compared = useRead("compare_runs", target && { ...target, replayed: run.uuid });
  const mine = followed.steps.value;
  const theirs = listed?.steps ?? [];
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
      {(problem || compared.problem) && <p role="alert">{problem || compared.problem}</p>}
      {second && (
        <>
          <table>
            <thead>
              <tr>
                {["Run", "Steps", "Tokens", "Cost", "Time", "End"].map((title) => (
                  <th key={title}>{title}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {[second, run].map((one, i) => (
                <tr key={i}>
                  <th>
                    <a href={`#/run/${one.uuid}/steps`}>
                      {i === 0 ? "left" : "right"}: PID {one.pid}
                    </a>
                  </th>
                  <td>{one.steps}</td>
                  <td>{count(one.tokens_used)}</td>
                  <td>{cost(one.cost_usd)}</td>
                  <td>{duration(one.elapsed_ms)}</td>
                  <td>{one.exit_reason ?? one.status}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {compared.found?.differences.length === 0 && <p role="status">No differences.</p>}
          {compared.found?.differences.map((one, i) => (
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
