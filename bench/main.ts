import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ModelServer, type Turn } from "../test/support/model-server/server.ts";
import { cpuOf, interleaved, median, memoryOf, type Timing, timed } from "./measure.ts";

/**
 * `bun bench/main.ts [--json] [--rounds N]`: what Rnix adds to a model's own time, against a scripted model
 * server on loopback that answers at once. Each figure stands beside a floor measured in the same run.
 */
const ROOT = join(import.meta.dir, "..");
const RNIX = join(ROOT, "rnix");
const rounds = Number(flag("--rounds") ?? 15);
const TURNS = 50;

interface Row {
  what: string;
  value: string;
  floor: string;
  ratio: number | null;
  goal: string;
}

const rows: Row[] = [];
/** When the answer to a request of the long run was sent whole, by the request's index. */
const answeredAt = new Map<number, number>();
const work = mkdtempSync(join(tmpdir(), "rnix-bench-"));
try {
  const floors = await compileFloors();
  await benchmark(floors);
} finally {
  rmSync(work, { recursive: true, force: true });
}
report();

async function benchmark(floors: { hello: string; client: string }): Promise<void> {
  const oneTurn = await ModelServer.start(() => ({ text: "done" }));
  const tools = await ModelServer.start((request) => {
    void request.closed.then(() => answeredAt.set(request.index, performance.now()));
    return turnOf(request.assistantMessages);
  });
  try {
    const place = home("warm");
    const env = environment(place, oneTurn.openaiUrl);
    await start(floors, env, place.project);
    await spawns(floors, env, place, oneTurn);
    await longRun(floors, environment(place, tools.openaiUrl), place, tools);
    await together(env, place);
    await memory(env, place);
    await timed([RNIX, "daemon", "stop"], env, place.project);
  } finally {
    await oneTurn.stop();
    await tools.stop();
  }
}

/** Command start: `rnix version`, and `rnix ps` with a running daemon. */
async function start(floors: { hello: string }, env: Record<string, string>, cwd: string): Promise<void> {
  await timed([RNIX, "daemon", "start"], env, cwd);
  const result = await interleaved(rounds, {
    hello: () => timed([floors.hello], env, cwd),
    version: () => timed([RNIX, "version"], env, cwd),
    ps: () => timed([RNIX, "ps"], env, cwd),
  });
  row("rnix version, wall", result.version.wallMs, result.hello.wallMs, "hello", "2×");
  row("rnix version, CPU", result.version.cpuMs, result.hello.cpuMs, "hello", "");
  row("rnix ps with a daemon, wall", result.ps.wallMs, result.hello.wallMs, "hello", "");
  plain("peak memory of rnix version", mib(result.version.peakBytes), mib(result.hello.peakBytes));
}

/** A run of one turn: the daemon running, the daemon cold, and without one. */
async function spawns(
  floors: { client: string },
  env: Record<string, string>,
  place: Home,
  server: ModelServer,
): Promise<void> {
  const spawn = [RNIX, "spawn", "--provider", "openai", "--model", "m", "-q"];
  const pid = await daemonPid(env, place.project);
  const result = await interleaved(rounds, {
    bare: () => timed([floors.client, server.openaiUrl, "m"], env, place.project),
    warm: async () => {
      const before = cpuOf(pid);
      const timing = await timed([...spawn, "go"], env, place.project);
      return { ...timing, extraCpuMs: cpuOf(pid) - before };
    },
    alone: () => timed([...spawn, "--no-daemon", "go"], env, place.project),
  });
  const cold: number[] = [];
  for (let round = 0; round < Math.min(rounds, 5); round++) {
    const other = home(`cold-${round}`);
    const own = environment(other, server.openaiUrl);
    cold.push((await timed([...spawn, "go"], own, other.project)).wallMs);
    await timed([RNIX, "daemon", "stop"], own, other.project);
  }
  row("one-turn spawn, daemon running, wall", result.warm.wallMs, result.bare.wallMs, "bare client", "3×");
  row(
    "one-turn spawn, daemon running, CPU of all parts",
    result.warm.cpuMs,
    result.bare.cpuMs,
    "bare client",
    "3×",
  );
  row("one-turn spawn, daemon cold, wall", median(cold), result.bare.wallMs, "bare client", "");
  row("one-turn spawn, --no-daemon, wall", result.alone.wallMs, result.bare.wallMs, "bare client", "5×");
  row("one-turn spawn, --no-daemon, CPU", result.alone.cpuMs, result.bare.cpuMs, "bare client", "");
  plain("peak memory of the spawn command", mib(result.warm.peakBytes), mib(result.bare.peakBytes));
}

/** A run of 50 tool calls, and the time between a model's answer and the next request within it. */
async function longRun(
  floors: { client: string },
  env: Record<string, string>,
  place: Home,
  server: ModelServer,
): Promise<void> {
  const gaps: { bare: number[][]; rnix: number[][] } = { bare: [], rnix: [] };
  const runs = Math.max(3, Math.min(rounds, 7));
  const measured = (into: number[][], argv: string[]) => async (): Promise<Timing> => {
    const from = server.requests.length;
    const timing = await timed(argv, env, place.project);
    into.push(gapsOf(server, from));
    return timing;
  };
  const result = await interleaved(runs, {
    bare: measured(gaps.bare, [floors.client, server.openaiUrl, "m"]),
    rnix: measured(gaps.rnix, [RNIX, "spawn", "--provider", "openai", "--model", "m", "-q", "go"]),
  });
  const at = (all: number[][], from: number, to: number) => median(all.flatMap((run) => run.slice(from, to)));
  row(`run of ${TURNS} tool calls, wall`, result.rnix.wallMs, result.bare.wallMs, "bare client", "");
  row(
    "answer to next request, all turns",
    at(gaps.rnix, 0, TURNS),
    at(gaps.bare, 0, TURNS),
    "bare client",
    "2.5×",
  );
  row(
    "answer to next request, turns 1 to 10",
    at(gaps.rnix, 0, 10),
    at(gaps.bare, 0, 10),
    "bare client",
    "flat",
  );
  row(
    "answer to next request, turns 41 to 50",
    at(gaps.rnix, 40, 50),
    at(gaps.bare, 40, 50),
    "bare client",
    "flat",
  );
}

