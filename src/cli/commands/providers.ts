/** `rnix providers`: lists the model providers and probes them. */

import type { ProviderWire, QueueWire } from "../../protocol/methods.ts";
import { defineCommand } from "../command.ts";
import { bool, json } from "../flags.ts";
import { project, withWire } from "../io.ts";
import { printCatalog } from "../output/catalog.ts";
import { formatElapsed, oneLine } from "../output/format.ts";

/** Each provider has a deadline of its own; this is for all of them together. */
const PROBE_MS = 120_000;
/** The least columns of the advice at a terminal. */
const WHY_WIDTH = 36;

export default defineCommand({
  about: "List the model providers, and which one a run uses here and why",
  lists: true,
  flags: { probe: bool("send a request to each usable provider; this may cost a few tokens"), json },
  examples: {
    "rnix providers": "what was found: keys in the environment and providers.yaml",
    "rnix providers --probe": "sends a request to each usable one, to see whether it works",
  },
  run: (io, flags) =>
    withWire(io, async (wire) => {
      const asked = { ...project(io), probe: flags.probe };
      const { providers, diagnostics } = await wire.request("list_providers", asked, { timeoutMs: PROBE_MS });
      const code = printCatalog(
        io,
        providers,
        [
          { title: "PROVIDER", value: ({ name, chosen }) => (chosen ? `${name} *` : name) },
          { title: "MODEL", value: ({ model }) => model ?? "-", flexible: true },
          { title: "KEY", value: ({ key }) => key ?? "-", leftOut: 1 },
          { title: "USABLE", value: ({ usable }) => (usable ? "yes" : "no") },
          { title: "PROBE", value: ({ probe }) => probeText(probe), when: flags.probe },
          {
            title: "WHY",
            value: ({ because, probe }) => (probe?.ok === false ? probe.message : because),
            flexible: WHY_WIDTH,
            wrapped: true,
          },
        ],
        { ...flags, diagnostics },
      );
      if (!flags.json) io.stdout.write(queueLines(providers).join(""));
      return code;
    }),
});

/** The answer's duration or the error's code; the last column has the message. */
function probeText(probe: ProviderWire["probe"]): string {
  if (probe === undefined) return "-";
  return `${probe.ok ? "ok" : probe.code}, ${formatElapsed(probe.ms)}`;
}

/** One line for each key's queue and each held model, equal ones as one; --json has the rest. */
function queueLines(providers: readonly ProviderWire[]): string[] {
  const all = providers.flatMap(({ name, queues = [] }) =>
    queues.map((queue) => [`${name}: ${queueText(queue)}`, ...queue.holds.map(holdText)].join("\n")),
  );
  const lines = [...Map.groupBy(all, (text) => text)].map(([text, equal]) =>
    equal.length === 1 ? text : text.replace(":", ` (${equal.length} keys, each):`),
  );
  return lines.length === 0 ? [] : ["\n", ...lines.map((line) => `${line}\n`)];
}

function queueText(queue: QueueWire): string {
  const { running, at_once, waiting, requests_last_minute: made, requests_per_minute: most } = queue;
  const rate = most === null ? "" : `, ${made} of ${most} requests this minute`;
  return `${running}/${at_once} running, ${waiting} waiting${rate}`;
}

function holdText({ model, left_ms }: QueueWire["holds"][number]): string {
  return `  ${oneLine(model, Number.POSITIVE_INFINITY)} on hold for ${Math.ceil(left_ms / 1000)} s`;
}
