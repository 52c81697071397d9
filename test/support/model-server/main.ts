import { readFileSync } from "node:fs";
import { Script, Turn } from "./script.ts";
import { ModelServer } from "./server.ts";

/**
 * `bun test/support/model-server/main.ts script.json [PORT]`: serves the script (an object or a list of
 * turns), prints its URL (without /v1) as the first line, and stops on TERM or INT.
 */
const [file, port] = process.argv.slice(2);
if (file === undefined) {
  process.stderr.write("usage: bun test/support/model-server/main.ts script.json [PORT]\n");
  process.exit(64);
}
const script = Script.parse(asScript(JSON.parse(readFileSync(file, "utf8"))));
const server = await ModelServer.start(script, Number(port ?? 0));
process.stdout.write(`${server.url}\n`);
for (const signal of ["SIGTERM", "SIGINT"] as const)
  process.once(signal, () => void server.stop().then(() => process.exit(0)));

function asScript(json: unknown): unknown {
  return Array.isArray(json) ? { turns: json.map((turn) => Turn.parse(turn)) } : json;
}
