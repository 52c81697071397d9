/** `rnix call`: makes one tool call without a model. */

import { defineCommand } from "../command.ts";
import { directCall } from "../devices/direct-call.ts";
import { usageError } from "../exit.ts";
import { bool, json, noDaemon } from "../flags.ts";
import type { Io } from "../io.ts";

/** Characters of an input: a request of the protocol holds little more. */
const MAX_INPUT = 8 * 1024 * 1024;

export default defineCommand({
  about: "Call one tool, without a model: to try a plugin or an MCP server",
  args: [
    { name: "TOOL", about: "as rnix tools lists it, or the path of a device" },
    { name: "INPUT", about: 'the input as a JSON object; "-" reads it from stdin', optional: true },
  ],
  flags: {
    trust: bool("trust what this project brings, for this call alone"),
    "no-daemon": noDaemon,
    json,
  },
  examples: {
    'rnix call Read \'{"path":"README.md"}\'': "what a model gets from this call",
    'rnix call mcp__github__search \'{"query":"rnix"}\'': "starts the server, if none runs",
    'rnix call --json CountWords \'{"text":"one two"}\'': "the result, error code and duration",
  },
  notes: [
    "Plugins and MCP servers of a project that you have not trusted are not called. Inside a run, the run's rights apply.",
    "The exit code is 0 for a result, 1 for a call that failed, 64 for an unknown tool or a wrong input.",
  ],
  files: async (_io, [, input]) => (input === "-" ? { read: ["/dev/stdin"] } : {}),
  async run(io, flags, [name = "", input]) {
    const target = name.startsWith("/") ? { path: name } : { tool: name };
    const given = input === "-" ? await readInput(io) : (input ?? "{}");
    const { json, trust, "no-daemon": inside } = flags;
    const wanted = { ...target, input: "path" in target ? given : objectOf(given), trust };
    return directCall(io, wanted, { json, inside, line: true });
  },
});

async function readInput(io: Io): Promise<string> {
  if (io.stdin.kind === "none") throw usageError('INPUT: "-" needs a pipe or a file on stdin');
  const decoder = new TextDecoder();
  let text = "";
  for (let chunk = await io.stdin.read(); chunk !== null; chunk = await io.stdin.read()) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > MAX_INPUT) throw usageError(`INPUT: expected at most ${MAX_INPUT} characters on stdin`);
  }
  return text + decoder.decode();
}

function objectOf(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw usageError(
      `INPUT: expected a JSON object in quotes, such as '{"path":"README.md"}'; ${error.message}`,
    );
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
  throw usageError(`INPUT: expected a JSON object such as '{"path":"README.md"}', got ${text.slice(0, 100)}`);
}
