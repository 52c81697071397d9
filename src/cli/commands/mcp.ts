/** `rnix mcp`: lists, adds, removes and tries the MCP servers of this project and user, prints their logs, and is one. */

import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { count, json } from "../flags.ts";
import { environment, refuseInsideRun } from "../io.ts";
import { add, remove } from "../mcp/add.ts";
import { login, logout } from "../mcp/login.ts";
import { serve } from "../mcp/serve.ts";
import { test } from "../mcp/test.ts";
import { printCatalog } from "../output/catalog.ts";

/** Lines that `logs` prints. */
const LINES = 100;

const list = defineCommand({
  about: "List the MCP servers that this project and you have; starts none",
  lists: true,
  flags: { json },
  examples: { "rnix mcp list": "their files, and which of them wait for rnix trust" },
  notes: [
    "STATE is trusted, withheld (until rnix trust), unused (a nearer file has a server of this name) or malformed.",
  ],
  async run(io, flags) {
    const { mcpServers } = await import("../../server/offline-commands.ts");
    const { servers, problems } = await mcpServers({ cwd: io.cwd, env: environment(io) });
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
      { ...flags, ...(problems.length === 0 && { empty: "no file names an MCP server: see docs/mcp.md" }) },
    );
  },
});

const logs = defineCommand({
  about: "Print the end of what an MCP server printed outside the protocol",
  args: [{ name: "NAME", about: "of the server; rnix mcp list prints them" }],
  flags: { lines: count(`how many lines; ${LINES} by default`, "N", { short: "n" }) },
  examples: { "rnix mcp logs github -n 20": "also after its end" },
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

export default defineCommand({
  about: "List the MCP servers of this project and yours, add, remove or try one, or print its log",
  examples: {
    "rnix mcp list": "where each comes from, and whether it is trusted",
    "rnix mcp add docs https://example.com/mcp": "writes it into your mcp.yaml",
    "rnix mcp test github": "whether it starts, and what it has",
    "rnix mcp logs github": "what it has printed",
    "rnix mcp serve": "offers Rnix itself to another MCP client",
  },
  subcommands: { list, add, remove, login, logout, test, logs, serve },
});
