import { ModelServer } from "../../test/support/model-server/server.ts";
import { type Figure, memory, mib, time } from "../figure.ts";
import { interleaved, peakOf, timed } from "../measure.ts";
import type { Place } from "../place.ts";

/** Pieces of the one answer. */
const CHUNKS = 10_000;
const TEXT = "word ".repeat(CHUNKS);

/**
 * One turn whose answer comes in 10,000 pieces as fast as they can be sent, beside a bare client that reads the same
 * stream. The command prints the answer at its end, or every piece as a line.
 */
export async function streaming(place: Place): Promise<Figure[]> {
  const user = place.user("stream");
  await user.daemon();
  await using server = await ModelServer.start({ turns: [{ text: TEXT, chunks: CHUNKS }], loop: true });
  const bare = user.command([place.floors.client, server.openaiUrl]);
  const warm = user.spawn(server);
  const lines = user.spawn(server, "--output", "jsonl");
  const alone = user.spawn(server, "--no-daemon");
  const took = await interleaved(place.rounds, {
    bare: () => timed(bare),
    warm: () => user.timedWithDaemon(warm),
    lines: () => user.timedWithDaemon(lines),
    alone: () => timed(alone),
  });
  const wall = { name: "bare client", value: took.bare.wallMs };
  const cpu = { name: "bare client", value: took.bare.cpuMs };
  const each = (side: { wallMs: number }): number => ((side.wallMs - took.bare.wallMs) * 1000) / CHUNKS;
  const what = `turn of ${CHUNKS.toLocaleString("en")} chunks`;
  return [
    time(`${what}, daemon running, wall`, took.warm.wallMs, { floor: wall }),
    time(`${what}, daemon running, CPU of all parts`, took.warm.cpuMs, { floor: cpu }),
    time(`${what}, \`--output jsonl\`, wall`, took.lines.wallMs, { floor: wall }),
    time(`${what}, \`--output jsonl\`, CPU of all parts`, took.lines.cpuMs, { floor: cpu }),
    time(`${what}, \`--no-daemon\`, wall`, took.alone.wallMs, { floor: wall }),
    { what: "of it Rnix's, by chunk, daemon running", value: each(took.warm), unit: "µs" },
    { what: "of it Rnix's, by chunk, `--output jsonl`", value: each(took.lines), unit: "µs" },
    { what: "of it Rnix's, by chunk, `--no-daemon`", value: each(took.alone), unit: "µs" },
    memory(`${what}, \`--no-daemon\`, peak memory`, await peakOf(alone), {
      floor: { name: "bare client", value: mib(await peakOf(bare)) },
    }),
  ];
}
