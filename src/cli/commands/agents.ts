import { defineCommand } from "../command.ts";
import { json } from "../flags.ts";
import { project, withWire } from "../io.ts";
import { printCatalog } from "../output/catalog.ts";
import { cut } from "../output/format.ts";

/** Columns of the list of tools; --json has the whole. */
const TOOLS = 40;

export default defineCommand({
  about: "List the agents that can be run here, and where each comes from",
  flags: { json },
  examples: [{ line: "rnix agents", about: "the project's, yours and the stock ones" }],
  run: (io, flags) =>
    withWire(io, async (wire) => {
      const { agents, diagnostics } = await wire.request("list_agents", project(io));
      return printCatalog(
        io,
        agents,
        [
          { title: "AGENT", value: ({ name }) => name },
          { title: "TOOLS", value: ({ allowed_tools }) => cut(allowed_tools.join(",") || "none", TOOLS) },
          {
            title: "SKILLS",
            value: ({ skills, deferred_skills }) => [...skills, ...deferred_skills].join(",") || "-",
          },
          { title: "FROM", value: ({ source }) => source },
          { title: "DESCRIPTION", value: ({ description }) => description, flexible: true },
        ],
        { ...flags, diagnostics },
      );
    }),
});
