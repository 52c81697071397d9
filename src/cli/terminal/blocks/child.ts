/** A sub-agent as one line: agent, intent, what it does now, tokens, time. */

import { formatCount, formatSeconds, oneLine, plural } from "../../output/format.ts";
import type { ChildRun } from "../../transcript/transcript.ts";
import { cutTo, type Look, spinnerAt } from "../look.ts";

interface Place {
  columns: number;
  now: number;
}

/** The sub-agents below a call or the run itself, each with its own below it; at most `rows` lines. */
export function childTree(
  all: readonly ChildRun[],
  roots: readonly ChildRun[],
  { columns, now, rows }: Place & { rows: number },
  look: Look,
): string[] {
  const lines: string[] = [];
  const seen = new Set<string>();
  const walk = (children: readonly ChildRun[], indent: string): void => {
    for (const [index, child] of children.entries()) {
      if (seen.has(child.uuid)) continue;
      seen.add(child.uuid);
      const isLast = index === children.length - 1;
      const branch = isLast ? look.mark.lastBranch : look.mark.branch;
      const head = `${look.dim(`${indent}${branch}`)} `;
      lines.push(head + childLine(child, { columns: columns - Bun.stringWidth(head), now }, look));
      const below = all.filter((one) => one.parent_uuid === child.uuid);
      walk(below, `${indent}${isLast ? " " : look.mark.bar}${" ".repeat(branch.length)}`);
    }
  };
  walk(roots, "  ");
  if (lines.length <= rows) return lines;
  if (rows < 1) return [];
  const hidden = lines.length - rows + 1;
  return [...lines.slice(0, rows - 1), look.dim(`    ${look.mark.ellipsis} ${plural(hidden, "more agent")}`)];
}

export function childLine(child: ChildRun, { columns, now }: Place, look: Look): string {
  const { agent, intent, state, tokens_used, started_at_ms, endedMs } = child;
  const elapsed = (endedMs ?? now) - started_at_ms;
  const use = [
    ...(tokens_used === 0 ? [] : [`${formatCount(tokens_used)} tokens`]),
    formatSeconds(elapsed),
  ].join(look.glyph.dot);
  const mark = {
    running: look.cyan(spinnerAt(look, now)),
    suspended: look.yellow(look.mark.waiting),
    done: look.green(look.mark.done),
    failed: look.red(look.mark.failed),
  }[state];
  const doing = oneLine(state === "running" ? (child.doing?.text ?? "starting") : state, 200);
  const name = cutTo(oneLine(agent, 24), Math.max(6, Math.floor(columns / 4)), look);
  const dot = look.glyph.dot.length;
  const room = columns - 3 - Bun.stringWidth(name) - Bun.stringWidth(use) - 2 * dot;
  const doingWidth = Math.min(Bun.stringWidth(doing), Math.max(10, Math.ceil(room / 2)));
  const task = cutTo(oneLine(intent, 200), room - doingWidth, look);
  const now_ = cutTo(doing, room - Bun.stringWidth(task), look);
  const shown = state === "failed" ? look.red(now_) : now_;
  const parts = [task, shown].filter((part) => part !== "");
  return `${mark} ${look.bold(name)} ${parts.join(look.dim(look.glyph.dot))}${look.dim(look.glyph.dot + use)}`;
}
