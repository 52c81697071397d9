/** `rnix mcp test`: starts an MCP server as a run would, and prints what it has. */

import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { bool, json, noDaemon } from "../flags.ts";
import { type Io, project, withSession } from "../io.ts";
import { printCatalog } from "../output/catalog.ts";
import { plural } from "../output/format.ts";
import { jsonText } from "../output/print.ts";

export const test = defineCommand({
  about: "Start an MCP server as a run would, list what it has, and end it; exit 69 if it fails",
  args: [{ name: "NAME", about: "of the server; rnix mcp list prints them" }],
  flags: {
    trust: bool("trust what this project brings, for this test alone"),
    "no-daemon": noDaemon,
    json,
  },
  examples: { "rnix mcp test github": "its tools, resources and prompts, or why it fails" },
  notes: ["It is for a person: inside a run it is refused."],
  run: async (io, flags, [name = ""]) => (await testServer(io, name, flags)).code,
});

/** Prints what the server has, or why it fails. Returns the exit code, and whether the server wants a login or a key. */
export function testServer(
  io: Io,
  name: string,
  flags: { json: boolean; trust?: boolean; "no-daemon"?: boolean },
): Promise<{ code: number; wantsLogin: boolean }> {
  return withSession(io, { inside: flags["no-daemon"] }, async (session) => {
    const wire = await session.connect();
    const request = { ...project(io), name, trust: flags.trust };
    // The server has its own time limits.
    const answer = await wire.request("test_mcp", request, { timeoutMs: null });
    if ("error" in answer) {
      if (flags.json) io.stdout.write(jsonText(answer));
      io.stderr.write(`${answer.error}\n`);
      return { code: EXIT.unavailable, wantsLogin: answer.error_code === "PERMISSION" };
    }
    const { tools, resources, prompts, start_ms } = answer;
    const all = Object.entries({ tool: tools, resource: resources, prompt: prompts });
    const rows = all.flatMap(([kind, items]) => items.map((item) => ({ kind, ...item })));
    const counts = all.map(([kind, items]) => plural(items.length, kind));
    const code = printCatalog(
      io,
      rows,
      [
        { title: "KIND", value: ({ kind }) => kind },
        { title: "NAME", value: ({ name }) => name },
        { title: "DESCRIPTION", value: ({ description }) => description, flexible: true },
      ],
      { ...flags, answer },
    );
    io.stderr.write(`${name} started in ${start_ms} ms: ${counts.join(", ")}\n`);
    return { code, wantsLogin: false };
  });
}
