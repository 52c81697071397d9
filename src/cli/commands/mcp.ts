/** `rnix mcp`: lists the MCP servers of this project and user, tries one and prints its log. */

import type { McpServerItem } from "../../protocol/methods.ts";
import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { bool, count, json } from "../flags.ts";
import { environment, project, refuseInsideRun, withSession } from "../io.ts";
import { printCatalog } from "../output/catalog.ts";
import { plural } from "../output/format.ts";
import { jsonText, print } from "../output/print.ts";
import { table } from "../output/table.ts";

/** Lines that `logs` prints. */
const LINES = 100;

const list = defineCommand({
  about: "List the MCP servers that this project and you have; starts none",
  lists: true,
  flags: { json },
  examples: [{ line: "rnix mcp list", about: "their files, and which of them wait for rnix trust" }],
  notes: [
    "STATE is trusted, withheld (until rnix trust), unused (a nearer file has a server of this name) or malformed.",
  ],
  async run(io, flags) {
    const { mcpServers } = await import("../../server/offline-commands.ts");
    const { servers, problems } = await mcpServers({ cwd: io.cwd, env: environment(io) });
    if (servers.length === 0 && problems.length === 0 && !flags.json) {
      io.stderr.write("no file names an MCP server: see docs/mcp.md\n");
      return EXIT.ok;
    }
    for (const { message } of problems) io.stderr.write(`not usable: ${message}\n`);
    return printCatalog(
      io,
      servers,
      [
        { title: "SERVER", value: ({ name }) => name },
        { title: "STATE", value: ({ state }) => state },
        { title: "FROM", value: ({ file }) => file, flexible: true },
        { title: "COMMAND OR ADDRESS", value: ({ target }) => target, flexible: true },
      ],
      flags,
    );
  },
});

const test = defineCommand({
  about: "Start an MCP server as a run would, list what it has, and end it; exit 69 if it fails",
  args: [{ name: "NAME", about: "of the server; rnix mcp list prints them" }],
  flags: {
    trust: bool("trust what this project brings, for this test alone"),
    "no-daemon": bool("run inside this command; nothing is left running"),
    json,
  },
  examples: [{ line: "rnix mcp test github", about: "its tools, resources and prompts, or why it fails" }],
  notes: ["It is for a person: inside a run it is refused."],
  run: (io, flags, [name = ""]) =>
    withSession(io, { inside: flags["no-daemon"] }, async (session) => {
      const wire = await session.connect();
      const request = { ...project(io), name, trust: flags.trust };
      // The server has its own time limits.
      const answer = await wire.request("test_mcp", request, { timeoutMs: null });
      if ("error" in answer) {
        if (flags.json) io.stdout.write(jsonText(answer));
        io.stderr.write(`${answer.error}\n`);
        return EXIT.unavailable;
      }
      const { tools, resources, prompts, start_ms } = answer;
      const rows = [...kindOf("tool", tools), ...kindOf("resource", resources), ...kindOf("prompt", prompts)];
      const counts = [
        plural(tools.length, "tool"),
        plural(resources.length, "resource"),
        plural(prompts.length, "prompt"),
      ];
      const code = print(io, flags, answer, (style) =>
        table(
          rows,
          [
            { title: "KIND", value: ({ kind }) => kind },
            { title: "NAME", value: ({ item }) => item.name },
            { title: "DESCRIPTION", value: ({ item }) => item.description, flexible: true },
          ],
          io.stdout,
          style,
        ),
      );
      io.stderr.write(`${name} started in ${start_ms} ms: ${counts.join(", ")}\n`);
      return code;
    }),
});

const logs = defineCommand({
  about: "Print the end of what an MCP server printed outside the protocol",
  args: [{ name: "NAME", about: "of the server; rnix mcp list prints them" }],
  flags: { lines: count(`how many lines; ${LINES} by default`, "N", { short: "n" }) },
  examples: [{ line: "rnix mcp logs github -n 20", about: "also after its end" }],
  notes: [
    "Each line has the time, the process that logged it and the project. Servers of one name in several projects share the log. It is for a person: inside a run it is refused.",
  ],
  async run(io, flags, [name = ""]) {
    await refuseInsideRun(io, "mcp logs");
    if (!/^[A-Za-z0-9._-]+$/.test(name))
      throw usageError(`NAME: expected the name of an MCP server, got ${name}`);
    const { readMcpLog } = await import("../../server/offline-commands.ts");
    const lines = (await readMcpLog(environment(io), name)).slice(-(flags.lines ?? LINES));
    io.stdout.write(lines.map((line) => `${line}\n`).join(""));
    if (lines.length === 0) io.stderr.write(`${name} has printed nothing\n`);
    return EXIT.ok;
  },
});

function kindOf(kind: string, items: readonly McpServerItem[]): { kind: string; item: McpServerItem }[] {
  return items.map((item) => ({ kind, item }));
}

export default defineCommand({
  about: "List the MCP servers of this project and yours, try one, or print its log",
  flags: {},
  examples: [
    { line: "rnix mcp list", about: "where each comes from, and whether it is trusted" },
    { line: "rnix mcp test github", about: "whether it starts, and what it has" },
    { line: "rnix mcp logs github", about: "what it has printed" },
  ],
  subcommands: { list, test, logs },
});
