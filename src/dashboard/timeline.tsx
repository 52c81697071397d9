/** The timeline of a run: its model calls, tool calls, pauses, children and units as bars, and plots per step. */

import { useComputed, useSignal } from "@preact/signals";
import type { StoryLine } from "../protocol/methods.ts";
import { now } from "./page-api.ts";
import { clock, cost, count, duration } from "./page-format.ts";
import { type FollowedRun, isLive } from "./page-run.ts";
import { Plot } from "./plot.tsx";
import { Select } from "./select.tsx";

/** A stretch of time in a lane. */
interface Bar {
  from: number;
  to: number;
  title: string;
  kind: string;
  step?: number;
}

interface Lane {
  name: string;
  bars: Bar[];
}

/** Of the drawing, in its own units. */
const WIDTH = 1000;
const HEIGHT = 16;
const SPANS = [20, 100, 200];

export function Timeline({ followed }: { followed: FollowedRun }) {
  const latest = useSignal(100);
  const { uuid, steps, events, loadedAfter } = followed;
  const lanes = useComputed(() => lanesOf(followed, latest.value));
  const bars = lanes.value.flatMap((lane) => lane.bars);
  const from = Math.min(...bars.map((bar) => bar.from));
  const to = Math.max(...bars.map((bar) => bar.to));
  return (
    <section aria-label="Timeline">
      <form class="actions" onSubmit={(event) => event.preventDefault()}>
        <Select
          label="Steps"
          value={latest.value}
          options={[...SPANS.map((span) => [span, `the last ${span}`] as const), [1e9, "all"]]}
          pick={(value) => {
            latest.value = Number(value);
            if (latest.value > steps.value.length - loadedAfter.value && loadedAfter.value > 0)
              followed.load(0);
          }}
        />
      </form>
      {events.value.length === 0 && <p>No events yet.</p>}
      {bars.length > 0 && (
        <p class="facts">
          <span>{clock(from)}</span>
          <span>{duration(to - from)} in all</span>
        </p>
      )}
      {lanes.value.map((lane) => (
        <LaneRow key={lane.name} lane={lane} from={from} to={to} uuid={uuid} />
      ))}
      <div class="plots">
        <Plot title="Tokens of each step" steps={steps.value} of={(step) => step.token_count} text={count} />
        <Plot title="Context of each step" steps={steps.value} of={(step) => step.context} text={count} />
        <Plot title="Cost so far" steps={steps.value} of={(step) => step.cost_usd} text={cost} />
      </div>
    </section>
  );
}

function LaneRow({ lane, from, to, uuid }: { lane: Lane; from: number; to: number; uuid: string }) {
  const scale = WIDTH / Math.max(1, to - from);
  const rows = stacked(lane.bars).map((row) => visible(row, 1 / scale));
  const total = lane.bars.reduce((sum, bar) => sum + bar.to - bar.from, 0);
  return (
    <div class="lane">
      <p>
        {lane.name} <span class="number">{duration(total)}</span>
      </p>
      <svg
        role="img"
        aria-label={`${lane.name}: ${lane.bars.length}, ${duration(total)}`}
        viewBox={`0 0 ${WIDTH} ${rows.length * HEIGHT}`}
        preserveAspectRatio="none"
        // By keys, the list of steps opens them.
        onPointerUp={({ target }) => {
          const step = target instanceof SVGElement ? target.dataset.step : undefined;
          if (step) location.hash = `#/run/${uuid}/steps/${step}`;
        }}
        style={{ height: `${rows.length * HEIGHT}px` }}
      >
        {rows.flatMap((row, y) =>
          row.map((bar, i) => (
            <rect
              key={`${y} ${i}`}
              class={bar.kind}
              data-step={bar.step}
              x={(bar.from - from) * scale}
              y={y * HEIGHT + 1}
              width={Math.max(2, (bar.to - bar.from) * scale)}
              height={HEIGHT - 2}
            >
              <title>{`${bar.title}, ${duration(bar.to - bar.from)}`}</title>
            </rect>
          )),
        )}
      </svg>
    </div>
  );
}

