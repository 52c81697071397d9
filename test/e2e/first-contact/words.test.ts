import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { createServer, connect as dial, type Socket } from "node:net";
import { join } from "node:path";
import { Machine } from "../support/machine.ts";
import { mcpServer } from "../support/mcp.ts";
import { toolNames } from "../support/requests.ts";
import { bash, says } from "../support/scenes.ts";
import { Receipt } from "../support/verdict.ts";

/** What a user types, and what the command prints. */

setDefaultTimeout(60_000);

const HELD = bash("touch held; until test -e go; do sleep 0.02; done");

describe("a sentence without quotes", () => {
  test.each([
    [["spawn", "fix", "the", "bug"], "INTENT", 'put it in quotes: "fix the bug"'],
    [["spawn", "--agent", "coder", "what costs", "$5?"], "INTENT", "put it in quotes: 'what costs $5?'"],
    [["resume", "1", "now", "the", "tests"], "INPUT", 'put it in quotes: "now the tests"'],
  ])("%p names the quotes", async (args, name, hint) => {
    await using machine = new Machine();
    const { code, stderr, stdout } = await machine.run(args);
    expect({ code, stdout }).toEqual({ code: 64, stdout: "" });
    expect(stderr).toContain(`${name} is one argument`);
    expect(stderr).toContain(hint);
    expect(machine.has(".rnix")).toBe(false);
  });
});

test("--allow and --deny take several tools in one value, and so does rnix deny", async () => {
  await using machine = new Machine();
  const model = await machine.play({ look: [says("seen")], hold: [HELD, says("done")] });
  const shown = async (...args: string[]): Promise<string[]> => {
    await machine.ok(["spawn", "look", ...args]);
    const request = model.requests.at(-1);
    return request ? toolNames(request) : [];
  };
  expect(await shown("--allow", "Read,Grep")).toEqual(["Grep", "Read"]);
  expect(await shown("--allow", "Read, Bash(git log --format=%h,%s)", "--allow", "Glob")).toEqual([
    "Bash",
    "Glob",
    "Read",
  ]);
  expect(await shown("--allow", "Read,Grep,Bash", "--deny", "Bash,Grep")).toEqual(["Read"]);
  const wrong = await machine.run(["spawn", "look", "--allow", "Read,Gerp"]);
  expect(wrong.code).toBe(64);
  expect(wrong.stderr).toContain('There is no tool "Gerp". Did you mean "Grep"?');

  const run = machine.start(["spawn", "hold"]);
  await machine.held();
  const denied = await machine.run(["deny", "PID", "Write,Edit"].with(1, await lastPid(machine)));
  expect(denied.stderr).toContain("denied: Edit, Write");
  machine.write("go", "");
  expect((await run.done).code).toBe(0);
});

test("--allow that leaves out an agent's MCP server says so, and how to use its tools", async () => {
  await using machine = new Machine();
  const model = await machine.play({ look: [says("seen")] });
  const servers = { notes: mcpServer() };
  machine.write(join(machine.configDir, "mcp.yaml"), JSON.stringify({ servers }));
  const agent = join(machine.configDir, "agents/keeper");
  machine.write(`${agent}/agent.yaml`, "name: keeper\ndescription: Keeps notes\nmcp: [notes]\n");
  machine.write(`${agent}/instructions.md`, "Keep the notes.\n");
  const spawn = ["spawn", "look", "--agent", "keeper", "--allow"];

  const narrowed = await machine.run([...spawn, "Bash"]);
  expect(narrowed).toMatchObject({ code: 0 });
  expect(narrowed.stderr).toContain("note: --allow leaves out the MCP server notes");
  const [request] = model.requests;
  if (!request) throw new Error("the model was not asked");
  expect(toolNames(request)).toEqual(["Bash"]);
  const denied = await machine.run(["spawn", "look", "--agent", "keeper", "--deny", "mcp__*"]);
  expect(denied).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("--deny leaves out the MCP server"),
  });
  const again = await machine.run(["resume", "1", "look again"]);
  expect(again).toMatchObject({ code: 0, stderr: expect.stringContaining("leaves out") });
  const [, hint = ""] = /add --allow '([^']+)'/.exec(narrowed.stderr) ?? [];
  const together = await machine.run([...spawn, `Bash,${hint}`]);
  expect(together.stderr).not.toContain("leaves out");
  expect(toolNames(model.requests.at(-1) ?? request)).toContain("mcp__notes__echo");
});

describe("a lost connection to the daemon", () => {
  test("that still runs is reconnected: the run is followed to its end", async () => {
    await using machine = await Machine.playing({ hold: [HELD, says("done")] });
    await machine.run(["daemon", "start"]);
    await using proxy = await SocketProxy.before(machine.socket, join(machine.temp, "proxy.sock"));
    const env = { RNIX_SOCKET: proxy.path };
    const run = machine.start(["spawn", "hold", "--output", "json"], { env });
    await machine.held();
    const attached = machine.start(["attach", "1"], { env });
    await attached.stderr.has(/process 1 /);
    for (let cut = 1; cut <= 2; cut++) {
      proxy.cut();
      for (const { stderr } of [run, attached])
        await stderr.has(new RegExp(`(?:lost and is back[^]*){${cut}}`));
    }
    machine.write("go", "");
    const { code, stdout, stderr } = await run.done;
    expect({ code, receipt: Receipt.parse(JSON.parse(stdout)) }).toMatchObject({
      code: 0,
      receipt: { result: "done" },
    });
    expect(stderr).toContain("note: the connection to the daemon was lost and is back: rnix log 1");
    expect((await attached.done).code).toBe(0);
  });
});

async function lastPid(machine: Machine): Promise<string> {
  const { stdout } = await machine.run(["ps", "--json"]);
  const [{ pid }] = JSON.parse(stdout) as [{ pid: number }];
  return String(pid);
}

/** Carries connections to the daemon's socket until it is asked to cut them. */
class SocketProxy implements AsyncDisposable {
  readonly path: string;
  readonly #sockets = new Set<Socket>();
  readonly #server: ReturnType<typeof createServer>;

  static async before(target: string, path: string): Promise<SocketProxy> {
    const proxy = new SocketProxy(target, path);
    await new Promise<void>((listening) => proxy.#server.listen(path, listening));
    return proxy;
  }

  private constructor(target: string, path: string) {
    this.path = path;
    this.#server = createServer((client) => {
      const daemon = dial(target);
      for (const [one, other] of [
        [client, daemon],
        [daemon, client],
      ] as const) {
        this.#sockets.add(one);
        one.pipe(other);
        one.on("error", () => undefined);
        one.on("close", () => {
          this.#sockets.delete(one);
          other.destroy();
        });
      }
    });
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    await new Promise<void>((closed) => this.#server.close(() => closed()));
  }
}
