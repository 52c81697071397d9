/** A value of each step as a curve. Of a long run, each point is the largest of some steps. */

import { useSignal } from "@preact/signals";
import type { Step } from "./page-api.ts";

const POINTS = 400;
const HEIGHT = 80;

interface PlotProps {
  title: string;
  steps: readonly Step[];
  of(step: Step): number | null;
  text(value: number): string;
}

export function Plot({ title, steps, of, text }: PlotProps) {
  const at = useSignal<number | null>(null);
  const size = Math.max(1, Math.ceil(steps.length / POINTS));
  const points: { step: number; value: number }[] = [];
  for (let i = 0; i < steps.length; i += size) {
    const some = steps.slice(i, i + size);
    points.push({ step: some.at(-1)?.step ?? 0, value: Math.max(...some.map((step) => of(step) ?? 0)) });
  }
  const most = Math.max(...points.map(({ value }) => value));
  if (points.length === 0 || most <= 0) return null;
  const last = Math.max(1, points.length - 1);
  const line = points.map(
    ({ value }, i) => `${(i / last) * POINTS},${HEIGHT - (value / most) * (HEIGHT - 2)}`,
  );
  const chosen = at.value === null ? undefined : points[at.value];
  return (
    <figure>
      <figcaption>
        {title}: {chosen ? `step ${chosen.step}: ${text(chosen.value)}` : `at most ${text(most)}`}
      </figcaption>
      <svg
        role="img"
        aria-label={`${title}, at most ${text(most)}`}
        viewBox={`0 0 ${POINTS} ${HEIGHT}`}
        preserveAspectRatio="none"
        onPointerLeave={() => (at.value = null)}
        onPointerMove={({ currentTarget, offsetX }) => {
          at.value = Math.round((offsetX / currentTarget.clientWidth) * last);
        }}
      >
        <polyline points={line.join(" ")} />
      </svg>
    </figure>
  );
}
