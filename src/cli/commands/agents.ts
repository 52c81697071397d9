/** `rnix agents`: lists the agents of a project, or creates one. */

import { relative } from "node:path";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { inSettingsFolder } from "../files/named-files.ts";
import { json } from "../flags.ts";
import { environment, project, withWire } from "../io.ts";
import { printCatalog } from "../output/catalog.ts";
import { cut } from "../output/format.ts";

/** Columns of the list of tools; --json has the whole. */
const TOOLS = 40;

const create = defineCommand({
  about: "Write a working agent: agent.yaml and instructions.md",
  args: [{ name: "NAME", about: "lowercase letters, digits and hyphens, such as reviewer" }],
  examples: { "rnix agents new reviewer": "writes .rnix/agents/reviewer/" },
  files: (io, [name = ""]) =>
    inSettingsFolder(io, `agents/${name}/agent.yaml`, `agents/${name}/instructions.md`),
  async run(io, _flags, [name = ""]) {
    const [{ projectOf, stockAgents }, { newAgent }] = await Promise.all([
      import("../../server/offline-commands.ts"),
      import("../files/scaffold.ts"),
    ]);
    const files = newAgent(projectOf({ cwd: io.cwd, env: environment(io) }), name, await stockAgents());
    for (const file of files) io.stdout.write(`${file}\n`);
    const [, instructions = ""] = files.map((file) => relative(io.cwd, file));
    io.stderr.write(
      `next: edit ${instructions}\n` +
        `      rnix spawn --agent ${name} "explain what this project does"\n` +
        `It may read and search. What else you allow it in agent.yaml needs rnix trust.\n`,
    );
    return EXIT.ok;
  },
});

export default defineCommand({
  about: "List the agents that can be run here, and where each comes from",
  lists: true,
  flags: { json },
  examples: {
    "rnix agents": "the project's, yours and the stock ones",
    "rnix agents new reviewer": "a working agent to edit",
  },
  subcommands: { new: create },
  run: (io, flags) =>
    withWire(io, async (wire) => {
      const { agents, diagnostics } = await wire.request("list_agents", project(io));
      for (const { name, notices } of agents) {
        for (const notice of notices) io.stderr.write(`${name}: ${notice}\n`);
      }
      return printCatalog(
        io,
        agents,
        [
          { title: "AGENT", value: ({ name }) => name },
          {
            title: "TOOLS",
            value: ({ allowed_tools }) => cut(allowed_tools.join(",") || "none", TOOLS),
            flexible: 12,
          },
          {
            title: "SKILLS",
            value: ({ skills, deferred_skills }) =>
              cut([...skills, ...deferred_skills].join(",") || "-", TOOLS),
            leftOut: 1,
          },
          { title: "FROM", value: ({ source }) => source, flexible: true },
          { title: "DESCRIPTION", value: ({ description }) => description, flexible: 30 },
        ],
        { ...flags, diagnostics },
      );
    }),
});