async function together(env: Record<string, string>, place: Home): Promise<void> {
  const times: number[] = [];
  for (let round = 0; round < 5; round++) {
    const begin = performance.now();
    const one = [RNIX, "spawn", "--provider", "openai", "--model", "m", "-q", "go"];
    await Promise.all(Array.from({ length: 8 }, () => timed(one, env, place.project)));
    times.push(performance.now() - begin);
  }
  plain("8 spawns at once, wall", `${median(times).toFixed(1)} ms`, "");
}

/** The daemon's memory after 100 runs, and after 100 more. */
async function memory(env: Record<string, string>, place: Home): Promise<void> {
  const pid = await daemonPid(env, place.project);
  const hundred = async (): Promise<number> => {
    for (let run = 0; run < 100; run++) {
      await timed([RNIX, "spawn", "--provider", "openai", "--model", "m", "-q", "go"], env, place.project);
    }
    return memoryOf(pid).now;
  };
  const first = await hundred();
  const second = await hundred();
  plain("daemon memory after 100 runs", mib(first), "under 90 MB");
  plain("daemon memory after 200 runs", mib(second), "not growing");
  plain("daemon memory at its peak", mib(memoryOf(pid).peak), "");
}

// --- the script ------------------------------------------------------------------------------------------

function turnOf(answered: number): Turn {
  if (answered >= TURNS) return { text: "done" };
  return { tool_calls: [{ name: "Bash", input: { command: `echo ${answered}` } }] };
}

/** Ms from the end of each answer to the arrival of the request after it, in one run. */
function gapsOf(server: ModelServer, from: number): number[] {
  return server.requests
    .slice(from + 1)
    .map((request) => request.at - (answeredAt.get(request.index - 1) ?? Number.NaN));
}

// --- places ----------------------------------------------------------------------------------------------

interface Home {
  home: string;
  runtime: string;
  project: string;
}

function home(name: string): Home {
  const place = {
    home: join(work, name, "home"),
    runtime: join(work, name, "run"),
    project: join(work, name, "project"),
  };
  for (const folder of Object.values(place)) mkdirSync(folder, { recursive: true, mode: 0o700 });
  mkdirSync(join(place.project, ".rnix"));
  return place;
}

function environment(place: Home, openai: string): Record<string, string> {
  return {
    PATH: process.env.PATH ?? "/usr/bin:/bin",
    HOME: place.home,
    XDG_RUNTIME_DIR: place.runtime,
    XDG_CONFIG_HOME: join(place.home, ".config"),
    XDG_DATA_HOME: join(place.home, ".local/share"),
    OPENAI_BASE_URL: openai,
    OPENAI_API_KEY: "none",
  };
}

async function daemonPid(env: Record<string, string>, cwd: string): Promise<number> {
  const status: { pid: number } = JSON.parse(
    (await timed([RNIX, "daemon", "status", "--json"], env, cwd)).stdout,
  );
  return status.pid;
}

async function compileFloors(): Promise<{ hello: string; client: string }> {
  const compile = async (name: string): Promise<string> => {
    const outfile = join(work, name);
    const built = await Bun.build({
      entrypoints: [join(import.meta.dir, "floor", `${name}.ts`)],
      compile: { outfile },
      minify: true,
      bytecode: true,
      format: "esm",
      target: "bun",
    });
    if (!built.success) throw new AggregateError(built.logs, `the floor ${name} did not compile`);
    return outfile;
  };
  return { hello: await compile("hello"), client: await compile("client") };
}

// --- printing --------------------------------------------------------------------------------------------

function row(what: string, value: number, floor: number, floorName: string, goal: string): void {
  rows.push({
    what,
    value: `${value.toFixed(1)} ms`,
    floor: `${floor.toFixed(1)} ms (${floorName})`,
    ratio: value / floor,
    goal,
  });
}

function plain(what: string, value: string, floor: string): void {
  rows.push({ what, value, floor, ratio: null, goal: "" });
}

function mib(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

function report(): void {
  if (process.argv.includes("--json")) {
    process.stdout.write(`${JSON.stringify(rows, null, 2)}\n`);
    return;
  }
  const lines = rows.map(
    (r) =>
      `| ${r.what} | ${r.value} | ${r.floor} | ${r.ratio === null ? "" : `${r.ratio.toFixed(2)}×`} | ${r.goal} |`,
  );
  process.stdout.write(
    ["| what | Rnix | floor | ratio | goal |", "|---|---|---|---|---|", ...lines, ""].join("\n"),
  );
}

function flag(name: string): string | undefined {
  const at = process.argv.indexOf(name);
  return at < 0 ? undefined : process.argv[at + 1];
}
