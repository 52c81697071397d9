import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import plugin from "../../plugins/claude/index.ts";
import type { ToolService } from "../../src/plugin/index.ts";
import { describePlugin } from "../support/conformance/plugin.ts";
import { failure } from "../support/failure.ts";
import { request } from "../support/model-server/device.ts";
import { modelOperations } from "../support/model-server/plugin-cases.ts";
import { until } from "../support/until.ts";
import { CliStage, type StandIn, user } from "./programs/cli-stage.ts";
import { standIn } from "./programs/stand-in.ts";

/** The driver without the program: what that really does is tried in test/clis. */
const DEVICE = "/dev/llm/claude";
const HELP = { help: "claude-help.txt", version: "2.1.329 (Claude Code)" };
const ANSWERS = {
  "please hang": "hang",
  "please refuse": { recorded: "claude-refused.jsonl", code: 1 },
  "please wait": { recorded: "claude-quota.jsonl", code: 1 },
  "please fail": { recorded: "", code: 1, errors: "no idea" },
  "two turns": { recorded: "claude-two-turns.jsonl" },
  "": { recorded: "claude-answer.jsonl" },
} as const;

const tools: ToolService = {
  list: async () => [{ name: "Echo", description: "Says it again", input: { type: "object" } }],
  call: async (name, input) =>
    name === "Echo" ? { text: JSON.stringify(input) } : { text: "Error NOT_FOUND: no", error: "NOT_FOUND" },
};

const STAND_IN: StandIn = ["claude", ANSWERS, HELP];

let stage: CliStage;
beforeEach(() => {
  const env = { SECRET_OF_MINE: "x", CLAUDE_CODE_SIMPLE: "1", HTTPS_PROXY: "http://proxy:1" };
  stage = new CliStage(plugin.devices[DEVICE], STAND_IN, { env, tools });
});
afterEach(() => stage[Symbol.asyncDispose]());

function after(argv: readonly string[], option: string): string | undefined {
  return argv[argv.indexOf(option) + 1];
}

describePlugin("claude", () => import("../../plugins/claude/index.ts"), {
  setup: (dir) => {
    const { path } = standIn(dir, ...STAND_IN);
    return { tools, secret: async () => "the-key", config: { extra: { command: path } } };
  },
  ...modelOperations(DEVICE, { asked: "please refuse", error: "PERMISSION" }),
});

describe("the claude CLI is started", () => {
  test("without its own tools, settings, servers and session, and with the prompt of the process", async () => {
    await stage.ask({
      system_prompt: "Be brief.",
      model: "opus",
      max_turns: 7,
      effort: "minimal",
      ...user("hi"),
    });
    const { argv, stdin } = stage.program.started();
    expect(stdin).toBe("hi");
    expect(after(argv, "--model")).toBe("opus");
    expect(after(argv, "--tools")).toBe("");
    expect(after(argv, "--setting-sources")).toBe("");
    expect(after(argv, "--max-turns")).toBe("7");
    expect(after(argv, "--effort")).toBe("low");
    expect(argv).toContain("--strict-mcp-config");
    expect(argv).toContain("--no-session-persistence");
    expect(readFileSync(after(argv, "--system-prompt-file") ?? "", "utf8")).toBe("Be brief.");
  });

  test("with its key only in the environment, and with only the variables of the run that it needs", async () => {
    await stage.ask({ ...user("hi"), max_output: 1234 });
    const { argv, env } = stage.program.started();
    expect(env).toMatchObject({
      ANTHROPIC_API_KEY: "the-key",
      HOME: stage.root,
      HTTPS_PROXY: "http://proxy:1",
      CLAUDE_CODE_MAX_OUTPUT_TOKENS: "1234",
      CLAUDE_CODE_MAX_RETRIES: "0",
    });
    expect(Object.keys(env)).not.toContain("SECRET_OF_MINE");
    expect(Object.keys(env)).not.toContain("CLAUDE_CODE_SIMPLE");
    const printed = argv.join(" ");
    for (const secret of ["the-key", env.RNIX_TOOLS_TOKEN ?? "?"]) expect(printed).not.toContain(secret);
  });

  test("with the token of its login as such", async () => {
    await stage.ask(user("hi"), { secret: async () => "sk-ant-oat01-token" });
    const { env } = stage.program.started();
    expect([env.CLAUDE_CODE_OAUTH_TOKEN, env.ANTHROPIC_API_KEY]).toEqual(["sk-ant-oat01-token", undefined]);
  });

  test("with the conversation so far, one message per line", async () => {
    const call = { id: "1", name: "Read", input: { path: "a" } };
    const messages = [
      { role: "user", content: "begin" },
      { role: "assistant", content: "I read.", tool_calls: [call] },
      { role: "tool", tool_call_id: "1", content: 'two\nlines "quoted"' },
      { role: "user", content: "go on" },
    ];
    await stage.ask({ messages });
    const lines = stage.program.started().stdin.split("\n");
    expect(lines.slice(1, 4).map((line) => JSON.parse(line))).toEqual(messages.slice(0, 3));
    expect(lines.at(-1)).toBe("go on");
  });

  test("never when it can't be confined", async () => {
    for (const [name, version, said] of [
      ["other", "3.0.0 (Claude Code)", "--setting-sources"],
      ["old", "2.1.328 (Claude Code)", "2.1.329"],
      ["older", "1.9.999 (Claude Code)", "2.1.329"],
    ] as const) {
      const path = join(stage.root, name);
      const script = `#!/bin/sh\ncase "$1" in --version) echo '${version}' ;; *) echo '--print --model' ;; esac\n`;
      writeFileSync(path, script, { mode: 0o755 });
      const context = { config: { extra: { command: path } } };
      const error = await failure(() => stage.ask(user("hi"), context));
      expect(error).toMatchObject({ code: "UNAVAILABLE", retryable: false });
      expect(error.message).toContain(said);
    }
  });

  test("once to read its abilities", async () => {
    const calls = join(stage.root, "calls");
    const path = join(stage.root, "counting");
    const script = `#!/bin/sh\necho "$1" >> '${calls}'\nexec '${stage.program.path}' "$@"\n`;
    writeFileSync(path, script, { mode: 0o755 });
    const context = { config: { extra: { command: path } } };
    for (const _again of [1, 2]) await stage.ask(user("hi"), context);
    const started = readFileSync(calls, "utf8").trim().split("\n").toSorted();
    expect(started.filter((option) => option.startsWith("--"))).toEqual(["--help", "--version"]);
  });

  test("with no prompt that it would take as its own command", async () => {
    for (const prompt of ["/init", " !ls", "# note"]) {
      await stage.ask(user(prompt));
      expect(stage.program.started().stdin).toBe(`The request:\n${prompt}`);
    }
  });

  test("from the PATH or a usual folder; otherwise the error says how to install it", async () => {
    const { provider } = plugin.devices[DEVICE];
    expect(await provider.detect({ PATH: stage.root })).toEqual({ model: "sonnet" });
    expect(await provider.detect({ PATH: "/nowhere", HOME: "/nowhere" })).toBeNull();
    const context = { env: { PATH: "/nowhere", HOME: "/nowhere" } };
    const error = await failure(() => stage.ask(user("hi"), context));
    expect(error).toMatchObject({ code: "UNAVAILABLE", retryable: false });
  });
});

