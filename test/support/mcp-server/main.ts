/**
 * A real MCP server for tests, on stdin and stdout: `bun main.ts [BEHAVIOUR]`. Faults that no library makes are
 * played by hand.
 */
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { serveModern } from "./modern.ts";
import { testServer } from "./tools.ts";

const behaviour = process.argv[2] ?? "";

switch (behaviour) {
  case "hang":
    process.stdin.resume();
    break;
  case "exit":
    process.stderr.write("no token: set TEST_TOKEN\n");
    process.exit(1);
    break;
  case "garbage":
    process.stdin.on("data", () =>
      process.stdout.write("<html>502 Bad Gateway</html>\n{ not json\n\u0000\n"),
    );
    break;
  case "flood":
    flood();
    await serve();
    break;
  case "chatty":
    process.stdout.write("Starting the server…\n\nListening.\n");
    await serve();
    break;
  case "modern":
    await serveModern();
    break;
  case "old":
    // As servers that end at whatever comes before `initialize`.
    await serve((first) => {
      if (!first.includes('"initialize"')) process.exit(2);
    });
    break;
  case "stubborn":
    process.on("SIGTERM", () => undefined);
    setInterval(() => undefined, 1_000);
    Bun.spawn(["sleep", "600"], { stdio: ["ignore", "ignore", "ignore"] });
    await serve();
    break;
  default:
    await serve();
}

async function serve(look?: (first: string) => void): Promise<void> {
  if (look) process.stdin.once("data", (data) => look(String(data)));
  await testServer().connect(new StdioServerTransport());
}

/** Writes to stderr as fast as it is taken. */
function flood(): void {
  const line = `${"noise ".repeat(100)}\n`;
  const more = (): void => {
    while (process.stderr.write(line));
    process.stderr.once("drain", more);
  };
  more();
}
