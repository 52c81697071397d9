import { ModelServer } from "../../test/support/model-server/server.ts";
import { type Figure, time } from "../figure.ts";
import { type Command, cpuOf, interleaved, timed } from "../measure.ts";
import type { Place } from "../place.ts";

/** A model's usual speed: 100 tokens a second. */
const TOKENS_PER_S = 100;
const STREAMED_S = 6;
/** Without the start of the command and the end of the run. */
const MEASURED_MS = 4000;
/** The pieces of an answer come this slowly where the longest pause of the view is measured. */
const SILENT_MS = 2000;

/** An answer with all that Markdown has, over and over: a token is about four characters. */
const PARAGRAPH =
  "Some **bold** text with `code` and a [link](https://example.org/page) that is wrapped at words.\n\n- an item\n- another one\n\n```ts\nconst total = (list: number[]) => list.reduce((sum, n) => sum + n, 0);\n```\n\n";

/** What the live view costs: its first frame, its pauses, its CPU while an answer streams, and nothing in a pipe. */
export async function terminal(place: Place): Promise<Figure[]> {
  const user = place.user("terminal");
  const daemon = await user.daemon();
  const tokens = TOKENS_PER_S * STREAMED_S;
  const text = PARAGRAPH.repeat(Math.ceil((tokens * 4) / PARAGRAPH.length)).slice(0, tokens * 4);
  const turn = { text, chunks: tokens, pace_ms: 1000 / TOKENS_PER_S };
  await using streaming = await ModelServer.start({ turns: [turn], loop: true });
  await using silent = await ModelServer.start({
    turns: [{ text: "one two", chunks: 2, pace_ms: SILENT_MS / 2 }],
    loop: true,
  });
  const shown = ({ argv, ...command }: Command): Command => ({
    ...command,
    argv: argv.filter((arg) => arg !== "-q"),
  });
  const plain = (command: Command): Command => ({ ...command, env: { ...command.env, NO_COLOR: "1" } });
  const live = shown(user.spawn(place.oneTurn));
  const alone = shown(user.spawn(place.oneTurn, "--no-daemon"));
  const hello = user.command([place.floors.hello]);
  const first = await interleaved(place.rounds, {
    hello: () => firstByte(hello),
    live: () => firstByte(live),
    alone: () => firstByte(alone),
    plain: () => firstByte(plain(live)),
  });
  const pipe = await interleaved(place.rounds, {
    pipe: () => timed(live),
    quiet: () => timed(user.spawn(place.oneTurn)),
  });
  const floor = { name: "hello", value: first.hello.wallMs };
  const share = (what: string, value: number, goal?: number): Figure => ({
    what,
    value,
    unit: "%",
    ...(goal && { goal }),
  });
  const streamed = shown(user.spawn(streaming));
  return [
    time("`rnix spawn` at a terminal, to its first byte", first.live.wallMs, { goal: 60 }),
    time("the same with `--no-daemon`", first.alone.wallMs, { goal: 60 }),
    time("the same with plain lines (`NO_COLOR`)", first.plain.wallMs, { floor }),
    time("longest pause of the view while the model is slow", await longestPause(shown(user.spawn(silent))), {
      goal: 200,
    }),
    share("CPU of the view at 100 tokens a second, share of a core", await cpuShare(streamed), 5),
    share("the same with plain lines", await cpuShare(plain(streamed))),
    share("of the daemon meanwhile", await cpuShare(streamed, daemon)),
    time("`rnix spawn` in a pipe, CPU", pipe.pipe.cpuMs, {
      floor: { name: "with -q", value: pipe.quiet.cpuMs },
    }),
  ];
}

/** A command at a terminal, with what is done at each of its writes. */
function atTerminal({ argv, env, cwd }: Command, wrote: (text: string) => void) {
  const decoder = new TextDecoder();
  return Bun.spawn(argv, {
    env: { ...env, TERM: "xterm-256color" },
    cwd,
    terminal: { cols: 80, rows: 24, data: (_, bytes) => wrote(decoder.decode(bytes, { stream: true })) },
    timeout: 60_000,
    killSignal: "SIGKILL",
  });
}

/** From the start of the command to the first byte that it writes to its terminal. */
async function firstByte(command: Command): Promise<{ wallMs: number; cpuMs: number }> {
  const began = performance.now();
  let wallMs = 0;
  const child = atTerminal(command, () => {
    wallMs ||= performance.now() - began;
  });
  await child.exited;
  child.terminal?.close();
  return { wallMs, cpuMs: 0 };
}

/** The longest time between two writes from the first one on, while the model has not answered. */
async function longestPause(command: Command): Promise<number> {
  const times: number[] = [];
  const child = atTerminal(command, () => times.push(performance.now()));
  await child.exited;
  child.terminal?.close();
  const [first = 0] = times;
  const silent = times.filter((at) => at < first + SILENT_MS);
  return Math.max(...silent.slice(1).map((at, index) => at - (silent[index] ?? at)));
}

/** The CPU of a process, by default the command, while an answer streams, in percent of a core. */
async function cpuShare(command: Command, pid?: number): Promise<number> {
  let written = "";
  const streams = Promise.withResolvers<void>();
  const child = atTerminal(command, (text) => {
    written += text;
    if (written.includes("another one")) streams.resolve();
  });
  await streams.promise;
  const before = cpuOf(pid ?? child.pid);
  await Bun.sleep(MEASURED_MS);
  const cpu = cpuOf(pid ?? child.pid) - before;
  await child.exited;
  child.terminal?.close();
  return (cpu / MEASURED_MS) * 100;
}