describe("the output of the claude CLI", () => {
  test("becomes text, reasoning, usage and cost", async () => {
    const events = await stage.ask(user("hi"));
    expect(events).toContain('{"type":"reasoning_delta","text":"hm"}');
    expect(events).toContain(
      '{"type":"usage","usage":{"input_tokens":100,"output_tokens":7,"cached_tokens":20,"cost_usd":0.000351}}',
    );
  });

  test("reports each new request to its model", async () => {
    const events = await stage.ask(user("two turns"));
    const printed = events.match(/"type":"turn"|(?<="type":"text_delta","text":")[^"]*/g)?.join("");
    expect(printed).toBe('I try."type":"turn"Done.');
  });

  for (const [asked, code, retryable] of [
    ["please refuse", "PERMISSION", false],
    ["please wait", "EXHAUSTED", true],
    ["please fail", "UNAVAILABLE", true],
  ] as const) {
    test(`fails with ${code} for the prompt "${asked}"`, async () => {
      expect(await failure(() => stage.ask(user(asked)))).toMatchObject({ code, retryable });
    });
  }
});

describe("the endpoint of its tools", () => {
  const never = new AbortController().signal;

  /** Runs while the program is at work, with the address and the token that it was given. */
  async function during(use: (post: (body: object, token?: string) => Promise<Response>) => Promise<void>) {
    const file = await stage.open();
    await file.write(JSON.stringify({ ...request, stream: true, ...user("please hang") }), never);
    await until(() => {
      try {
        return stage.program.started().env.RNIX_TOOLS_TOKEN !== undefined;
      } catch {
        return false;
      }
    });
    const { argv, env } = stage.program.started();
    const config: { mcpServers: { rnix: { url: string } } } = JSON.parse(after(argv, "--mcp-config") ?? "");
    const { url } = config.mcpServers.rnix;
    const post = (body: object, token = env.RNIX_TOOLS_TOKEN ?? ""): Promise<Response> =>
      fetch(url, {
        method: "POST",
        headers: {
          authorization: `Bearer ${token}`,
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
        },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, ...body }),
      });
    expect(new URL(url).hostname).toBe("127.0.0.1");
    await use(post);
    await file.close();
    expect(
      await post({ method: "tools/list" }).then(
        () => "open",
        () => "closed",
      ),
    ).toBe("closed");
  }

  test("gives the process's tools only to the holder of its token, until the file is closed", async () => {
    await during(async (post) => {
      expect(await (await post({ method: "tools/list" })).text()).toContain('"name":"Echo"');
      const call = { method: "tools/call", params: { name: "Echo", arguments: { a: 1 } } };
      expect(await (await post(call)).text()).toContain('{\\"a\\":1}');
      const failed = { method: "tools/call", params: { name: "Nothing", arguments: {} } };
      expect(await (await post(failed)).text()).toContain('"isError":true');
      for (const token of ["", "wrong", "0".repeat(64)]) {
        expect((await post({ method: "tools/list" }, token)).status).toBe(401);
      }
    });
  });

  test("is a new one for each answer", async () => {
    const tokens = new Set<string | undefined>();
    for (const _again of [1, 2]) {
      await stage.ask(user("hi"));
      tokens.add(stage.program.started().env.RNIX_TOOLS_TOKEN);
    }
    expect([tokens.size, tokens.has(undefined)]).toEqual([2, false]);
  });
});
