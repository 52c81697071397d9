import { describe, expect, test } from "bun:test";
import { statSync } from "node:fs";
import { join } from "node:path";
import { binary } from "./support/binary.ts";
import { processesOf } from "./support/leftovers.ts";
import { Machine } from "./support/machine.ts";
import { MCP_PROGRAM, MCP_SERVER, mcpJson, mcpServer } from "./support/mcp.ts";
import { toolResults } from "./support/requests.ts";
import { bash, says } from "./support/scenes.ts";
import { verdict } from "./support/verdict.ts";

const env = { NOTES_TOKEN: "t0p-s3cret" };

function servers(machine: Machine): number {
  return processesOf(machine.root).filter(({ command }) => command.includes(MCP_SERVER)).length;
}

describe("rnix mcp list", () => {
  test("names each server with its file, its state and what it runs, and starts none", async () => {
    await using machine = new Machine();
    expect(await machine.run(["mcp", "list"])).toMatchObject({
      code: 0,
      stdout: "",
      stderr: "no file names an MCP server: see docs/mcp.md\n",
    });
    mcpJson(machine, {
      notes: { command: "notes-mcp", args: ["--fast"], env: { TOKEN: "hidden" } },
      odd: { command: ["x"] },
    });
    const own = join(machine.configDir, "mcp.yaml");
    machine.write(own, "servers: { web: { url: 'https://example.com/mcp' }, notes: { command: mine } }\n");
    const project = join(machine.project, ".mcp.json");
    const states = async () =>
      JSON.parse((await machine.run(["mcp", "list", "--json"])).stdout).map(
        ({ name, state, file, target }: Record<string, string>) => [name, state, file, target],
      );
    expect(await states()).toEqual([
      ["notes", "withheld", project, "notes-mcp --fast"],
      ["odd", "malformed", project, ""],
      ["web", "trusted", own, "https://example.com/mcp"],
      ["notes", "trusted", own, "mine"],
    ]);
    await machine.ok(["trust", "--yes"]);
    expect((await states()).map(([name, state]: string[]) => `${name} ${state}`)).toEqual([
      "notes trusted",
      "odd malformed",
      "web trusted",
      "notes unused",
    ]);
    const listed = await machine.run(["mcp", "list"]);
    expect(listed.stdout).toMatch(/^notes +trusted +\S+\.mcp\.json +notes-mcp --fast$/m);
    expect(listed.stdout).not.toContain("hidden");
    expect(listed.stderr).toMatch(/not usable: \S+\.mcp\.json:\d+:\d+: /);
  });
});

describe("rnix cat below /mnt/mcp", () => {
  test("reads a server's tools, resources and prompts, which starts it", async () => {
    await using machine = new Machine();
    mcpJson(machine, { notes: mcpServer() });
    const refused = await machine.run(["cat", "/mnt/mcp/notes/tools"]);
    expect([refused.code, refused.stderr]).toEqual([64, expect.stringContaining("is not trusted")]);
    await machine.ok(["trust", "--yes"]);
    const cat = async (path: string) => (await machine.run(["cat", path])).stdout;
    expect(await cat("/mnt/mcp/notes")).toBe('["tools","resources","prompts"]');
    expect(await cat("/mnt/mcp/notes/tools/echo")).toContain("Answers its input");
    expect(await cat("/mnt/mcp/notes/resources/file:///notes.txt")).toBe("remember the milk");
    // As a run names it.
    expect(await cat("/mnt/mcp/7-notes/prompts/summary")).toBe("Summarize everything, short.");
    const filled = await machine.run(["call", "/mnt/mcp/notes/prompts/summary", '{"topic": "cats"}']);
    expect(filled.stdout).toBe("Summarize cats, short.\n");
    const unknown = await machine.run(["cat", "/mnt/mcp/nots/tools"]);
    expect([unknown.code, unknown.stderr]).toEqual([64, expect.stringContaining('Did you mean "notes"?')]);
    expect(servers(machine)).toBe(1);
  });
});

