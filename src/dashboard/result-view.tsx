/** How a run ended: its verdict, checks, usage, notices, files and children, as its receipt has them. */

import type { ComponentChildren } from "preact";
import { stateText } from "../run/group.ts";
import type { RunDetail } from "./page-api.ts";
import { clock, cost, count, duration } from "./page-format.ts";
import { Text } from "./text-block.tsx";

export function Result({ run }: { run: RunDetail }) {
  const { receipt } = run;
  const facts: [string, ComponentChildren][] = [
    ["End", receipt ? `${receipt.exit_reason} (exit code ${receipt.exit_code})` : stateText(run, clock)],
    ["Agent", run.agent],
    ["Model", `${run.model} of ${run.provider}`],
    ["Steps", run.steps],
    ["Tool calls", run.tool_calls],
    ["Tokens", `${count(run.tokens_used)} (${count(run.usage.cached_tokens)} cached)`],
    ["Cost", cost(run.cost_usd)],
    ["Time", duration(run.elapsed_ms)],
    ["Sandbox", run.sandbox],
    ["Folder", run.cwd],
    ["Files changed", receipt?.files_changed.join(", ") || "none"],
    ["UUID", run.uuid],
  ];
  return (
    <section aria-label="Result">
      <dl>
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {run.error && <p role="alert">{run.error.message}</p>}
      {run.notices.map((notice) => (
        <p key={notice} class="doing">
          {notice}
        </p>
      ))}
      {run.checks.length > 0 && <h2>Checks</h2>}
      {run.checks.map(({ command, exit_code, elapsed_ms = 0, output, attempt = 1 }, i) => (
        <details key={i} class={exit_code === 0 ? "" : "failed"}>
          <summary>
            {exit_code === 0 ? "passed" : `failed (${exit_code ?? "did not run"})`}: {command}{" "}
            <span class="number">
              attempt {attempt}, {duration(elapsed_ms)}
            </span>
          </summary>
          <Text text={output ?? ""} />
        </details>
      ))}
      {run.children.length > 0 && <h2>Agents that it started</h2>}
      <ul>
        {run.children.map(({ uuid, agent, exit_reason, tokens_used }) => (
          <li key={uuid}>
            <a href={`#/run/${uuid}/steps`}>{agent}</a>: {exit_reason}, {count(tokens_used)} tokens
          </li>
        ))}
      </ul>
    </section>
  );
}
