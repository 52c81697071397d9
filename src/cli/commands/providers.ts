import type { ProviderWire, QueueWire } from "../../server/protocol.ts";
import { defineCommand } from "../command.ts";
import { bool, json } from "../flags.ts";
import { project, withWire } from "../io.ts";
import { printCatalog } from "../output/catalog.ts";
import { formatElapsed } from "../output/format.ts";

/** Each provider has a deadline of its own; this is for all of them together. */
const PROBE_MS = 120_000;

export default defineCommand({
  about: "List the model providers, which one would be taken here and why",
  flags: { probe: bool("ask each usable one whether it answers; this may cost a few tokens"), json },
  examples: [
    {
      line: "rnix providers",
      about: "what was found: keys in the environment and providers.yaml",
    },
    { line: "rnix providers --probe", about: "and whether it works" },
  ],
  run: (io, flags) =>
    withWire(io, async (wire) => {
      const asked = { ...project(io), probe: flags.probe };
      const { providers, diagnostics } = await wire.request("list_providers", asked, { timeoutMs: PROBE_MS });
      return printCatalog(
        io,
        providers,
        [
          { title: "PROVIDER", value: ({ name, chosen }) => (chosen ? `${name} *` : name) },
          { title: "MODEL", value: ({ model }) => model ?? "-" },
          { title: "KEY", value: ({ key }) => key ?? "-" },
          { title: "USABLE", value: ({ usable }) => (usable ? "yes" : "no") },
          ...(providers.some(({ queues }) => queues)
            ? [{ title: "QUEUE", value: ({ queues }: (typeof providers)[number]) => queueText(queues) }]
            : []),
          ...(flags.probe
            ? [
                {
                  title: "PROBE",
                  value: ({ probe }: (typeof providers)[number]) => probeText(probe),
                },
              ]
            : []),
          {
            title: "WHY",
            value: ({ because, probe }) => (probe?.ok === false ? probe.message : because),
            flexible: true,
          },
        ],
        { ...flags, diagnostics },
      );
    }),
});

/** How long its answer took, or the error's code; what it says is in the last column. */
function probeText(probe: ProviderWire["probe"]): string {
  if (probe === undefined) return "-";
  return `${probe.ok ? "ok" : probe.code}, ${formatElapsed(probe.ms)}`;
}

/** How it stands with its keys, in few words; --json has the rest. */
function queueText(queues: readonly QueueWire[] = []): string {
  const texts = queues.map(({ running, waiting, at_once, holds, ...minute }) => {
    const { requests_last_minute: made, requests_per_minute: most } = minute;
    const rate = most === null ? "" : `, ${made} of ${most} requests this minute`;
    const wait = holds.map(({ model, left_ms }) => `, ${model} on hold for ${Math.ceil(left_ms / 1000)} s`);
    return `${running}/${at_once} running, ${waiting} waiting${rate}${wait.join("")}`;
  });
  return texts.join("; ") || "-";
}