describe("rnix mcp add", () => {
  test("adds a server that starts to the user's file, keeps its comments, and removes it", async () => {
    await using machine = new Machine();
    const own = join(machine.configDir, "mcp.yaml");
    machine.write(own, "# mine\nservers: {}\n");
    const program = ["--", "env", ...MCP_PROGRAM];
    const added = await machine.run(["mcp", "add", "notes", "--env", "NOTES_TOKEN=t0p", ...program]);
    expect(added.code).toBe(0);
    expect(added.stderr).toContain(`${own} has the value of NOTES_TOKEN. Better`);
    expect(added.stderr).toMatch(/notes started in \d+ ms: 13 tools/);
    expect(added.stderr).toEndWith(`notes is in ${own}\n`);
    const text = machine.read(own);
    expect(text).toStartWith("# mine\nservers:\n  notes:\n    command: env\n");
    const again = await machine.run(["mcp", "add", "notes", "--url", "http://127.0.0.1:1/"]);
    expect([again.code, again.stderr]).toEqual([64, expect.stringContaining("has a server notes")]);
    for (const [args, code] of [
      [["--", "env", ...MCP_PROGRAM, "exit"], 69],
      [["--url", "http://127.0.0.1:1/mcp"], 69],
      [["--url", "http://127.0.0.1:1/mcp", "--header", "X: $" + "{NOT_SET}"], 64],
      [["--url", "ftp://127.0.0.1"], 64],
      [["--url", "http://127.0.0.1:1/mcp", "--", "x"], 64],
      [[], 64],
    ] as const) {
      expect([args, (await machine.run(["mcp", "add", "other", ...args])).code]).toEqual([args, code]);
    }
    expect(machine.read(own)).toBe(text);
    const untested = ["mcp", "add", "docs", "--no-test", "http://127.0.0.1:1/mcp"];
    await machine.ok([...untested, "-H", "Authorization: Bearer $" + "{KEY}"]);
    expect(machine.read(own)).toEndWith(
      "  docs:\n    url: http://127.0.0.1:1/mcp\n    headers:\n      Authorization: Bearer $" + "{KEY}\n",
    );
    await machine.ok(["mcp", "remove", "docs"]);
    expect(machine.read(own)).toBe(text);
    const gone = await machine.run(["mcp", "remove", "docs"]);
    expect([gone.code, gone.stderr]).toEqual([
      expect.any(Number),
      expect.stringContaining("has no server docs"),
    ]);
    expect(servers(machine)).toBe(0);
  });

  test("writes a project's server into the project, where it waits for trust", async () => {
    await using machine = new Machine();
    machine.git("init", "-q");
    const added = await machine.run(["mcp", "add", "notes", "--project", "--", "touch", "started"]);
    expect(added.code).toBe(0);
    expect(added.stderr).toContain("Run rnix trust, then rnix mcp test notes");
    expect(machine.has("started")).toBe(false);
    expect(machine.read(".rnix/mcp.yaml")).toBe(
      "servers:\n  notes:\n    command: touch\n    args:\n      - started\n",
    );
    const elsewhere = await machine.run(["mcp", "remove", "notes"]);
    expect(elsewhere.stderr).toContain("rnix mcp remove notes --project");
    await machine.ok(["mcp", "remove", "notes", "--project"]);
    expect(machine.read(".rnix/mcp.yaml")).toBe("servers: {}\n");
    mcpJson(machine, { foreign: { command: "x" } });
    expect((await machine.run(["mcp", "remove", "foreign"])).stderr).toContain(".mcp.json: edit that file");
  });

  test("is refused inside a run", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "try it": [
        bash(`'${binary()}' mcp add x --no-test -- touch y; '${binary()}' mcp remove x`),
        says("done"),
      ],
    });
    await verdict(machine, ["try it", "--agent", "code-analyst", "--allow", "Bash"]);
    expect(toolResults(model.last)[0]).toMatch(/mcp add is for a person[\s\S]*mcp remove is for a person/);
    expect(machine.has(join(machine.configDir, "mcp.yaml"))).toBe(false);
  });
});

