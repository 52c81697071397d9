import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { type McpServerRef, mcpMounts } from "../../src/config/mcp/mcp.ts";
import { trustItems } from "../../src/config/trust-items.ts";
import { SyscallError } from "../../src/plugin/index.ts";
import { failure, Sandbox } from "./sandbox.ts";

const USER = "home/.config/rnix/mcp.yaml";
const PROJECT = "home/work/.rnix/mcp.yaml";
const FOREIGN = "home/work/.mcp.json";

let box: Sandbox;
beforeEach(() => {
  box = new Sandbox();
});
afterEach(() => box[Symbol.dispose]());

function wish(name: string, required = true): McpServerRef {
  return { name, required, wrong: (message) => new SyscallError("INVALID", `agent.yaml:3:7: ${message}`) };
}

function surroundings(env: Record<string, string> = {}, services: string[] = []) {
  const timeouts = { mcp_mount_timeout: 5_000, mcp_request_timeout: 60_000, mcp_wait: 2_000 };
  return { sources: box.sources(), envs: [env], timeouts, services };
}

function mounts(wishes: readonly McpServerRef[], env: Record<string, string> = {}, services: string[] = []) {
  return mcpMounts({ mcp: wishes, mcpAll: false }, surroundings(env, services));
}

/** Of an agent that takes every trusted server. */
function every(env: Record<string, string> = {}, services: string[] = []) {
  return mcpMounts({ mcp: [], mcpAll: true }, surroundings(env, services));
}

/** Everything of the project is trusted as it is now. */
async function trust(): Promise<void> {
  const given = box.trust();
  given.accept(await trustItems(box.sources(), given, []), Date.UTC(2026, 0, 1));
}

