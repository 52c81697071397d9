/** The groups in which a person sees runs, by what their records have: pure, for the page and the terminal. */

/** In the order in which they are shown. */
export const GROUPS = [
  ["waits", "Waiting for you"],
  ["running", "Running"],
  ["unknown", "Running until the daemon was gone"],
  ["parked", "Parked"],
  ["failed", "Failed"],
  ["done", "Done"],
] as const;

export type Group = (typeof GROUPS)[number][0];

interface GroupedRun {
  uuid: string;
  parent_uuid: string | null;
  status: string;
  ended_at_ms: number | null;
  exit_code: number | null;
  is_paused: boolean;
  suspended: { wake: { on: string } } | null;
}

interface Lookout {
  asking: ReadonlySet<string>;
  /** The daemon is gone: nothing is known of its live runs. */
  isLost: boolean;
}

/** From the record, never from a flag of the client. */
function groupOf(run: GroupedRun, { asking, isLost }: Lookout): Group {
  if (asking.has(run.uuid)) return "waits";
  if (run.status === "suspended") return run.suspended?.wake.on === "answer" ? "waits" : "parked";
  if (run.ended_at_ms === null && isLost) return "unknown";
  if (run.ended_at_ms === null) return run.is_paused ? "parked" : "running";
  return run.exit_code === 0 ? "done" : "failed";
}

/** The roots by their groups, and the children of each run. A root waits for a person when a run below it does. */
export function groupRuns<R extends GroupedRun>(
  runs: ReadonlyMap<string, R>,
  { asking, isLost }: Lookout,
): { grouped: ReadonlyMap<Group, R[]>; children: ReadonlyMap<string, R[]> } {
  const above = new Set(asking);
  for (const uuid of above) {
    const parent = runs.get(uuid)?.parent_uuid;
    if (parent) above.add(parent);
  }
  const all = [...runs.values()];
  const roots = all.filter(({ parent_uuid }) => parent_uuid === null || !runs.has(parent_uuid));
  return {
    grouped: Map.groupBy(roots, (run) => groupOf(run, { asking: above, isLost })),
    children: Map.groupBy(all, ({ parent_uuid }) => parent_uuid ?? ""),
  };
}

interface TimedRun {
  ended_at_ms: number | null;
  is_paused: boolean;
  elapsed_ms: number;
  elapsed_at_ms?: number;
}

/** Running time without pauses: it stands still while the run is paused. */
export function runningMs(run: TimedRun, now: number): number {
  const isAtWork = run.ended_at_ms === null && !run.is_paused;
  return isAtWork && run.elapsed_at_ms ? now - run.elapsed_at_ms : run.elapsed_ms;
}

interface StatedRun {
  status: string;
  ended_at_ms: number | null;
  is_paused: boolean;
  suspended: { reason: string; wake: { on: string; at_ms?: number; until_ms?: number } } | null;
  doing: { text: string } | null;
  error: { message: string } | null;
  exit_reason: string | null;
}

/** What it does, what it waits for, or how it ended. `clock` formats a time. */
export function stateText(run: StatedRun, clock: (ms: number) => string): string {
  if (run.is_paused && run.ended_at_ms === null) return "paused";
  if (run.status === "suspended") {
    const until = run.suspended?.wake.at_ms ?? run.suspended?.wake.until_ms;
    return `${run.suspended?.reason ?? "suspended"}${until === undefined ? "" : `, until ${clock(until)}`}`;
  }
  if (run.ended_at_ms === null) return run.doing?.text ?? run.status;
  return run.error ? `${run.exit_reason}: ${run.error.message}` : (run.exit_reason ?? "");
}
