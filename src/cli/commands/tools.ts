/** `rnix tools`: lists the tools that a run has in this folder. */

import type { Answers } from "../../server/methods/method-table.ts";
import { defineCommand } from "../command.ts";
import { json, text } from "../flags.ts";
import { type Io, project, withWire } from "../io.ts";
import { printCatalog } from "../output/catalog.ts";
import { printable } from "../output/format.ts";
import { styleOf } from "../output/style.ts";
import { table } from "../output/table.ts";

/** With an agent the answer waits for its MCP servers, which npx may have to download first. */
const SERVERS_MS = 30 * 60_000;

export default defineCommand({
  about: "List the tools a run has here, with their devices and plugins",
  lists: true,
  flags: { agent: text("show what this agent may use", "NAME"), json },
  examples: {
    "rnix tools": "everything that is loaded, without MCP servers",
    "rnix tools --agent code-analyst":
      "what that agent may use, and what its first request shows; its MCP servers are started",
  },
  run: (io, flags) =>
    withWire(io, async (wire) => {
      const request = { ...project(io), agent: flags.agent };
      const { tools, prompt, diagnostics } = await wire.request("list_tools", request, {
        timeoutMs: SERVERS_MS,
      });
      const isOfAgent = flags.agent !== undefined;
      const code = printCatalog(
        io,
        tools,
        [
          { title: "TOOL", value: ({ name }) => name },
          { title: "ALLOWED", value: ({ allowed }) => (allowed ? "yes" : "no"), when: isOfAgent },
          { title: "SHOWN", value: ({ shown }) => shown ?? "no", when: isOfAgent },
          { title: "DEVICE", value: ({ path }) => path, leftOut: 3 },
          { title: "PLUGIN", value: ({ plugin }) => plugin, leftOut: 1 },
          { title: "FROM", value: ({ layer }) => layer, leftOut: 2 },
          {
            title: "DESCRIPTION",
            // The first sentence: the rest is for the model; --json has the whole.
            value: ({ description, checked }) =>
              `${checked ? "" : "(input unchecked) "}${/^.*?[.](?=\s|$)/s.exec(description)?.[0] ?? description}`,
            flexible: 24,
          },
        ],
        { ...flags, diagnostics },
      );
      if (prompt !== null && !flags.json) printPrompt(io, prompt);
      return code;
    }),
});

type Part = NonNullable<Answers["list_tools"]["prompt"]>[number];

/** What the first request holds beside the intent: each request of the run carries it again. */
function printPrompt(io: Io, parts: readonly Part[]): void {
  const sum = (size: (part: Part) => number): number => parts.reduce((all, part) => all + size(part), 0);
  const total = { part: "all", bytes: sum(({ bytes }) => bytes), tokens: sum(({ tokens }) => tokens) };
  const columns = [
    { title: "PART OF EACH REQUEST", value: ({ part }: Part) => printable(part) },
    { title: "BYTES", value: ({ bytes }: Part) => String(bytes), right: true },
    { title: "TOKENS", value: ({ tokens }: Part) => `~${tokens}`, right: true },
  ];
  io.stdout.write(`\n${table([...parts, total], columns, io.stdout, styleOf(io, io.stdout))}`);
}
