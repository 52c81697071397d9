import { mkdirSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { ModelServer } from "../../test/support/model-server/server.ts";
import { type Figure, time } from "../figure.ts";
import { median, timed } from "../measure.ts";
import type { Place } from "../place.ts";

const FOLDERS = 2_500;
const FILES_PER_FOLDER = 20;
const FILES = FOLDERS * FILES_PER_FOLDER;
/** One in this many files contains the text that is searched for. */
const RARE = 500;
const WORDS = ["const", "return", "export", "value", "index", "result", "error", "state", "class", "name"];

/** What is searched, as Rnix and as rg are asked for it. */
const SEARCHES = {
  "a word": { input: { pattern: "needleWord", head_limit: 5_000 }, rg: ["needleWord"] },
  "a pattern without a fixed text": {
    input: { pattern: "[a-z]{3}[q-z]\\d", head_limit: 5_000 },
    rg: ["[a-z]{3}[q-z]\\d"],
  },
  "a word in any case": {
    input: { pattern: "needleword", case_insensitive: true, head_limit: 5_000 },
    rg: ["-i", "needleword"],
  },
} as const;

/** Grep over 50,000 files beside `rg` on one core, and how long the daemon lets others wait meanwhile. */
export async function search(place: Place): Promise<Figure[]> {
  const user = place.user("search");
  const { cwd } = user.command([]);
  makeFiles(cwd);
  await user.daemon();
  const socket = join(user.command([]).env.XDG_RUNTIME_DIR ?? "", "rnix/rnix.sock");
  const rg = Bun.which("rg");
  const figures: Figure[] = [];
  const small: number[] = [];
  const waits: number[] = [];
  const waitsOfSmall: number[] = [];
  for (const [what, { input, rg: args }] of Object.entries(SEARCHES)) {
    const walls: number[] = [];
    const floors: number[] = [];
    for (let round = -1; round < Math.max(3, Math.ceil(place.rounds / 3)); round++) {
      if (rg !== null) {
        const argv = ["sh", "-c", 'rg --no-config -j1 -l "$@" . || test $? = 1', "rg", ...args];
        floors.push((await timed(user.command(argv))).wallMs);
      }
      const pings = new Pings(socket);
      walls.push(await grepMs(place, input));
      waits.push(await pings.stop());
      const pingsOfSmall = new Pings(socket);
      small.push(await grepMs(place, { ...input, path: "pkg0/mod0" }));
      waitsOfSmall.push(await pingsOfSmall.stop());
    }
    const floor = floors.length > 0 ? { name: "`rg -j1`", value: median(floors.slice(1)) } : undefined;
    figures.push({
      what: `Grep of ${FILES.toLocaleString("en")} files, ${what}, wall`,
      value: median(walls.slice(1)),
      unit: "ms",
      floor,
      ...(floor && { goal: 3 }),
    });
  }
  return [
    ...figures,
    { what: `Grep of ${FILES_PER_FOLDER} files, wall`, value: median(small), unit: "ms" },
    time("a run that searches 50,000 files: the daemon's slowest answer to a ping", median(waits), {
      goal: 20,
    }),
    { what: "a run that searches 20 files: the same", value: median(waitsOfSmall), unit: "ms" },
  ];
}

/** From the model's call to the request with its result. */
async function grepMs(place: Place, input: object): Promise<number> {
  let asked = 0;
  let answered = 0;
  await using server = await ModelServer.start((request) => {
    if (request.assistantMessages > 0) {
      answered = request.at;
      return { text: "done" };
    }
    void request.closed.then(() => {
      asked = performance.now();
    });
    return { tool_calls: [{ name: "Grep", input: { ...input } }] };
  });
  await timed(place.user("search").spawn(server));
  return answered - asked;
}

/** Asks the daemon again and again for a sign of life: what its thread is busy with for long, a ping waits for. */
class Pings {
  readonly #socket: ReturnType<typeof connect>;
  readonly #stopped = Promise.withResolvers<void>();
  #sentAt = performance.now();
  #slowest = 0;
  #stopping = false;

  constructor(path: string) {
    this.#socket = connect(path);
    this.#socket.on("data", (data) => {
      if (!data.includes("\n")) return;
      this.#slowest = Math.max(this.#slowest, performance.now() - this.#sentAt);
      if (this.#stopping) this.#stopped.resolve();
      else setTimeout(() => this.#ping(), 1);
    });
    this.#ping();
  }

  /** The slowest answer, in ms. */
  async stop(): Promise<number> {
    this.#stopping = true;
    await this.#stopped.promise;
    this.#socket.destroy();
    return this.#slowest;
  }

  #ping(): void {
    this.#sentAt = performance.now();
    this.#socket.write('{"method":"ping","payload":{}}\n');
  }
}

function makeFiles(project: string): void {
  for (let folder = 0; folder < FOLDERS; folder++) {
    const path = join(project, `pkg${folder % 50}`, `mod${folder}`);
    mkdirSync(path, { recursive: true });
    for (let file = 0; file < FILES_PER_FOLDER; file++) {
      const number = folder * FILES_PER_FOLDER + file;
      const lines = Array.from({ length: 10 + (number % 90) }, (_, line) =>
        Array.from({ length: 6 }, (_, word) => WORDS[(number + line * 7 + word * 3) % WORDS.length]).join(
          " ",
        ),
      );
      if (number % RARE === 7) lines.push("  needleWord(here);");
      writeFileSync(join(path, `file${file}.ts`), `${lines.join("\n")}\n`);
    }
  }
}
