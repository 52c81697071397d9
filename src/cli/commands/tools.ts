import { defineCommand } from "../command.ts";
import { json, text } from "../flags.ts";
import { project, withWire } from "../io.ts";
import { printCatalog } from "../output/catalog.ts";

export default defineCommand({
  about: "List the tools a run has here, with their devices and plugins",
  flags: { agent: text("show what this agent may use", "NAME"), json },
  examples: [
    { line: "rnix tools", about: "everything that is loaded" },
    {
      line: "rnix tools --agent code-analyst",
      about: "what that agent may use, and what its first request shows",
    },
  ],
  run: (io, flags) =>
    withWire(io, async (wire) => {
      const { tools } = await wire.request("list_tools", { ...project(io), agent: flags.agent });
      return printCatalog(
        io,
        tools,
        [
          { title: "TOOL", value: ({ name }) => name },
          ...(flags.agent === undefined
            ? []
            : [
                {
                  title: "ALLOWED",
                  value: ({ allowed }: (typeof tools)[number]) => (allowed ? "yes" : "no"),
                },
                { title: "SHOWN", value: ({ shown }: (typeof tools)[number]) => shown ?? "no" },
              ]),
          { title: "DEVICE", value: ({ path }) => path },
          { title: "PLUGIN", value: ({ plugin }) => plugin },
          { title: "FROM", value: ({ layer }) => layer },
          {
            title: "DESCRIPTION",
            value: ({ description, checked }) =>
              `${checked ? "" : "(input unchecked) "}${firstSentence(description)}`,
            flexible: true,
          },
        ],
        flags,
      );
    }),
});

/** The rest is for the model; --json has the whole. */
function firstSentence(text: string): string {
  return /^.*?[.](?=\s|$)/s.exec(text)?.[0] ?? text;
}
