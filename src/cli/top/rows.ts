/** The rows of `rnix top`: runs in groups, as trees or flat, sorted and filtered. Pure. */

import { GROUPS, type Group, groupRuns, runningMs, stateText } from "../../run/group.ts";
import { askedLine } from "../questions/question-text.ts";
import type { Now, TopRun } from "./now.ts";

/** By what the runs of a group are sorted: the largest first. */
export const ORDERS: readonly [name: string, of: (run: TopRun, now: number) => number][] = [
  ["newest", (run) => run.created_at_ms],
  ["cost", (run) => run.cost_usd ?? 0],
  ["tokens", (run) => run.tokens_used],
  ["time", runningMs],
  ["steps", (run) => run.steps],
];

export interface Arrangement {
  /** An index of ORDERS. */
  order: number;
  isReversed: boolean;
  isTree: boolean;
  /** Words that a row must have. */
  filter: string;
  /** UUIDs of runs whose children are hidden. */
  folded: ReadonlySet<string>;
}

export type Row =
  | { kind: "group"; group: Group; title: string; count: number }
  /** `branch`: the lines of the tree. `hidden`: runs below it that are folded. */
  | { kind: "run"; run: TopRun; group: Group; branch: string; hidden: number };

interface Branches {
  branch: string;
  lastBranch: string;
  trunk: string;
}

export function rowsOf(now: Now, by: Arrangement, at: number, glyph: Branches): Row[] {
  const runs = by.isTree ? now.all : flat(now.all);
  const asking = new Set(now.asks.map(({ uuid }) => uuid));
  const { grouped, children } = groupRuns(runs, { asking, isLost: now.isLost });
  const [, key] = ORDERS[by.order] ?? ORDERS[0] ?? ["", () => 0];
  const sign = by.isReversed ? 1 : -1;
  const sorted = (some: readonly TopRun[]): TopRun[] =>
    some.toSorted((a, b) => sign * (key(a, at) - key(b, at)) || b.pid - a.pid);
  const words = by.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const below = (run: TopRun): readonly TopRun[] => (by.isTree ? (children.get(run.uuid) ?? []) : []);
  const fits = (run: TopRun): boolean =>
    words.length === 0 || hasAll(run, now, words) || below(run).some(fits);
  const rows: Row[] = [];
  const add = (run: TopRun, group: Group, branch: string, inner: string): void => {
    const shown = sorted(below(run).filter(fits));
    const isFolded = by.folded.has(run.uuid);
    rows.push({ kind: "run", run, group, branch, hidden: isFolded ? shown.length : 0 });
    if (isFolded) return;
    for (const [i, child] of shown.entries()) {
      const isLast = i === shown.length - 1;
      const next = `${inner}${isLast ? " ".repeat(glyph.trunk.length) : glyph.trunk}`;
      add(child, group, `${inner}${isLast ? glyph.lastBranch : glyph.branch}`, next);
    }
  };
  for (const [group, title] of GROUPS) {
    const roots = sorted((grouped.get(group) ?? []).filter(fits));
    if (roots.length > 0) rows.push({ kind: "group", group, title, count: roots.length });
    for (const run of roots) add(run, group, "", "");
  }
  return rows;
}

/** What the run does, asks, waits for, or how it ended. */
export function doingOf(run: TopRun, now: Now, clock: (ms: number) => string): string {
  const ask = now.askOf(run.uuid);
  return ask ? `asks: ${askedLine(ask, Number.POSITIVE_INFINITY)}` : stateText(run, clock);
}

export function titleOf({ workflow, intent }: TopRun): string {
  return workflow?.label ?? intent;
}

function flat(runs: ReadonlyMap<string, TopRun>): ReadonlyMap<string, TopRun> {
  return new Map(Array.from(runs, ([uuid, run]) => [uuid, { ...run, parent_uuid: null }]));
}

function hasAll(run: TopRun, now: Now, words: readonly string[]): boolean {
  const { pid, uuid, agent, model, project, status } = run;
  const doing = doingOf(run, now, () => "");
  const text = [pid, uuid, agent, model, project, status, titleOf(run), doing].join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}
