import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { type Figure, time } from "../figure.ts";
import { median, memoryOf, timed } from "../measure.ts";
import type { Place, User } from "../place.ts";

/** Entries that are searched, in files of a hundred. */
const ENTRIES = 100_000;
const PER_FILE = 100;
const QUERIES = 300;
/** Ended runs that are listed. */
const RUNS = [10_000, 100_000];
const PAGE = 50;
const MIB = 1024 * 1024;

/** Indexes the Markdown files of the project's folder `notes`, and times each search in them. */
const PLUGIN = `
import { readdirSync, readFileSync } from "node:fs";
import { definePlugin, defineTool } from "rnix/plugin";

const index = defineTool({
  name: "IndexNotes", description: "Index.", needs: ["search"], input: { type: "object" }, timeoutMs: 300000,
  async run(_input, { search, project }) {
    const begun = performance.now();
    let entries = 0;
    for (const name of readdirSync(project.dir + "/notes")) {
      const lines = readFileSync(project.dir + "/notes/" + name, "utf8").split("\\n").filter(Boolean);
      entries += lines.length;
      await search.put("project", "notes", name, "1", lines.map((text, id) => ({ id: String(id), text })));
    }
    return String((1000 * entries) / (performance.now() - begun));
  },
});
const find = defineTool({
  name: "FindNotes", description: "Find.", needs: ["search"], timeoutMs: 300000,
  input: { type: "object", properties: { queries: { type: "array", items: { type: "string" } } }, required: ["queries"] },
  async run({ queries }, { search }) {
    const times = [];
    for (const text of queries) {
      const begun = performance.now();
      await search.find({ text, collections: ["notes"], limit: 10 });
      times.push(performance.now() - begun);
    }
    return JSON.stringify(times);
  },
});
export default definePlugin({ name: "notes", tools: [index, find] });
`;

/** Recall over many entries beside `rg` over the same files, and pages of listings of many runs. */
export async function recall(place: Place): Promise<Figure[]> {
  const figures = await entries(place);
  for (const count of RUNS) figures.push(...(await listings(place, count)));
  return figures;
}

async function entries(place: Place): Promise<Figure[]> {
  const user = place.user("recall");
  const { cwd } = user.command([]);
  const vocabulary = makeNotes(join(cwd, "notes"));
  mkdirSync(join(cwd, ".rnix/plugins"), { recursive: true });
  writeFileSync(join(cwd, ".rnix/plugins/notes.ts"), PLUGIN);
  await timed(user.rnix("trust", "--yes"));
  const pid = await user.daemon();
  const perSecond = Number(await output(user, "IndexNotes", {}));
  const queries = Array.from({ length: QUERIES }, (_, at) => queryOf(vocabulary, at));
  const times = z.array(z.number()).parse(JSON.parse(await output(user, "FindNotes", { queries })));
  const sorted = times.toSorted((a, b) => a - b);
  const memory = memoryOf(pid).now / MIB;
  const rg = Bun.which("rg");
  const floors: number[] = [];
  for (const query of rg === null ? [] : queries.slice(0, Math.max(3, place.rounds))) {
    const word = query.split(" ")[0] ?? "";
    const argv = ["sh", "-c", 'rg --no-config -i "$1" notes > /dev/null || test $? = 1', "rg", word];
    floors.push((await timed(user.command(argv))).wallMs);
  }
  const floor = floors.length > 0 ? { name: "`rg -i` of one word", value: median(floors) } : undefined;
  const among = `${ENTRIES.toLocaleString("en")} entries`;
  return [
    { what: `entries indexed, from their files`, value: perSecond, unit: "/s" },
    { what: `recall over ${among}, median`, value: median(times), unit: "ms", floor },
    { what: "the same, p95", value: sorted[Math.floor(sorted.length * 0.95)] ?? 0, unit: "ms", goal: 20 },
    { what: "the daemon's memory after it", value: memory, unit: "MiB", goal: 300 },
  ];
}