describe("rnix mcp test", () => {
  for (const way of [[], ["--no-daemon"]]) {
    test(`lists what a server has, and ends it ${way.join("") || "through the daemon"}`, async () => {
      await using machine = new Machine();
      mcpJson(machine, { notes: mcpServer([], { TOKEN: "$" + "{NOTES_TOKEN}" }) });
      const untrusted = await machine.run(["mcp", "test", "notes", ...way], { env });
      expect(untrusted.code).toBe(64);
      expect(untrusted.stderr).toContain("is not trusted");
      await machine.ok(["trust", "--yes"]);
      const unset = await machine.run(["mcp", "test", "notes", ...way]);
      expect([unset.code, unset.stderr]).toEqual([64, expect.stringContaining("NOTES_TOKEN is not set")]);
      const unknown = await machine.run(["mcp", "test", "nots", ...way], { env });
      expect([unknown.code, unknown.stderr]).toEqual([64, expect.stringContaining('Did you mean "notes"?')]);

      const tested = await machine.run(["mcp", "test", "notes", ...way], { env });
      expect(tested.code).toBe(0);
      expect(tested.stdout).toMatch(/^tool +echo +Answers its input$/m);
      expect(tested.stdout).toMatch(/^tool +a\.b +Has a dot in its name$/m);
      expect(tested.stdout).toMatch(/^resource +file:\/\/\/notes\.txt +Notes$/m);
      expect(tested.stdout).toMatch(/^prompt +summary +Summarizes the notes$/m);
      expect(tested.stderr).toMatch(/^notes started in \d+ ms: 13 tools, 1 resource, 1 prompt$/m);
      expect(servers(machine)).toBe(0);

      const json = JSON.parse(
        (await machine.run(["mcp", "test", "notes", "--json", ...way], { env })).stdout,
      );
      expect(json.start_ms).toBeGreaterThan(0);
      expect(json.prompts).toEqual([{ name: "summary", description: "Summarizes the notes" }]);
      expect(machine.strays()).toEqual([]);
    });
  }

  test("ends with 69 and the reason for a server that exits, hangs or does not exist", async () => {
    await using machine = new Machine();
    mcpJson(machine, {
      dies: mcpServer(["exit"]),
      hangs: { ...mcpServer(["hang"]), mount_timeout: "2s" },
      missing: { command: "no-such-mcp-server" },
      closed: { url: "http://127.0.0.1:1/mcp" },
    });
    for (const [name, reason] of [
      ["dies", "ended with exit code 1. It said: no token: set TEST_TOKEN"],
      ["hangs", "did not answer within 2 s"],
      ["missing", "no-such-mcp-server"],
      ["closed", "MCP server closed"],
    ] as const) {
      const failed = await machine.run(["mcp", "test", name, "--trust"]);
      expect([name, failed.code, failed.stdout]).toEqual([name, 69, ""]);
      expect(failed.stderr).toContain(reason);
    }
    const json = await machine.run(["mcp", "test", "dies", "--trust", "--json"]);
    expect([json.code, JSON.parse(json.stdout)]).toEqual([
      69,
      { error: expect.stringContaining("set TEST_TOKEN"), error_code: "UNAVAILABLE" },
    ]);
    expect(servers(machine)).toBe(0);
  });

  test("is refused inside a run", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "try it": [
        bash(`'${binary()}' mcp test notes; '${binary()}' mcp test notes --no-daemon`),
        says("done"),
      ],
    });
    machine.write(
      join(machine.configDir, "mcp.yaml"),
      "servers: { notes: { command: touch, args: [started] } }\n",
    );
    await verdict(machine, ["try it", "--agent", "code-analyst", "--allow", "Bash"]);
    const [result] = toolResults(model.last);
    expect(result).toContain("can't test an MCP server: do it from your own terminal");
    expect(machine.has("started")).toBe(false);
  });
});

describe("rnix mcp logs", () => {
  for (const way of [[], ["--no-daemon"]]) {
    test(`prints what a server wrote to stderr, and keeps it out of the daemon's log ${way.join()}`, async () => {
      await using machine = new Machine();
      const own = join(machine.configDir, "mcp.yaml");
      machine.write(own, `servers: { notes: ${JSON.stringify(mcpServer(["exit"]))} }\n`);
      expect(await machine.run(["mcp", "logs", "notes"])).toMatchObject({
        code: 0,
        stdout: "",
        stderr: "notes has printed nothing\n",
      });
      expect((await machine.run(["mcp", "test", "notes", ...way])).code).toBe(69);
      const { stdout, code } = await machine.run(["mcp", "logs", "notes", "-n", "1"]);
      expect(code).toBe(0);
      expect(stdout).toEndWith(`${machine.project}: no token: set TEST_TOKEN\n`);
      expect(stdout.trimEnd().split("\n")).toHaveLength(1);
      expect((await machine.run(["daemon", "logs"])).stdout).not.toContain("TEST_TOKEN");
      const [file] = machine.search("set TEST_TOKEN").filter((path) => path.endsWith("mcp-notes.log"));
      expect(statSync(join(machine.root, file ?? expect.unreachable())).mode & 0o777).toBe(0o600);
      expect((await machine.run(["mcp", "logs", "../daemon"])).code).toBe(64);
    });
  }
});
