/** Rnix beside codex and pi on the same scripted model: one turn cold, a long answer, memory; and agents that wait. */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { RawClient } from "../../test/e2e/support/wire.ts";
import type { Figure } from "../figure.ts";
import { type Command, interleaved, memoryOf, timed } from "../measure.ts";
import type { Place, User } from "../place.ts";

const PIECES = 2_000;
const AGENTS = 3_000;
/** Clients that spawn at a time. */
const CLIENTS = 16;
/** Two looks of the daemon at its own work, and a little more. */
const REST_MS = 125_000;
const LONG = "say many words";

/** The peers are those on the PATH: `npm install @openai/codex @earendil-works/pi-coding-agent`. */
export async function peers(place: Place): Promise<Figure[]> {
  using model = new PeerModel();
  return [...(await besides(place, model)), ...(await waiting(place, model))];
}

async function besides(place: Place, model: PeerModel): Promise<Figure[]> {
  const user = place.user("peers");
  const others: Record<string, (intent: string) => Command> = { codex: codexOf, pi: piOf };
  const figures: Figure[] = [];
  for (const [name, commandOf] of Object.entries(others)) {
    if (Bun.which(name) === null) {
      process.stderr.write(`peers: ${name} is not on the PATH, so nothing is compared with it\n`);
      continue;
    }
    const theirs = (intent: string): Command => commandOf.call(undefined, intent);
    const took = await interleaved(Math.min(place.rounds, 7), {
      cold: async () => {
        await user.stopDaemon();
        return timed(ours(user, model, "go"));
      },
      theirs: () => timed(withHome(user, model, theirs("go"))),
      long: () => user.timedWithDaemon(ours(user, model, LONG)),
      theirLong: () => timed(withHome(user, model, theirs(LONG))),
    });
    const daemon = await user.daemon();
    const own = await anonymousPeak(ours(user, model, LONG), [daemon]);
    const peer = await anonymousPeak(withHome(user, model, theirs(LONG)), []);
    const floor = (value: number) => ({ name, value });
    figures.push(
      ...[
        {
          what: "one turn, daemon cold, wall",
          value: took.cold.wallMs,
          unit: "ms",
          floor: floor(took.theirs.wallMs),
          goal: 0.8,
        } as const,
        {
          what: `stream of ${PIECES} pieces, CPU of all parts`,
          value: took.long.cpuMs,
          unit: "ms",
          floor: floor(took.theirLong.cpuMs),
          goal: 0.9,
        } as const,
        {
          what: "anonymous memory of all parts in it",
          value: own / 2 ** 20,
          unit: "MiB",
          floor: floor(peer / 2 ** 20),
        } as const,
      ],
    );
  }
  return figures;
}

/** Agents that wait for the first answer of their model, in one daemon. */
async function waiting(place: Place, model: PeerModel): Promise<Figure[]> {
  const user = place.user("waiting");
  user.configure("live_processes: unlimited\n");
  const { env, cwd } = ours(user, model, "wait");
  const daemon = await user.daemon();
  const socket = join(env.XDG_RUNTIME_DIR ?? "", "rnix", "rnix.sock");
  const clients = await Promise.all(Array.from({ length: CLIENTS }, () => RawClient.connect(socket)));
  const before = anonymousOf(daemon);
  const began = performance.now();
  let next = 0;
  await Promise.all(
    clients.map(async (client) => {
      while (next < AGENTS) {
        const payload = { intent: `wait ${next++}`, cwd, env, provider: "openai", model: "m", detach: true };
        const { error } = await client.ask("spawn", payload);
        if (error) throw new Error(`an agent could not be spawned: ${error.message}`);
      }
    }),
  );
  const seconds = (performance.now() - began) / 1000;
  const bytes = (anonymousOf(daemon) - before) / AGENTS;
  await Bun.sleep(REST_MS);
  const rested = anonymousOf(daemon) - before;
  for (const client of clients) client.destroy();
  await user.killDaemon();
  return [
    {
      what: `${AGENTS} agents that wait for their model: memory of each`,
      value: bytes / 1024,
      unit: "KiB",
      goal: 40,
    },
    { what: "the same after two minutes", value: rested / AGENTS / 1024, unit: "KiB", goal: 40 },
    { what: "the same: spawns", value: AGENTS / seconds, unit: "/s" },
  ];
}

function ours(user: User, model: PeerModel, intent: string): Command {
  const command = user.rnix("spawn", "--provider", "openai", "--model", "m", "-q", intent);
  return { ...command, env: { ...command.env, OPENAI_BASE_URL: model.url, OPENAI_API_KEY: "none" } };
}

