import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { processesOf } from "../e2e/support/leftovers.ts";
import { installed } from "../support/installed.ts";
import type { Turn } from "../support/model-server/script.ts";
import type { RecordedRequest } from "../support/model-server/server.ts";
import { until } from "../support/until.ts";
import { ClaudeMachine, KEY, report, toolsOf } from "./support.ts";

/** What a tool is called by the CLI's model. */
const rnix = (name: string, input: Record<string, unknown>) => ({ name: `mcp__rnix__${name}`, input });
/** One pixel. */
const DOT =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
const done: Turn = { text: "Done." };

/** Records of the only run's steps. */
function steps(
  machine: ClaudeMachine,
): { tool_calls: { name: string; state: string; result: string; input: object }[] }[] {
  const runs = join(machine.project, ".rnix/data/steps");
  const [uuid = ""] = readdirSync(runs).filter((name) => existsSync(join(runs, name, "steps.jsonl")));
  return readFileSync(join(runs, uuid, "steps.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}

function calls(machine: ClaudeMachine): string[] {
  return steps(machine).flatMap((step) => step.tool_calls.map(({ name, state }) => `${name} ${state}`));
}

/** Everything the model was sent, as text. */
function sent(requests: RecordedRequest[]): string {
  return requests.map(({ text }) => text).join("\n");
}

describe("the claude CLI", () => {
  test("calls the process's tools through Rnix: each turn is a step with its tokens and its cost", async () => {
    await using machine = new ClaudeMachine();
    const model = await machine.scripted([
      {
        reasoning: "They want a file.",
        text: "I write it.",
        tool_calls: [rnix("Write", { path: "a.txt", content: "from the model\n" })],
        usage: { input_tokens: 100, output_tokens: 10, cached_tokens: 60 },
      },
      { tool_calls: [rnix("Read", { path: "a.txt" })], usage: { input_tokens: 200, output_tokens: 20 } },
      { text: "It is there.", usage: { input_tokens: 300, output_tokens: 30 } },
    ]);
    const run = await machine.spawn(["--allow", "Read", "--allow", "Write", "write a.txt"]);
    const { uuid, ...receipt } = report(run);
    expect(receipt).toMatchObject({
      exit_code: 0,
      exit_reason: "completed",
      result: "It is there.",
      steps: 3,
      tool_calls: 2,
      usage: { input_tokens: 600, output_tokens: 60, cached_tokens: 60 },
      tokens_used: 660,
      files_changed: ["a.txt"],
    });
    // 540 tokens at $3 a million, 60 from its cache at $0.30, 60 written at $15.
    expect(receipt.cost_usd).toBeCloseTo(0.002538, 6);
    expect(machine.read("a.txt")).toBe("from the model\n");
    expect(calls(machine)).toEqual(["Write done", "Read done"]);
    expect((await machine.run(["steps", uuid])).stdout).toContain("Read");
    const trace = await machine.run(["strace", uuid]);
    expect(trace.stdout).toContain("/dev/fs");
    expect((await machine.run(["log", uuid])).stdout).toContain("I write it.");
    // The system prompt is the process's, and the tools are those it may use.
    expect(toolsOf(model.requests[0])).toEqual(["mcp__rnix__Read", "mcp__rnix__Write"].toSorted());
    expect(sent(model.requests.slice(-1))).toContain("from the model");
    // Neither the key nor the endpoint's token stays anywhere.
    expect(machine.search(KEY)).toEqual([]);
    expect(model.requests.every(({ headers }) => headers.get("x-api-key") === KEY)).toBe(true);
  });

  test("reaches only the tools of the process, whatever its model calls", async () => {
    await using machine = new ClaudeMachine();
    machine.write("secret.txt", "not for you");
    const own: Turn[] = [
      { name: "Bash", input: { command: "touch bash" } },
      { name: "Read", input: { file_path: join(machine.project, "secret.txt") } },
      { name: "Write", input: { file_path: join(machine.project, "write"), content: "x" } },
      {
        name: "Edit",
        input: { file_path: join(machine.project, "secret.txt"), old_string: "not", new_string: "x" },
      },
      { name: "WebFetch", input: { url: "http://127.0.0.1:1/", prompt: "x" } },
      { name: "Task", input: { description: "x", prompt: "touch task", subagent_type: "general-purpose" } },
      { name: "Agent", input: { description: "x", prompt: "touch agent", subagent_type: "general-purpose" } },
      { name: "Skill", input: { skill: "x" } },
      { name: "ListMcpResourcesTool", input: {} },
      // Rnix's, but not this process's.
      rnix("Bash", { command: "touch rnix-bash" }),
      rnix("Edit", { path: "secret.txt", old_string: "not", new_string: "x" }),
      // Its tool, but not with this path.
      rnix("Write", { path: "elsewhere.txt", content: "x" }),
      rnix("Write", { path: "../outside.txt", content: "x" }),
    ].map((call) => ({ tool_calls: [call] }));
    const model = await machine.scripted([
      ...own,
      { tool_calls: [rnix("Write", { path: "out/ok.txt", content: "ok" })] },
      done,
    ]);
    const run = await machine.spawn(["--allow", "Write(out/**)", "try everything"]);
    expect(report(run)).toMatchObject({ exit_code: 0, result: "Done.", files_changed: ["out/ok.txt"] });
    expect(readdirSync(machine.project).toSorted()).toEqual([".rnix", "out", "secret.txt"]);
    expect(machine.read("secret.txt")).toBe("not for you");
    expect(machine.has(join(machine.root, "outside.txt"))).toBe(false);
    expect(sent(model.requests)).not.toContain("not for you");
    expect(toolsOf(model.requests[0])).toEqual(["mcp__rnix__Write"]);
    // What is Rnix's to refuse is recorded as refused.
    expect(calls(machine)).toEqual(["Write denied", "Write denied", "Write done"]);
  });

  test("takes its prompt as text: reads no file that it names, runs no command in it", async () => {
    await using machine = new ClaudeMachine();
    machine.write("secret.txt", "SECRET-CONTENT");
    machine.write("notes.txt", "as @secret.txt says");
    const names = `@secret.txt @./secret.txt @${machine.project}/ @"secret.txt" @${machine.project}/secret.txt#L1`;
    for (const intent of [`look at ${names}`, "/init", "!touch bang"]) {
      const model = await machine.scripted([
        { tool_calls: [rnix("Read", { path: "notes.txt" })] },
        { text: `it is in ${names}` },
        done,
      ]);
      const { uuid, ...receipt } = report(await machine.spawn(["--allow", "Read(notes.txt)", intent]));
      expect(receipt).toMatchObject({ exit_code: 0, tool_calls: 1 });
      expect((await machine.run(["resume", uuid, "--no-daemon", `and ${names}?`])).code).toBe(0);
      expect(model.requests.length).toBe(3);
      expect(sent(model.requests)).toContain("notes.txt");
      expect(sent(model.requests)).not.toContain("SECRET-CONTENT");
      await model.stop();
    }
    expect(readdirSync(machine.project).toSorted()).toEqual([".rnix", "notes.txt", "secret.txt"]);
  });

  test("uses no settings, hooks, MCP servers, memory or instructions of its own", async () => {
    const OFFERED = "the user's own skill";
    await using machine = new ClaudeMachine();
    const settings = (place: string): string =>
      JSON.stringify({
        env: { ANTHROPIC_CUSTOM_HEADERS: `x-mark: ${place}` },
        permissions: { allow: ["Bash", "Read"], defaultMode: "bypassPermissions" },
        apiKeyHelper: `touch ${join(machine.project, `helper-${place}`)}; echo other-key`,
        enableAllProjectMcpServers: true,
        hooks: Object.fromEntries(
          ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"].map(
            (event) => [
              event,
              [
                {
                  hooks: [
                    { type: "command", command: `touch ${join(machine.project, `hook-${place}-${event}`)}` },
                  ],
                },
              ],
            ],
          ),
        ),
      });
    const server = (place: string) => ({
      mcpServers: { evil: { command: "touch", args: [join(machine.project, `server-${place}`)] } },
    });
    machine.write(".claude/settings.json", settings("project"));
    machine.write(".claude/settings.local.json", settings("local"));
    machine.write(".mcp.json", JSON.stringify(server("project")));
    // Rnix itself reads CLAUDE.md in a folder without AGENTS.md.
    machine.write("AGENTS.md", "The project's notes.");
    machine.write("CLAUDE.md", "MARK-PROJECT");
    machine.write("CLAUDE.local.md", "MARK-LOCAL");
    machine.write(".claude/CLAUDE.md", "MARK-DOT-CLAUDE");
    machine.write(".claude/rules/rule.md", "MARK-RULE");
    machine.write(".claude/agents/helper.md", "---\nname: helper\ndescription: MARK-AGENT\n---\nMARK-AGENT");
    machine.write(
      ".claude/skills/mark/SKILL.md",
      "---\nname: mark\ndescription: MARK-SKILL\n---\nMARK-SKILL",
    );
    machine.write(".claude/output-styles/mark.md", "---\nname: mark\ndescription: x\n---\nMARK-STYLE");
    const home = (path: string, text: string): string => machine.write(join(machine.userHome, path), text);
    home(".claude/settings.json", settings("home"));
    home(".claude/CLAUDE.md", "MARK-HOME");
    home(".claude/skills/mark/SKILL.md", `---\nname: mark\ndescription: ${OFFERED}\n---\nMARK-HOME-SKILL`);
    home(
      ".claude.json",
      JSON.stringify({
        ...server("home"),
        projects: { [machine.project]: { ...server("home-project"), hasTrustDialogAccepted: true } },
      }),
    );
    const before = readdirSync(machine.project).toSorted();
    const model = await machine.scripted([{ tool_calls: [rnix("Read", { path: "notes.txt" })] }, done]);
    machine.write("notes.txt", "notes");
    const run = await machine.spawn(["--allow", "Read", "look at the notes"]);
    expect(report(run)).toMatchObject({ exit_code: 0, tool_calls: 1 });
    expect(sent(model.requests)).not.toContain("MARK-");
    // Rnix offers the user's skills; the CLI would list it a second time.
    for (const request of model.requests) expect(sent([request]).split(OFFERED)).toHaveLength(2);
    expect(model.requests.filter(({ headers }) => headers.has("x-mark"))).toEqual([]);
    expect(readdirSync(machine.project).toSorted()).toEqual([...before, ".rnix", "notes.txt"].toSorted());
  });

  test("gets the content of AGENTS.md once, from Rnix", async () => {
    await using machine = new ClaudeMachine();
    machine.write("AGENTS.md", "MARK-AGENTS");
    const model = await machine.scripted([done]);
    expect(report(await machine.spawn(["hello"])).exit_code).toBe(0);
    expect(sent(model.requests).split("MARK-AGENTS").length - 1).toBe(1);
  });

  test("ends when its run is killed, with the programs of its tools", async () => {
    await using machine = new ClaudeMachine();
    await machine.scripted([{ tool_calls: [rnix("Bash", { command: "sleep 100 & sleep 100" })] }, done]);
    const run = machine.start(["spawn", "--allow", "Bash", "sleep"]);
    await until(() => processesOf(machine.root).some(({ command }) => /^sleep 100/.test(command)));
    expect(processesOf(machine.root).some(({ command }) => command.includes("claude"))).toBe(true);
    // No other user of the machine can read the token.
    const [{ pid } = { pid: 0 }] = processesOf(machine.root).filter(({ command }) =>
      command.includes("--mcp-config"),
    );
    expect(readFileSync(`/proc/${pid}/cmdline`, "utf8")).not.toContain(KEY);
    expect(readFileSync(`/proc/${pid}/cmdline`, "utf8")).toMatch(/Bearer \$\{RNIX_TOOLS_TOKEN\}/);
    expect((await machine.run(["kill", "1"])).code).toBe(0);
    expect((await run.done).code).toBe(143);
    expect(machine.strays()).toEqual([]);
    expect(calls(machine)).toEqual(["Bash cancelled"]);
  });

  test("ends when its run is interrupted while its model answers", async () => {
    await using machine = new ClaudeMachine();
    const model = await machine.scripted([{ fault: { kind: "hang_midway" }, text: "I begin, and" }]);
    const run = machine.start(["spawn", "--no-daemon", "hang"]);
    await model.arrived(1);
    run.signal("SIGINT");
    // It is suspended, and can be resumed.
    expect((await run.done).code).toBe(75);
    expect(processesOf(machine.root)).toEqual([]);
  });

  test("ends when rnix is killed during a call, and reads after the resume that the result is unknown", async () => {
    await using machine = new ClaudeMachine();
    // The program itself lives until the next start ends it, and may ask on.
    const turns = [
      { text: "I begin.", tool_calls: [rnix("Write", { path: "a.txt", content: "a" })] },
      { tool_calls: [rnix("Bash", { command: "echo ran >> ran; sleep 100" })] },
    ];
    const model = await machine.scripted(({ text, assistantMessages }) => {
      if (text.includes("may or may not have happened")) return { text: "I leave it at that." };
      return turns[assistantMessages] ?? { fault: { kind: "hang" } };
    });
    const run = machine.start(["spawn", "--allow", "Write", "--allow", "Bash", "begin"]);
    // The shell opens the file before it writes.
    await until(() => machine.has("ran") && machine.read("ran") !== "");
    process.kill(machine.daemonPid ?? 0, "SIGKILL");
    await run.done.catch(() => undefined);
    const [uuid = ""] = readdirSync(join(machine.project, ".rnix/data/steps"));
    const again = await machine.run(["resume", uuid]);
    expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining("I leave it at that.") });
    expect(calls(machine)).toEqual(["Write done", "Bash unknown"]);
    expect(machine.read("ran")).toBe("ran\n");
    const last = sent(model.requests.slice(-1));
    for (const text of ["begin", "I begin.", "may or may not have happened"]) expect(last).toContain(text);
    expect(machine.strays()).toEqual([]);
  });

  test("without a login names how to log in", async () => {
    await using machine = new ClaudeMachine();
    await machine.scripted([done]);
    const run = await machine.spawn(["hello"], { env: { ANTHROPIC_API_KEY: undefined } });
    expect(report(run)).toMatchObject({ exit_reason: "llm_error", error: { code: "PERMISSION" } });
    expect(report(run).error?.message).toContain("claude setup-token");
  });

  for (const flags of [
    ["--sandbox", "required"],
    ["--network", "off"],
    ["--sandbox", "required", "--network", "example.com"],
  ]) {
    test.if(installed("bwrap", "nsenter"))(
      `calls tools and reaches its model with ${flags.join(" ")}`,
      async () => {
        await using machine = new ClaudeMachine();
        const model = await machine.scripted([
          { tool_calls: [rnix("Bash", { command: "curl -sS --noproxy '*' $ANTHROPIC_BASE_URL" })] },
          done,
        ]);
        const run = await machine.spawn(["--allow", "Bash", ...flags, "write a.txt"]);
        expect(report(run)).toMatchObject({ exit_code: 0, result: "Done." });
        // Its provider is granted to the CLI, and to no program of the run.
        if (flags.includes("--network")) expect(sent(model.requests)).toContain("exit code 7");
      },
    );
  }

  test("stops at the run's step limit", async () => {
    await using machine = new ClaudeMachine();
    const model = await machine.scripted(() => ({
      tool_calls: [rnix("Read", { path: `${model.requests.length}.txt` })],
    }));
    for (const n of [0, 1, 2, 3, 4, 5]) machine.write(`${n}.txt`, `${n}`);
    const run = await machine.spawn(["--allow", "Read", "--max-steps", "3", "read on"]);
    expect(report(run)).toMatchObject({ exit_code: 1, exit_reason: "max_steps", tool_calls: 3 });
    expect(model.requests.length).toBe(3);
  });

  test("gets the conversation when a run is resumed", async () => {
    await using machine = new ClaudeMachine();
    machine.write("a.txt", "the content");
    const model = await machine.scripted([
      { tool_calls: [rnix("Read", { path: "a.txt" })] },
      { text: "First." },
      { text: "Second." },
    ]);
    const { uuid } = report(await machine.spawn(["--allow", "Read", "begin"]));
    const again = await machine.run(["resume", uuid, "--no-daemon", "and now?"]);
    expect(again.stdout).toContain("Second.");
    const last = sent(model.requests.slice(-1));
    for (const text of ["begin", "the content", "First.", "and now?"]) expect(last).toContain(text);
  });

  test("gets the images of a task, also when its run is resumed", async () => {
    await using machine = new ClaudeMachine();
    const png = Buffer.from(DOT, "base64");
    writeFileSync(join(machine.project, "dot.png"), png);
    machine.write("secret.txt", "SECRET-CONTENT");
    const model = await machine.scripted([{ text: "A dot." }, { text: "Still a dot." }]);
    const { uuid, ...receipt } = report(
      await machine.spawn(["--add", "dot.png", "what is it, @secret.txt?"]),
    );
    expect(receipt).toMatchObject({ exit_code: 0, result: "A dot." });
    expect((await machine.run(["resume", uuid, "--no-daemon", "and now?"])).code).toBe(0);
    for (const { text } of model.requests) expect(text).toContain(DOT);
    expect(sent(model.requests)).not.toContain("SECRET-CONTENT");
  });

  test("passes a long result, and a line of 2 MB", async () => {
    await using machine = new ClaudeMachine();
    machine.config({ tool_result_chars: 1_000_000 });
    const model = await machine.scripted([
      { tool_calls: [rnix("Bash", { command: "head -c 900000 /dev/zero | tr '\\0' x" })] },
      { text: "y".repeat(2_000_000), chunks: 1 },
    ]);
    const run = await machine.spawn(["--allow", "Bash", "long"]);
    expect(report(run).result?.length).toBe(2_000_000);
    expect(model.requests.length).toBe(2);
  });
});
