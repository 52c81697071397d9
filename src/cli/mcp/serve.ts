/** `rnix mcp serve`: offers Rnix to other MCP clients, over stdin and stdout or HTTP. */

import { randomBytes } from "node:crypto";
import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { bool, one } from "../flags.ts";
import { type Io, refuseInsideRun } from "../io.ts";

const HTTP = "serve HTTP on this port of 127.0.0.1 instead of stdio; 0 takes a free one";
const TOKEN = "RNIX_MCP_TOKEN";
const MIN_TOKEN = 16;

export const serve = defineCommand({
  about: "Be an MCP server: other programs spawn, follow and end runs, read memory and schedule jobs",
  flags: {
    http: one(HTTP, "PORT", {}, "a port from 0 to 65535", port),
    answers: bool("also offer the tool that answers the questions of runs in your name"),
  },
  examples: {
    "rnix mcp serve": "what the client starts: claude mcp add rnix -- rnix mcp serve",
    "rnix mcp serve --http 7433": "prints its address and a token",
  },
  notes: [
    `With --http, each request needs the token: that of the variable ${TOKEN}, or a new one, which is printed.`,
    "A run that a client waits for ends when the client cancels the call or leaves. It is for a person: inside a run it is refused.",
  ],
  async run(io, { http, answers }) {
    await refuseInsideRun(io, "mcp serve");
    const { McpServer } = await import("./mcp-server.ts");
    const mcp = new McpServer(io, { answers });
    const stopped = Promise.withResolvers<void>();
    const listeners = (["SIGINT", "SIGTERM", "SIGHUP"] as const).map((name) =>
      io.onSignal(name, stopped.resolve),
    );
    try {
      if (http !== undefined) {
        const given = givenToken(io);
        const token = given ?? randomBytes(32).toString("hex");
        const { HttpEndpoint } = await import("./http-endpoint.ts");
        await using endpoint = new HttpEndpoint(mcp, { port: http, token });
        io.stdout.write(`${endpoint.url}\n${given === undefined ? `token ${token}\n` : ""}`);
        await stopped.promise;
        return EXIT.ok;
      }
      const { StdioTransport } = await import("./stdio-transport.ts");
      if (io.stdin.kind === "tty")
        io.stderr.write("This is for MCP clients, which speak JSON. ctrl-c ends it.\n");
      const server = mcp.connection();
      server.onclose = stopped.resolve;
      server.onerror = (error) => io.stderr.write(`rnix mcp serve: ${error.message}\n`);
      await server.connect(new StdioTransport(io));
      await stopped.promise;
      await server.close();
      await mcp.ended();
      return EXIT.ok;
    } finally {
      for (const remove of listeners) remove();
    }
  },
});

/** A short token could be guessed by another user of this machine. */
function givenToken({ env }: Io): string | undefined {
  const token = env[TOKEN];
  if (!token) return undefined;
  // Runs get this environment: a program of one must not reach the server as the user.
  delete env[TOKEN];
  if (/^[\x21-\x7e]+$/.test(token) && token.length >= MIN_TOKEN) return token;
  throw usageError(`${TOKEN}: expected at least ${MIN_TOKEN} printable characters without spaces`);
}

function port(value: string): number | undefined {
  const number = Number(value);
  return /^\d{1,5}$/.test(value) && number <= 65_535 ? number : undefined;
}
