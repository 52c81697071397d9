/** `rnix gc`: removes ended runs beyond the retention limits. */

import type { CollectedLine, CollectReport } from "../../protocol/methods.ts";
import { defineCommand } from "../command.ts";
import { bool, json } from "../flags.ts";
import { type Output, refuseInsideRun, withWire } from "../io.ts";
import { formatBytes } from "../output/format.ts";
import { print } from "../output/print.ts";
import type { Style } from "../output/style.ts";
import { table } from "../output/table.ts";

/** The deadline: thousands of folders may be removed. */
const TIMEOUT_MS = 10 * 60_000;

const WHY: Record<CollectedLine["why"], string> = {
  age: "too old",
  runs: "too many",
  size: "too large in all",
  empty: "no record",
};

export default defineCommand({
  about: "Remove ended runs beyond what config.yaml keeps",
  flags: { "dry-run": bool("print what would be removed, and remove nothing"), json },
  examples: {
    "rnix gc --dry-run": "what would be removed, and why",
    "rnix gc": "removes runs of every project, the oldest first",
  },
  notes: [
    "The limits are retention_age, retention_runs and retention_size in ~/.config/rnix/config.yaml; see rnix config. The daemon collects by itself every retention_every.",
    "Live and suspended runs stay. So do the runs they come from, and the children of live or suspended agents.",
  ],
  async run(io, flags) {
    if (!flags["dry-run"]) await refuseInsideRun(io, "gc");
    return withWire(io, async (wire) => {
      const dry_run = flags["dry-run"];
      const report = await wire.request("gc", { dry_run }, { timeoutMs: TIMEOUT_MS });
      const code = print(io, flags, report, (style) => text(report, io.stdout, style));
      for (const { path, message } of report.problems) io.stderr.write(`left alone: ${path}: ${message}\n`);
      return code;
    });
  },
});

function text(report: CollectReport, output: Output, style: Style): string {
  const { collected, runs, bytes, kept, needed, dry_run } = report;
  const rows = table(
    collected,
    [
      { title: "PID", value: ({ pid }) => (pid === null ? "-" : String(pid)) },
      { title: "UUID", value: ({ uuid }) => uuid },
      {
        title: "ENDED",
        value: ({ ended_at_ms: ms }) => (ms === null ? "-" : new Date(ms).toISOString().slice(0, 10)),
      },
      { title: "SIZE", value: (line) => formatBytes(line.bytes), right: true },
      { title: "WHY", value: ({ why }) => WHY[why] },
      { title: "PROJECT", value: ({ project }) => project ?? "-", flexible: true },
    ],
    output,
    style,
  );
  const more = runs > collected.length ? `and ${runs - collected.length} more\n` : "";
  const done = `${runs} runs ${dry_run ? "would be removed" : "removed"}, ${formatBytes(bytes)}; ${kept} stay`;
  const why = needed === 0 ? "" : `; ${needed} of them are live, suspended or needed by such runs`;
  return `${runs === 0 ? "" : rows}${more}${done}${why}\n`;
}
