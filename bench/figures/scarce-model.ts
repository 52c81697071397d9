import { z } from "zod";
import { firstUserMessage } from "../../test/e2e/support/requests.ts";
import { ModelServer, type RecordedRequest } from "../../test/support/model-server/server.ts";
import { type Figure, time } from "../figure.ts";
import { type Command, timed } from "../measure.ts";
import type { Place } from "../place.ts";

const RUNS = 200;
/** Half of them are the children of one. */
const CHILDREN = 99;
const SINGLE = RUNS - CHILDREN - 1;
/** Requests of each. */
const TURNS = 5;
/** The server takes this many requests at a time, refuses more, and takes this long for each. */
const AT_ONCE = 20;
const THINKS_MS = 50;
/** Clients that spawn at a time. */
const SPAWNERS = 8;
const TREE = "tree";

const Runs = z.array(z.looseObject({ exit_code: z.number().nullable() }));

/** 200 runs at a time of one key, one tree of 100 among them, on a server that takes 20 requests at a time. */
export async function scarceModel(place: Place): Promise<Figure[]> {
  const user = place.user("scarce");
  const model = new ScarceModel(user.rnix("").argv[0] ?? "");
  await using server = await ModelServer.start((request) => model.answer(request));
  const { env } = user.spawn(server);
  user.configure(`live_children: ${CHILDREN}\nmax_steps: unlimited\n`);
  await user.daemon();
  const spawn = (intent: string): Command => {
    const args = ["spawn", "--provider", "openai", "--model", "m", "-q", "--detach", intent];
    return { ...user.rnix(...args), env };
  };
  const listed = async (...flags: string[]) =>
    Runs.parse(JSON.parse((await timed(user.rnix("ps", "--json", ...flags))).stdout));
  await timed(spawn(TREE));
  const intents = Array.from({ length: SINGLE }, (_, index) => `single ${index}`);
  const spawner = async (): Promise<void> => {
    for (let next = intents.pop(); next; next = intents.pop()) await timed(spawn(next));
  };
  await Promise.all(Array.from({ length: SPAWNERS }, spawner));
  await poll(async () => (await listed()).length >= RUNS, "all runs have started");
  model.open();
  await poll(async () => (await listed()).length === 0, "all runs have ended");
  const finished = (await listed("-a")).filter(({ exit_code }) => exit_code === 0).length;
  return model.figures(RUNS - finished);
}

/** Polls at intervals, because each look costs the daemon a request. */
async function poll(condition: () => Promise<boolean>, what: string): Promise<void> {
  const until = performance.now() + POLL_MS;
  while (!(await condition())) {
    if (performance.now() > until) throw new Error(`not within ${POLL_MS} ms: ${what}`);
    await Bun.sleep(100);
  }
}

const POLL_MS = 120_000;

class ScarceModel {
  readonly #rnix: string;
  readonly #gate = Promise.withResolvers<void>();
  readonly #endedAt = new Map<string, number>();
  #openedAt = 0;
  #running = 0;
  #requests = 0;
  #refused = 0;

  constructor(rnix: string) {
    this.#rnix = rnix;
  }

  /** Until then only the tree's root is answered, so that all processes exist at the start. */
  open(): void {
    this.#openedAt = performance.now();
    this.#gate.resolve();
  }

  async answer(request: RecordedRequest) {
    const intent = firstUserMessage(request).trim();
    if (intent === TREE) return this.#root(request);
    this.#requests++;
    if (this.#running >= AT_ONCE) {
      this.#refused++;
      return { fault: { kind: "status", status: 429, message: "too many requests at once" } } as const;
    }
    this.#running++;
    await this.#gate.promise;
    await Bun.sleep(THINKS_MS);
    this.#running--;
    const turn = request.assistantMessages + 1;
    if (turn < TURNS) return { tool_calls: [{ name: "Plan", input: { steps: [`step ${turn}`] } }] };
    this.#endedAt.set(intent, performance.now() - this.#openedAt);
    return { text: "done" };
  }

  figures(unfinished: number): Figure[] {
    const singles = [...this.#endedAt].flatMap(([intent, ms]) => (intent.startsWith("single") ? [ms] : []));
    const slowest = Math.max(...singles);
    const least = ((this.#requests - this.#refused) / AT_ONCE) * THINKS_MS;
    const who = `${RUNS} runs on a server that takes ${AT_ONCE} requests at a time`;
    return [
      { what: `${who}, not finished`, value: unfinished, unit: "runs", goal: 0 },
      { what: `${who}, refused`, value: (this.#refused / this.#requests) * 100, unit: "%", goal: 5 },
      time(`${who}, wall`, Math.max(...this.#endedAt.values()), {
        floor: { name: "the server's own time", value: least },
      }),
      {
        what: `the slowest of ${SINGLE} runs beside a tree of ${CHILDREN + 1}, to the fastest`,
        value: slowest / Math.min(...singles),
        unit: "×",
      },
    ];
  }

  #root({ assistantMessages }: RecordedRequest) {
    if (assistantMessages > 0) return { text: "done" };
    const command = `for i in $(seq ${CHILDREN}); do ${this.#rnix} spawn -q --detach "child $i" > "child-$i"; done
for i in $(seq ${CHILDREN}); do ${this.#rnix} wait "$(grep -oE '[0-9a-f]{8}-[0-9a-f-]{27}' "child-$i")" > /dev/null; done`;
    return { tool_calls: [{ name: "Bash", input: { command } }] };
  }
}
