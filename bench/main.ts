import { cpus, type as systemName, totalmem } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { type Figure, isReached, ratioOf, table } from "./figure.ts";
import { daemonMemory } from "./figures/daemon-memory.ts";
import { dashboard } from "./figures/dashboard.ts";
import { kernelFigures } from "./figures/kernel.ts";
import { lsp } from "./figures/lsp.ts";
import { manyCalls } from "./figures/many-calls.ts";
import { mcp } from "./figures/mcp.ts";
import { oneTurn } from "./figures/one-turn.ts";
import { peers } from "./figures/peers.ts";
import { prompt } from "./figures/prompt.ts";
import { recall } from "./figures/recall.ts";
import { records } from "./figures/records.ts";
import { scarceModel } from "./figures/scarce-model.ts";
import { search } from "./figures/search.ts";
import { start } from "./figures/start.ts";
import { streaming } from "./figures/streaming.ts";
import { terminal } from "./figures/terminal.ts";
import { together } from "./figures/together.ts";
import { toolCalls } from "./figures/tool-calls.ts";
import { top } from "./figures/top.ts";
import { workTree } from "./figures/work-tree.ts";
import { type Place, withPlace } from "./place.ts";

/**
 * What Rnix adds to a model's own time, against a scripted model on loopback that answers at once. Medians,
 * each beside a floor measured in turns with it; bench/README.md says how to read them.
 */
const USAGE = `bun bench/main.ts [--only GROUP]… [--rounds N] [--batches N] [--json FILE] [--rnix PATH]
  --only     start, one-turn, prompt, tool-calls, work-tree, together, streaming, terminal, models, calls, records, search, recall, mcp, lsp, dashboard, top, peers, memory; of the kernel alone:
             syscalls, processes, idle, messages, steps, snapshots
  --rounds   measured rounds of each command, 15 by default
  --batches  hundreds of runs in the memory figure, 2 by default
  --json     write the figures there too; "-" prints them instead of the table
  --rnix     the binary to measure, ./rnix by default
`;

const { values: flags } = parseArgs({
  options: {
    only: { type: "string", multiple: true },
    rounds: { type: "string", default: "15" },
    batches: { type: "string", default: "2" },
    json: { type: "string" },
    rnix: { type: "string", default: join(import.meta.dir, "../rnix") },
    help: { type: "boolean" },
  },
});

const GROUPS: Record<string, (place: Place) => Promise<Figure[]>> = {
  start,
  "one-turn": oneTurn,
  prompt,
  "tool-calls": toolCalls,
  "work-tree": workTree,
  together,
  streaming,
  terminal,
  records,
  search,
  recall,
  mcp,
  dashboard,
  top,
  lsp,
  peers,
  models: scarceModel,
  calls: manyCalls,
  memory: (place) => daemonMemory(place, Number(flags.batches)),
};

/** Of the kernel alone: without a daemon, and without the floors and models that the others stand on. */
const KERNEL: Record<string, readonly string[]> = {
  syscalls: ["syscalls"],
  processes: ["processes"],
  idle: ["idle-recv", "idle-gate", "idle-call"],
  messages: ["messages"],
  steps: ["steps"],
  snapshots: ["snapshots"],
};

const known = [...Object.keys(GROUPS), ...Object.keys(KERNEL)];
const groups = flags.only ?? known;
if (flags.help || !groups.every((name) => known.includes(name))) {
  process.stderr.write(USAGE);
  process.exit(flags.help ? 0 : 64);
}

const figures: Figure[] = [];
const rounds = Number(flags.rounds);
const ofPlace = groups.filter((name) => name in GROUPS);
if (ofPlace.length > 0) {
  await withPlace({ rnix: resolve(flags.rnix), rounds }, async (place) => {
    for (const name of ofPlace) figures.push(...((await GROUPS[name]?.(place)) ?? []));
  });
}
for (const name of groups) figures.push(...(await kernelFigures(KERNEL[name] ?? [], rounds)));

const document = JSON.stringify(
  {
    machine: { cpus: cpus().length, memory_bytes: totalmem(), system: systemName(), bun: Bun.version },
    rounds,
    figures: figures.map((figure) => ({
      ...figure,
      ratio: ratioOf(figure) ?? null,
      reached: isReached(figure) ?? null,
    })),
  },
  null,
  2,
);
if (flags.json !== "-") process.stdout.write(table(figures));
if (flags.json === "-") process.stdout.write(`${document}\n`);
else if (flags.json !== undefined) await Bun.write(flags.json, `${document}\n`);