/** Bars that overlap are in rows of their own, at most eight. */
function stacked(bars: readonly Bar[]): Bar[][] {
  const rows: Bar[][] = [];
  for (const bar of bars.toSorted((a, b) => a.from - b.from)) {
    const free = rows.find((row) => (row.at(-1)?.to ?? 0) <= bar.from);
    if (free) free.push(bar);
    else if (rows.length < 8) rows.push([bar]);
    else rows.at(-1)?.push(bar);
  }
  return rows;
}

/** Without bars that begin within `ms` of one of their kind: they would be drawn upon it. */
function visible(row: readonly Bar[], ms: number): Bar[] {
  const shown: Bar[] = [];
  for (const bar of row) {
    const last = shown.at(-1);
    if (last?.kind === bar.kind && bar.from - last.from < ms) last.to = Math.max(last.to, bar.to);
    else shown.push({ ...bar });
  }
  return shown;
}

function lanesOf({ steps, events, detail, children }: FollowedRun, latest: number): Lane[] {
  const run = detail.value;
  if (run === null) return [];
  const first = Math.max(1, (steps.value.at(-1)?.step ?? 0) - latest + 1);
  const shown = events.value.filter(
    ({ step, ts }) => ts !== undefined && (step === undefined || step >= first),
  );
  const begins = Math.min(...shown.filter(({ step }) => step !== undefined).map(timeOf));
  const end = run.ended_at_ms ?? now.value;
  const lanes: Lane[] = [
    { name: "Model", bars: modelBars(shown, end) },
    { name: "Calls", bars: callBars(shown, end) },
    { name: "Paused", bars: pauseBars(shown, isLive(run) ? end : undefined) },
    {
      name: "Children",
      bars: children.value.map(({ intent, agent, created_at_ms, ended_at_ms, exit_code }) => ({
        from: created_at_ms,
        to: ended_at_ms ?? end,
        title: `${agent}: ${intent}`,
        kind: exit_code ? "bad" : "child",
      })),
    },
    {
      name: "Units",
      bars: (run.all_units ?? []).map(({ kind, description, started_at, ended_at, status }) => ({
        from: Date.parse(started_at),
        to: ended_at === null ? end : Date.parse(ended_at),
        title: `${kind} ${description}`,
        kind: status === "failed" ? "bad" : "unit-bar",
      })),
    },
  ];
  const shortened = (bars: readonly Bar[]): Bar[] =>
    bars.filter(({ to }) => to >= begins).map((bar) => ({ ...bar, from: Math.max(bar.from, begins) }));
  return lanes
    .map(({ name, bars }) => ({ name, bars: shortened(bars) }))
    .filter(({ bars }) => bars.length > 0);
}

function timeOf({ ts = "" }: StoryLine): number {
  return Date.parse(ts);
}

const AFTER_ANSWER = new Set(["call_start", "answer", "state"]);

/** A step begins with its request: the answer is there when its first call starts, or else when the next step begins. */
function modelBars(events: readonly StoryLine[], end: number): Bar[] {
  return events.flatMap((event, i) => {
    if (event.t !== "answer") return [];
    let at = i + 1;
    while (at < events.length && !AFTER_ANSWER.has(events[at]?.t ?? "")) at++;
    const next = events[at];
    const { step = 0, title = "", tokens = 0 } = event;
    const text = `step ${step}: ${count(tokens)} tokens ${title}`;
    return [{ from: timeOf(event), to: next ? timeOf(next) : end, step, kind: "model", title: text }];
  });
}

function callBars(events: readonly StoryLine[], end: number): Bar[] {
  const ends = new Map(
    events.flatMap((one) => (one.t === "call_end" ? [[`${one.step} ${one.id}`, one]] : [])),
  );
  return events.flatMap((event) => {
    if (event.t !== "call_start") return [];
    const { step, id, title = "" } = event;
    const ended = ends.get(`${step} ${id}`);
    const kind = ended && ended.status !== "done" ? "bad" : "call";
    return [{ from: timeOf(event), to: ended ? timeOf(ended) : end, step, kind, title }];
  });
}

/** `end`: of a live run. */
function pauseBars(events: readonly StoryLine[], end: number | undefined): Bar[] {
  const states = events.filter(({ t }) => t === "state");
  return states.flatMap((event, i) => {
    if (event.status !== "paused" && event.status !== "suspended") return [];
    const next = states[i + 1];
    const to = next ? timeOf(next) : end;
    return to === undefined ? [] : [{ from: timeOf(event), to, kind: "pause", title: event.status }];
  });
}