const codexOf = (intent: string): Command => bare(["codex", "exec", "--skip-git-repo-check", intent]);
const piOf = (intent: string): Command => bare(["pi", "-p", "--provider", "x", "--model", "m", intent]);

function bare([program = "", ...args]: string[]): Command {
  return { argv: [Bun.which(program) ?? program, ...args], env: {}, cwd: "/" };
}

/** The peers' own configuration, in the home of this user. */
function withHome(user: User, { url }: PeerModel, { argv }: Command): Command {
  const command = user.command(argv);
  const { HOME = "" } = command.env;
  mkdirSync(join(HOME, ".codex"), { recursive: true });
  mkdirSync(join(HOME, ".pi/agent"), { recursive: true });
  const codex = [
    'model = "m"',
    'model_provider = "x"',
    "[model_providers.x]",
    'name = "x"',
    `base_url = "${url}"`,
  ];
  writeFileSync(
    join(HOME, ".codex/config.toml"),
    [...codex, 'wire_api = "responses"', 'env_key = "X_KEY"', ""].join("\n"),
  );
  const provider = { baseUrl: url, api: "openai-completions", apiKey: "none", models: [{ id: "m" }] };
  writeFileSync(join(HOME, ".pi/agent/models.json"), JSON.stringify({ providers: { x: provider } }));
  return { ...command, env: { ...command.env, X_KEY: "none" } };
}

/** The most anonymous memory of a command, with what it starts, and of these processes, together. */
async function anonymousPeak(command: Command, pids: readonly number[]): Promise<number> {
  const child = Bun.spawn(command.argv, { ...command, stdin: "ignore", stdout: "ignore", stderr: "ignore" });
  let peak = 0;
  while (memoryOf(child.pid).now > 0) {
    const all = [...pids, child.pid, ...below(child.pid)];
    peak = Math.max(
      peak,
      all.reduce((sum, pid) => sum + anonymousOf(pid), 0),
    );
    await new Promise((resolve) => setImmediate(resolve));
  }
  await child.exited;
  return peak;
}

function below(pid: number): number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1");
    return text
      .split(" ")
      .filter(Boolean)
      .flatMap((child) => [Number(child), ...below(Number(child))]);
  } catch {
    return []; // It has ended.
  }
}

function anonymousOf(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "latin1");
    return Number(/^RssAnon:\s+(\d+)/m.exec(status)?.[1] ?? 0) * 1024;
  } catch {
    return 0; // It has ended.
  }
}

/** Speaks both forms of OpenAI: codex uses responses, the others chat completions. An intent "wait" gets no answer. */
class PeerModel implements Disposable {
  readonly #server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    fetch: async (request) => {
      if (request.method !== "POST") return Response.json({ object: "list", data: [{ id: "m" }] });
      const body = await request.text();
      if (/"wait \d+"|wait \d+\\n|wait \d+</.test(body)) await new Promise(() => {});
      const words = Array.from({ length: body.includes(LONG) ? PIECES : 1 }, (_, i) => `word${i} `);
      const text = new URL(request.url).pathname.endsWith("/responses")
        ? responses(words)
        : completions(words);
      return new Response(text, { headers: { "content-type": "text/event-stream" } });
    },
  });

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}/v1`;
  }

  [Symbol.dispose](): void {
    void this.#server.stop(true);
  }
}

function completions(words: readonly string[]): string {
  const chunk = (delta: object, reason: string | null, more: object = {}): string =>
    `data: ${JSON.stringify({ id: "x", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: reason }], ...more })}\n\n`;
  const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
  const pieces = words.map((content) => chunk({ content }, null)).join("");
  return `${chunk({ role: "assistant", content: "" }, null)}${pieces}${chunk({}, "stop", { usage })}data: [DONE]\n\n`;
}

function responses(words: readonly string[]): string {
  const event = (one: { type: string } & Record<string, unknown>): string =>
    `event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`;
  const at = { item_id: "m1", output_index: 0, content_index: 0 };
  const item = {
    type: "message",
    role: "assistant",
    id: "m1",
    content: [{ type: "output_text", text: words.join("") }],
  };
  const details = {
    input_tokens_details: { cached_tokens: 0 },
    output_tokens_details: { reasoning_tokens: 0 },
  };
  const usage = { input_tokens: 10, output_tokens: 5, total_tokens: 15, ...details };
  return [
    event({ type: "response.created", response: { id: "r1" } }),
    event({ type: "response.output_item.added", output_index: 0, item: { ...item, content: [] } }),
    ...words.map((delta) => event({ type: "response.output_text.delta", ...at, delta })),
    event({ type: "response.output_item.done", output_index: 0, item }),
    event({ type: "response.completed", response: { id: "r1", status: "completed", output: [item], usage } }),
  ].join("");
}