describe("an agent's MCP servers", () => {
  test("are mounted with what the user's mcp.yaml says, variables filled in", async () => {
    box.write(
      USER,
      `servers:
  github:
    command: npx
    args: [-y, "server-github@\${VERSION:-1.2}"]
    env: { TOKEN: "\${GITHUB_TOKEN}" }
    mount_timeout: 20s
    request_timeout: 2m
    max_output: 4MiB
    shared: false
  web: { url: "https://\${HOST}/mcp", headers: { Authorization: "Bearer \${KEY}" } }
`,
    );
    const env = { GITHUB_TOKEN: "t0p", HOST: "example.com", KEY: "k" };
    expect(await mounts([wish("github"), wish("web", false)], env)).toEqual({
      untrusted: [],
      notices: [],
      mounts: [
        {
          type: "mcp",
          name: "github",
          config: {
            name: "github",
            command: "npx",
            args: ["-y", "server-github@1.2"],
            env: { TOKEN: "t0p" },
            mountTimeoutMs: 20_000,
            requestTimeoutMs: 120_000,
            maxOutputBytes: 4 * 1024 * 1024,
          },
          timeoutMs: 21_000,
          shared: false,
          required: true,
        },
        {
          type: "mcp",
          name: "web",
          config: {
            name: "web",
            url: "https://example.com/mcp",
            headers: { Authorization: "Bearer k" },
            mountTimeoutMs: 5_000,
            requestTimeoutMs: 60_000,
          },
          timeoutMs: 6_000,
          shared: undefined,
          required: false,
          waitMs: 2_000,
        },
      ],
    });
  });

  test("are the project's where it is trusted, before the ecosystem's file and the user's", async () => {
    const said = async () => {
      const { mounts: found } = await mounts([wish("x")]);
      return found.map(({ config }) => Object(config).command);
    };
    box.write(USER, "servers: { x: { command: users } }\n");
    box.write(FOREIGN, '{"mcpServers": {"x": {"command": "foreign", "alwaysAllow": ["y"]}}, "other": 1}');
    expect(await said(), "nothing of the project is trusted").toEqual(["users"]);
    await trust();
    expect(await said()).toEqual(["foreign"]);
    box.write(PROJECT, "servers: { x: { command: own } }\n");
    expect(await said(), "the new file is not trusted yet").toEqual(["foreign"]);
    await trust();
    expect(await said()).toEqual(["own"]);
  });

  test("of an untrusted project are left out where the agent does not require them", async () => {
    const file = box.write(FOREIGN, '{"mcpServers": {"x": {"command": "c"}}}');
    const text = `The MCP server x is left out: ${file} is not trusted. Look at it, then run \`rnix trust\`, or give --trust for this run.`;
    expect(await mounts([wish("x", false)])).toEqual({ mounts: [], untrusted: [], notices: [text] });
    expect(await failure(() => mounts([wish("x")]))).toMatchObject({ code: "INVALID", message: text });
  });

  test("with an unset variable are left out where the agent does not require them", async () => {
    const file = box.write(USER, `servers:\n  x: { command: c, env: { A: "\${TOKEN}" } }\n`);
    const text = `${file}:2:30: the variable TOKEN is not set; set it, or write \${TOKEN:-} for nothing`;
    expect((await mounts([wish("x", false)])).notices).toEqual([text]);
    expect((await failure(() => mounts([wish("x")]))).message).toBe(text);
  });

  test("may be up for the project already: nothing is read of them", async () => {
    expect((await mounts([wish("db")], {}, ["db"])).mounts).toEqual([
      { type: "mcp", name: "db", config: { name: "db" }, required: true },
    ]);
  });

  test("that do not exist are reported at the agent's line, with the nearest name", async () => {
    box.write(USER, "servers: { github: { command: c } }\n");
    const wrong = await failure(() => mounts([wish("githb", false)]));
    expect(wrong.message).toContain("agent.yaml:3:7: expected an MCP server");
    expect(wrong.message).toContain('got "githb"');
    expect(wrong.message).toContain('Did you mean "github"?');
  });

  test("cost nothing to an agent that names none", async () => {
    box.write(USER, "servers: [\n");
    expect(await mounts([])).toEqual({ mounts: [], untrusted: [], notices: [] });
  });

  test("of an agent that takes all are the trusted ones; the others are named together", async () => {
    box.write(USER, "servers: { mine: { command: m }, both: { command: m } }\n");
    const file = box.write(
      FOREIGN,
      '{"mcpServers": {"a": {"command": "x"}, "b": {"url": "https://e.com"}, "both": {"command": "x"}}}',
    );
    const names = ({ mounts: found }: Awaited<ReturnType<typeof every>>) =>
      found.map(({ name }) => name).sort();
    const before = await every({}, ["up"]);
    expect(names(before)).toEqual(["both", "mine", "up"]);
    for (const mount of before.mounts)
      expect(mount).toMatchObject({ required: false, offered: true, waitMs: 2_000 });
    expect(before).toMatchObject({ untrusted: [`the MCP servers a, b of ${file}`], notices: [] });
    await trust();
    const after = await every();
    expect(names(after)).toEqual(["a", "b", "both", "mine"]);
    expect(after).toMatchObject({ untrusted: [], notices: [] });
  });

  test("that are invalid do not stop a run of an agent without them", async () => {
    box.write(
      USER,
      'servers:\n  good: { command: c }\n  odd: { comand: c }\n  unset: { command: c, env: { A: "$' +
        '{TOKEN}" } }\n',
    );
    const file = box.write(FOREIGN, '{"mcpServers": {');
    const { mounts: found, notices } = await every();
    expect(found.map(({ name }) => name)).toEqual(["good"]);
    expect(notices).toEqual([
      expect.stringContaining(`MCP servers are left out: ${file}:1:17: expected JSON: the "{" of line 1`),
      expect.stringContaining('did you mean "command"?'),
      expect.stringContaining("the variable TOKEN is not set"),
    ]);
    expect((await failure(() => mounts([wish("good")]))).message).toContain(file);
  });

  test.each([
    [
      '{\n  "mcpServers": {\n    "a": {"command": "c"}\n    "b": {}\n  }\n}',
      "4:5",
      'expected "," or "}", found "\\""',
    ],
    ['{\n  // mine\n  "mcpServers": {"a" {}}\n}', "2:3", "no comments"],
    ["{'mcpServers': {]}", "1:2", "a single quote"],
    ['{"mcpServers": {"a": [}}', "1:23", "expected a value"],
    ['{"mcpServers": {"a": {"command": "c}}}', "1:34", "no closing double quote"],
    ['{"mcpServers": {"a": {"command": "C:\\x"}}', "1:37", "backslash"],
    ['{"mcpServers": {}}}', "1:19", "nothing may follow"],
  ])("a broken .mcp.json is explained as JSON: %j", async (source, position, words) => {
    const file = box.write(FOREIGN, source);
    const { message } = await failure(() => mounts([wish("a")]));
    expect(message).toStartWith(`${file}:${position}: expected JSON: `);
    expect(message).toContain(words);
  });

  test("of a .mcp.json may have our own keys, next to those of other products", async () => {
    box.write(FOREIGN, '{"mcpServers": {"x": {"command": "c", "mount_timeout": "2m", "timeout": 5}}}');
    await trust();
    expect((await every()).mounts).toMatchObject([{ name: "x", timeoutMs: 121_000 }]);
  });

  const FAULTS: [string, string, string, string][] = [
    ["an unknown key", "servers: { x: { comand: c } }", "1:17", 'did you mean "command"?'],
    ["both ways at once", "servers: { x: { command: c, url: https://e.com } }", "1:15", "either a command"],
    ["neither way", "servers: { x: { args: [a] } }", "1:15", "either a command"],
    [
      "a way that is none",
      "servers: { x: { type: sse, url: https://e.com } }",
      "1:23",
      "expected one of stdio",
    ],
    ["no address", "servers: { x: { url: nowhere } }", "1:22", "expected a URL"],
    ["another protocol", "servers: { x: { url: ftp://e.com } }", "1:22", "expected a URL"],
    ["a list of servers", "servers: [x]", "1:10", "expected a mapping of server names"],
    ["a number as a variable", "servers: { x: { command: c, env: { A: 1 } } }", "1:39", "in quotes"],
    ["no duration", "servers: { x: { command: c, mount_timeout: soon } }", "1:44", "duration"],
    ["too little output", "servers: { x: { command: c, max_output: 1B } }", "1:41", "from 1KiB"],
    ["something else", "mcpServers: {}", "1:1", "unknown key"],
  ];
  for (const [what, text, position, message] of FAULTS) {
    test(`${what} is an error with its position`, async () => {
      const file = box.write(USER, `${text}\n`);
      const wrong = await failure(() => mounts([wish("x")]));
      expect(wrong.code).toBe("INVALID");
      expect(wrong.message).toContain(`${file}:${position}: `);
      expect(wrong.message).toContain(message);
    });
  }

  test("a name that fits in no path is an error of the file that has it", async () => {
    box.write(USER, "servers: { a__b: { command: c } }\n");
    expect((await failure(() => mounts([wish("a__b")]))).message).toContain("1:12: expected a name");
  });
});
