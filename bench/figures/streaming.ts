import { ModelServer } from "../../test/support/model-server/server.ts";
import { type Figure, mib } from "../figure.ts";
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
  const time = await interleaved(place.rounds, {
    bare: () => timed(bare),
    warm: () => user.timedWithDaemon(warm),
    lines: () => user.timedWithDaemon(lines),
    alone: () => timed(alone),
  });
  const wall = { name: "bare client", value: time.bare.wallMs };
  const cpu = { name: "bare client", value: time.bare.cpuMs };
  const each = (side: { wallMs: number }): number => ((side.wallMs - time.bare.wallMs) * 1000) / CHUNKS;
  const what = `turn of ${CHUNKS.toLocaleString("en")} chunks`;
  return [
    { what: `${what}, daemon running, wall`, value: time.warm.wallMs, unit: "ms", floor: wall },
    { what: `${what}, daemon running, CPU of all parts`, value: time.warm.cpuMs, unit: "ms", floor: cpu },
    { what: `${what}, \`--output jsonl\`, wall`, value: time.lines.wallMs, unit: "ms", floor: wall },
    {
      what: `${what}, \`--output jsonl\`, CPU of all parts`,
      value: time.lines.cpuMs,
      unit: "ms",
      floor: cpu,
    },
    { what: `${what}, \`--no-daemon\`, wall`, value: time.alone.wallMs, unit: "ms", floor: wall },
    { what: "of it Rnix's, by chunk, daemon running", value: each(time.warm), unit: "µs" },
    { what: "of it Rnix's, by chunk, `--output jsonl`", value: each(time.lines), unit: "µs" },
    { what: "of it Rnix's, by chunk, `--no-daemon`", value: each(time.alone), unit: "µs" },
    {
      what: `${what}, \`--no-daemon\`, peak memory`,
      value: mib(await peakOf(alone)),
      unit: "MiB",
      floor: { name: "bare client", value: mib(await peakOf(bare)) },
    },
  ];
}
