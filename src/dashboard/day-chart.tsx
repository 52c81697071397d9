/** Values of each day as bars that stand on each other: of the latest days with runs. */

import type { PastRun } from "./page-api.ts";

const DAYS = 31;
const HEIGHT = 80;

interface DayChartProps {
  title: string;
  runs: readonly PastRun[];
  /** A class for each value. */
  kinds: readonly string[];
  of(runs: readonly PastRun[]): number[];
  text(value: number): string;
}

export function DayChart({ title, runs, kinds, of, text }: DayChartProps) {
  const byDay = Map.groupBy(runs, ({ created_at_ms }) => dayOf(created_at_ms));
  const days = [...byDay].sort(([a], [b]) => (a < b ? -1 : 1)).slice(-DAYS);
  const bars = days.map(([day, some]) => ({ day, values: of(some) }));
  const most = Math.max(...bars.map(({ values }) => sum(values)));
  if (bars.length === 0 || most <= 0) return null;
  return (
    <figure>
      <figcaption>
        {title} per day, {bars[0]?.day} to {bars.at(-1)?.day}: at most {text(most)}
        {kinds.length > 1 &&
          kinds.map((kind) => (
            <span key={kind}>
              <svg class="key" aria-hidden="true">
                <rect class={kind} />
              </svg>
              {kind}
            </span>
          ))}
      </figcaption>
      <svg
        role="img"
        aria-label={`${title} per day, at most ${text(most)}`}
        viewBox={`0 0 ${bars.length} ${HEIGHT}`}
        preserveAspectRatio="none"
      >
        {bars.flatMap(({ day, values }, x) =>
          values.map((value, i) => {
            const top = (sum(values.slice(0, i + 1)) / most) * HEIGHT;
            return (
              <rect
                key={`${day} ${i}`}
                class={kinds[i]}
                x={x + 0.1}
                y={HEIGHT - top}
                width={0.8}
                height={(value / most) * HEIGHT}
              >
                <title>{`${day}, ${kinds[i]}: ${text(sum(kinds[i] === "p95" ? values : [value]))}`}</title>
              </rect>
            );
          }),
        )}
      </svg>
    </figure>
  );
}

function sum(values: readonly number[]): number {
  return values.reduce((all, value) => all + value, 0);
}

/** In the time zone of the browser. */
function dayOf(ms: number): string {
  const day = new Date(ms);
  return `${day.getFullYear()}-${String(day.getMonth() + 1).padStart(2, "0")}-${String(day.getDate()).padStart(2, "0")}`;
}
