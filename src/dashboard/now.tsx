/** The view Now: every run in a group by what it is, the questions first. */

import { computed, signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { SIGPAUSE, SIGRESUME, SIGTERM } from "../lib/signals.ts";
import { GROUPS, type Group, groupRuns, runningMs, stateText } from "../run/group.ts";
import { AskCard } from "./ask-card.tsx";
import { act, asks, left, live, lostSince, now, queues, type Run, read } from "./page-api.ts";
import { clock, cost, count, elapsed } from "./page-format.ts";
import { useAttempt } from "./page-read.ts";
import { UnitStrip } from "./unit-strip.tsx";

const ENDED = 100;

/** Ended runs, read again when a live one goes. */
const ended = signal<readonly Run[]>([]);

const groups = computed(() => {
  const asking = new Set(asks.value.map(({ uuid }) => uuid));
  const all = new Map([...ended.value.map((run) => [run.uuid, run] as const), ...live.value]);
  return groupRuns(all, { asking, isLost: lostSince.value !== null });
});

export function Now() {
  useEffect(() => {
    void read("list_all_procs", { all_projects: true, newest: true, limit: ENDED }).then(({ processes }) => {
      ended.value = processes.filter(({ ended_at_ms }) => ended_at_ms !== null).toReversed();
    });
  }, [left.value]);
  const { grouped, children } = groups.value;
  return (
    <>
      <h1>Now</h1>
      <Queues />
      {asks.value.map((ask) => (
        <AskCard key={ask.request_id} ask={ask} />
      ))}
      {GROUPS.map(([group, title]) => {
        const runs = grouped.get(group) ?? [];
        if (runs.length === 0) return null;
        return (
          <section key={group} aria-label={title}>
            <h2>
              {title} <span class="number">{runs.length}</span>
            </h2>
            <ul class={`runs ${group}`}>
              {runs.map((run) => (
                <Row key={run.uuid} run={run} group={group} childrenOf={(uuid) => children.get(uuid) ?? []} />
              ))}
            </ul>
          </section>
        );
      })}
      {grouped.size === 0 && <p class="empty">Nothing has run yet: rnix spawn "…"</p>}
    </>
  );
}

/** Of the providers that are called now. */
function Queues() {
  return (
    <>
      {queues.value.map(({ provider, running, waiting, at_once, holds }, i) => (
        <p key={i} class="facts">
          <span>{provider}</span>
          <span>
            {running} of {at_once} calls
          </span>
          <span>{waiting} waiting</span>
          {holds.map(({ model, until_ms }) => (
            <span key={model} class="lost">
              {model} on hold for {elapsed(until_ms - now.value)}
            </span>
          ))}
        </p>
      ))}
    </>
  );
}

interface RowProps {
  run: Run;
  group: Group;
  childrenOf(uuid: string): readonly Run[];
}

function Row({ run, group, childrenOf }: RowProps) {
  const since = run.ended_at_ms ?? (run.is_paused ? run.paused_at_ms : run.created_at_ms);
  const below = childrenOf(run.uuid);
  return (
    <li>
      <div class="row">
        <a href={`#/run/${run.uuid}`} class="title">
          {run.workflow?.label ?? run.intent}
        </a>
        <p class="facts">
          <span>{run.agent}</span>
          <span>{run.model}</span>
          <span>step {run.steps}</span>
          <span>{count(run.tokens_used)} tokens</span>
          <span>{cost(run.cost_usd)}</span>
          <span>{elapsed(runningMs(run, now.value))}</span>
          <span title={clock(since)}>since {elapsed(now.value - since)}</span>
        </p>
        <p class="doing">{stateText(run, clock)}</p>
        <UnitStrip units={run.units ?? []} />
        {run.parent_uuid === null && <Actions run={run} group={group} />}
      </div>
      {below.length > 0 && (
        <ul class="runs">
          {below.map((child) => (
            <Row key={child.uuid} run={child} group={group} childrenOf={childrenOf} />
          ))}
        </ul>
      )}
    </li>
  );
}

/** What can be done with a run as it is. A failure is shown beside the buttons. */
export function Actions({ run, group }: { run: Run; group: Group | "any" }) {
  const { problem, attempt } = useAttempt();
  const { uuid } = run;
  const send = (signal: number) => act("signal_tree", { uuid, signal });
  const isLive = run.ended_at_ms === null;
  const isParked = run.status === "suspended";
  if (!isLive && !isParked && group !== "failed") return null;
  const buttons: [title: string, isShown: boolean, work: () => Promise<unknown>][] = [
    ["Pause", isLive && !run.is_paused, () => send(SIGPAUSE)],
    ["Continue", isLive && run.is_paused, () => send(SIGRESUME)],
    ["Suspend", isLive, () => act("suspend", { uuid })],
    ["Resume", !isLive, () => act("resume", { uuid })],
    ["Kill", isLive || isParked, () => send(SIGTERM)],
  ];
  return (
    <div class="actions">
      {buttons.map(
        ([title, isShown, work]) =>
          isShown && (
            <button
              key={title}
              type="button"
              class={title === "Kill" ? "danger" : undefined}
              onClick={() => attempt(work())}
            >
              {title}
            </button>
          ),
      )}
      {isLive && (
        <Line
          label={`Message to ${run.agent}`}
          hint="Message…"
          send={(text) => attempt(act("send_message", { uuid, text }))}
        />
      )}
      {isLive && group === "any" && (
        <>
          <Line
            label="Allow a tool"
            hint="Allow: Bash(git *)"
            send={(tool) => attempt(act("allow", { uuid, tools: [tool] }))}
          />
          <Line
            label="Deny a tool"
            hint="Deny: WebFetch"
            send={(tool) => attempt(act("deny", { uuid, tools: [tool] }))}
          />
        </>
      )}
      {problem.value !== "" && <p role="alert">{problem}</p>}
    </div>
  );
}

/** A line of text that Enter sends. */
function Line({ label, hint, send }: { label: string; hint: string; send(text: string): void }) {
  const text = useSignal("");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (text.value.trim() === "") return;
        send(text.value.trim());
        text.value = "";
      }}
    >
      <input
        aria-label={label}
        placeholder={hint}
        value={text}
        onInput={({ currentTarget }) => (text.value = currentTarget.value)}
      />
    </form>
  );
}