async function listings(place: Place, count: number): Promise<Figure[]> {
  const user = place.user(`listed-${count}`);
  await timed(user.spawn(place.oneTurn));
  fill(join(user.command([]).cwd, ".rnix/data/steps"), count);
  await user.daemon();
  const first = (await timed(user.rnix("ps", "-a", "--limit", String(PAGE)))).wallMs;
  const times: number[] = [];
  for (let round = 0; round < Math.max(5, place.rounds); round++) {
    for (const flags of [
      [],
      ["--agent", "writer", "--state", "failed"],
      ["--all-projects", "--since", "30d"],
    ])
      times.push((await timed(user.rnix("ps", "-a", "--limit", String(PAGE), ...flags))).wallMs);
  }
  const of = `${count.toLocaleString("en")} runs`;
  return [
    time(`\`rnix ps -a --limit ${PAGE}\` of ${of}, filtered, wall`, median(times)),
    { what: "the same without an index", value: first, unit: "ms" },
  ];
}

/** Entries of 20 to 50 words, some of which are frequent. Returns the words. */
function makeNotes(folder: string): string[] {
  mkdirSync(folder, { recursive: true });
  let seed = 1;
  const random = (): number => {
    seed = (seed * 1_103_515_245 + 12_345) & 0x7fff_ffff;
    return seed / 0x7fff_ffff;
  };
  const parts = [
    "ba",
    "con",
    "fig",
    "ro",
    "ter",
    "mo",
    "lin",
    "sta",
    "ver",
    "pla",
    "que",
    "ra",
    "sig",
    "nal",
    "ho",
  ];
  const part = (): string => parts[Math.floor(random() * parts.length)] ?? "";
  const words = Array.from(
    { length: 40_000 },
    () => part() + part() + part() + (random() < 0.5 ? part() : ""),
  );
  const word = (): string => words[Math.floor(random() ** 3 * words.length)] ?? "";
  for (let file = 0; file < ENTRIES / PER_FILE; file++) {
    const lines = Array.from({ length: PER_FILE }, () => {
      const length = 20 + Math.floor(random() * 30);
      return Array.from({ length }, word).join(" ");
    });
    writeFileSync(join(folder, `${file}.md`), `${lines.join("\n")}\n`);
  }
  return words;
}

/** One word, two words, three words, and a word with a typo, in turn; of all frequencies. */
function queryOf(words: readonly string[], at: number): string {
  const word = (n: number): string =>
    words[Math.floor((((at * 37 + n * 101) % 997) / 997) ** 2 * words.length)] ?? "";
  if (at % 4 === 0) return word(0);
  if (at % 4 === 1) return `${word(0)} ${word(1)}`;
  if (at % 4 === 2) return `${word(0)} ${word(1)} ${word(2)}`;
  return `${word(0).slice(0, 2)}x${word(0).slice(2)} ${word(1)}`;
}

async function output(user: User, tool: string, input: object): Promise<string> {
  const { argv, cwd, env } = user.rnix("call", tool, JSON.stringify(input));
  const child = Bun.spawn(argv, { cwd, env, stdout: "pipe", stderr: "inherit" });
  const text = await new Response(child.stdout).text();
  if ((await child.exited) !== 0) throw new Error(`rnix call ${tool} failed`);
  return text.trim();
}

/** Copies the record of the one run that is there, each with its own UUID and PID. */
function fill(steps: string, count: number): void {
  const [uuid = ""] = readdirSync(steps);
  const record = JSON.parse(readFileSync(join(steps, uuid, "proc-info.json"), "utf8"));
  const agents = ["default", "writer", "coder"];
  for (let pid = 2; pid <= count; pid++) {
    const other = Bun.randomUUIDv7();
    mkdirSync(join(steps, other));
    const own = { ...record, uuid: other, pid, agent: agents[pid % 3], exit_code: pid % 10 === 0 ? 1 : 0 };
    writeFileSync(join(steps, other, "proc-info.json"), JSON.stringify(own));
  }
}
