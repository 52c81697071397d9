/** `rnix mcp add` and `rnix mcp remove`: write the servers of mcp.yaml. */

import { SyscallError } from "../../plugin/index.ts";
import { defineCommand } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { bool, list, pairs, text } from "../flags.ts";
import { environment, type Io, refuseInsideRun } from "../io.ts";
import { testServer } from "./test.ts";

const inProject = bool("in the project's .rnix/mcp.yaml, not in your own file");
const serverName = { name: "NAME", about: "of the server" };

export const add = defineCommand({
  about: "Add an MCP server to your mcp.yaml: a command behind --, or a URL; starts it to check it",
  args: [
    serverName,
    { name: "COMMAND", about: "the program and its arguments, behind --", optional: true, many: true },
  ],
  flags: {
    url: text("the address of an HTTP server", "URL"),
    header: list("a header of its requests", "NAME: VALUE", { short: "H" }),
    env: pairs("a variable of the program", { short: "e" }),
    project: inProject,
    "no-test": bool("do not start it"),
  },
  examples: {
    "rnix mcp add files -- npx -y @modelcontextprotocol/server-filesystem .": "a program",
    "rnix mcp add docs https://example.com/mcp": "a server at an address",
    "rnix mcp add gh --env 'GITHUB_TOKEN=${GITHUB_TOKEN}' -- github-mcp-server stdio":
      "with a key that stays outside of the file",
  },
  explainFlag: (flag) =>
    flag === "--transport" ? ": an address is reached by HTTP, a command by stdio" : undefined,
  notes: [
    `\${NAME} in a value stands for a variable of your environment or of ~/.config/rnix/env. Write secrets so: then the file has no key in it.`,
    "A server that does not start is not added. One of the project needs rnix trust before it can be started. It is for a person: inside a run it is refused.",
  ],
  async run(io, flags, [name = "", ...words]) {
    await refuseInsideRun(io, "mcp add");
    const { header, env, project, "no-test": untested } = flags;
    // Other programs take the URL as the command.
    const isAddress = flags.url === undefined && words.length === 1 && /^https?:\/\//.test(words[0] ?? "");
    const url = isAddress ? words[0] : flags.url;
    const [command, ...args] = isAddress ? [] : words;
    if ((url === undefined) === (command === undefined))
      throw usageError("expected either a command behind -- or a URL");
    if (url === undefined ? header.length > 0 : Object.keys(env).length > 0)
      throw usageError("--header is for --url, and --env for a command");
    const headers = Object.fromEntries(header.map(headerOf));
    const { editMcpServers, mcpServers } = await import("../../server/offline-commands.ts");
    const where = { cwd: io.cwd, env: environment(io) };
    const file = await editMcpServers(where, project ? "project" : "user");
    await file.add(name, { command, url, args: filled(args), env: filled(env), headers: filled(headers) });
    const { servers } = await mcpServers(where);
    const state = servers.find((one) => one.name === name && one.file === file.path)?.state;
    for (const key of Object.entries({ ...env, ...headers }).flatMap(secretKey)) {
      io.stderr.write(
        `${file.path} has the value of ${key}. Better: write it into ~/.config/rnix/env, and \${NAME} here\n`,
      );
    }
    const hints = new Map([
      [
        "withheld",
        `. Run rnix trust, then rnix mcp test ${name}: a project's server starts only when it is trusted`,
      ],
      ["unused", ". A server of this name in a nearer file is used instead: rnix mcp list"],
    ]);
    const hint = hints.get(state ?? "");
    const code = untested || hint !== undefined ? EXIT.ok : await checked(io, name, () => file.remove(name));
    if (code === EXIT.ok) io.stderr.write(`${name} is in ${file.path}${hint ?? ""}\n`);
    return code;
  },
});

export const remove = defineCommand({
  about: "Remove an MCP server from your mcp.yaml",
  args: [serverName],
  flags: { project: inProject },
  examples: { "rnix mcp remove files": "comments and other servers stay" },
  notes: ["It is for a person: inside a run it is refused."],
  async run(io, { project }, [name = ""]) {
    await refuseInsideRun(io, "mcp remove");
    const { editMcpServers, mcpServers } = await import("../../server/offline-commands.ts");
    const where = { cwd: io.cwd, env: environment(io) };
    const file = await editMcpServers(where, project ? "project" : "user");
    if (await file.remove(name)) {
      io.stderr.write(`${name} is no longer in ${file.path}\n`);
      return EXIT.ok;
    }
    const elsewhere = (await mcpServers(where)).servers.find((one) => one.name === name)?.file;
    const hint =
      elsewhere === undefined
        ? "rnix mcp list prints the names"
        : elsewhere.endsWith(".json")
          ? `it is in ${elsewhere}: edit that file`
          : `it is in ${elsewhere}: rnix mcp remove ${name}${project ? "" : " --project"}`;
    throw new SyscallError("NOT_FOUND", `${file.path} has no server ${name}; ${hint}`);
  },
});

/** Starts the new server. One that fails is removed again, unless it only wants a login. */
async function checked(io: Io, name: string, undo: () => Promise<boolean>): Promise<number> {
  let isKept = false;
  try {
    const { code, wantsLogin } = await testServer(io, name, { json: false });
    isKept = code === EXIT.ok || wantsLogin;
    return isKept ? EXIT.ok : code;
  } finally {
    if (!isKept) {
      await undo();
      io.stderr.write(`${name} was not added; --no-test adds it without a start\n`);
    }
  }
}

function headerOf(given: string): [string, string] {
  const [, name, value] = /^([!#$%&'*+.^_`|~\w-]+):\s*(.*)$/s.exec(given) ?? [];
  if (name !== undefined && value !== undefined) return [name, value];
  throw usageError(`--header: expected "NAME: VALUE", got ${JSON.stringify(given.split(":")[0])}`);
}

/** undefined for an empty list or mapping, which is left out. */
function filled<T extends object>(values: T): T | undefined {
  return Object.keys(values).length === 0 ? undefined : values;
}

/** The key, if its value is a secret that is written out. */
function secretKey([key, value]: [string, string]): string[] {
  return /token|key|secret|password|authorization|cookie/i.test(key) && !value.includes("${") ? [key] : [];
}
