import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { until } from "../../support/until.ts";
import { binary } from "../support/binary.ts";
import { processesOf } from "../support/leftovers.ts";
import { Machine } from "../support/machine.ts";
import { mcpJson, mcpServer } from "../support/mcp.ts";
import { toolResults } from "../support/requests.ts";
import { bash, calls, says } from "../support/scenes.ts";
import { verdict } from "../support/verdict.ts";
import { RawClient } from "../support/wire.ts";

const RNIX = `'${binary()}'`;
const WORDS = `import { defineTool } from "rnix/plugin";
export default defineTool({
  name: "CountWords",
  description: "Count the words of a text.",
  input: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  run: ({ text }) => \`\${text.split(" ").length} words\`,
});
`;

describe("rnix call", () => {
  for (const way of [[], ["--no-daemon"]]) {
    test(`makes one call without a model ${way.join("") || "through the daemon"}`, async () => {
      await using machine = new Machine();
      machine.write("a.txt", "hello\n");
      const call = (...args: string[]) => machine.run(["call", ...way, ...args]);
      expect(await call("Read", '{"path":"a.txt"}')).toMatchObject({
        code: 0,
        stdout: "1\thello\n",
        stderr: "",
      });

      const failed = await call("Read", '{"path":"b.txt"}');
      expect(failed).toMatchObject({ code: 1, stdout: "" });
      expect(failed.stderr).toContain("Read: NOT_FOUND b.txt does not exist");
      const wrong = await call("Read", '{"pth":"a.txt"}');
      expect(wrong).toMatchObject({ code: 1, stdout: "" });
      expect(wrong.stderr).toContain("INVALID");
      const unknown = await call("Reed", "{}");
      expect(unknown.code).toBe(64);
      expect(unknown.stderr).toContain('There is no tool "Reed" here; did you mean Read?');
      for (const input of ["{path:1}", "[]", "1", ""]) {
        expect(await call("Read", input)).toMatchObject({
          code: 64,
          stderr: expect.stringContaining("INPUT"),
        });
      }
      const kernels = await call("Agent", '{"intent":"x"}');
      expect(kernels).toMatchObject({
        code: 64,
        stderr: expect.stringContaining("only a model can call it"),
      });
      expect(machine.has(".rnix")).toBe(false);
    });
  }

  test("prints the record of the call with --json, also for a call that can't be made", async () => {
    await using machine = new Machine();
    machine.write("a.txt", "hello\n");
    const json = async (...args: string[]) => {
      const { code, stdout } = await machine.run(["call", "--json", ...args]);
      return { code, record: JSON.parse(stdout) };
    };
    expect(await json("Read", '{"path":"a.txt"}')).toEqual({
      code: 0,
      record: {
        name: "Read",
        path: "/dev/fs",
        input: { path: "a.txt" },
        state: "done",
        result: "1\thello",
        encoding: "utf8",
        truncated: false,
        error: null,
        error_code: null,
        started_at: expect.stringMatching(/Z$/),
        duration_ms: expect.any(Number),
      },
    });
    expect(await json("Read", '{"path":"b.txt"}')).toMatchObject({
      code: 1,
      record: { state: "failed", result: null, error_code: "NOT_FOUND" },
    });
    expect(await json("Write", '{"path":".git/hooks/x","content":""}')).toMatchObject({
      code: 1,
      record: { state: "denied", error_code: "PERMISSION" },
    });
    expect(await json("Nope")).toMatchObject({
      code: 64,
      record: { state: "failed", error_code: "NOT_FOUND" },
    });
  });

  test("reads the input from stdin, and writes to a path", async () => {
    await using machine = new Machine();
    const input = JSON.stringify({ path: "b.txt", content: "written" });
    await machine.ok(["call", "Write", "-"], { stdin: { text: input } });
    expect(readFileSync(join(machine.project, "b.txt"), "utf8")).toBe("written");
    expect((await machine.run(["call", "/dev/shell", "cat b.txt"])).stdout).toContain("written");
  });

  test("of a plugin needs trust, and ends with the command that made it", async () => {
    await using machine = new Machine();
    machine.write(".rnix/plugins/words.ts", WORDS);
    const args = ["call", "CountWords", '{"text":"one two"}'];
    const untrusted = await machine.run(args);
    expect(untrusted.code).toBe(64);
    expect(untrusted.stderr).toContain("Plugin words");
    expect(untrusted.stderr).toContain("rnix trust");
    expect(await machine.run([...args, "--trust"])).toMatchObject({ code: 0, stdout: "2 words\n" });
    expect((await machine.run(args)).code).toBe(64);
    await machine.run(["trust", "--yes"]);
    expect(await machine.run(args)).toMatchObject({ code: 0, stdout: "2 words\n" });

    const sleeping = () => processesOf(machine.root).some(({ command }) => command.includes("sleep 1000"));
    const hanging = machine.start(["call", "Bash", '{"command":"touch held; sleep 1000"}']);
    await machine.held();
    expect(sleeping()).toBe(true);
    hanging.signal("SIGKILL");
    await hanging.done;
    await until(() => !sleeping(), "the end of its program");

    // A client may shut down its sending side and wait for the answer.
    const request = {
      method: "call",
      payload: { cwd: machine.project, tool: "Bash", input: { command: "sleep 1.5" } },
    };
    const socket = connect({ path: machine.socket, allowHalfOpen: true });
    socket.end(`${JSON.stringify(request)}\n`);
    const answer = JSON.parse((await Array.fromAsync(socket)).join(""));
    expect(answer).toMatchObject({ ok: true, payload: { name: "Bash", state: "done" } });
  });

  test("of a plugin that asks the run's model is refused, as there is none", async () => {
    await using machine = await Machine.playing({});
    machine.write(
      ".rnix/plugins/asker.ts",
      `import { defineTool } from "rnix/plugin";
export default defineTool({
  name: "AskModel", description: "x", input: { type: "object" }, needs: ["llm"],
  run: async (_, { llm }) => (await llm.ask({ prompt: "hello" })).text,
});
`,
    );
    const { code, stderr } = await machine.run(["call", "AskModel", "{}", "--trust"]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("there is no model to ask")]);
  });

  test("of an MCP server needs trust, and starts it", async () => {
    await using machine = new Machine();
    mcpJson(machine, { notes: mcpServer(), other: { command: "false" } });
    const call = ["call", "mcp__notes__echo", '{"text":"milk"}'];
    const untrusted = await machine.run(call);
    expect(untrusted.code).toBe(64);
    expect(untrusted.stderr).toContain("The MCP server notes is left out");
    await machine.run(["trust", "--yes"]);
    expect(await machine.run(call)).toMatchObject({ code: 0, stdout: '{"text":"milk"}\n' });
    expect(await machine.run(["call", "mcp__notes__nothing"])).toMatchObject({
      code: 64,
      stderr: expect.stringContaining("mcp__notes__echo"),
    });
  });
});

describe("rnix cat", () => {
  test("reads processes, queues and files", async () => {
    await using machine = await Machine.playing({
      "hold on": [bash("touch held; until test -e go; do sleep 0.02; done"), says("done")],
    });
    const run = machine.start(["spawn", "hold on"]);
    await machine.held();
    const cat = (path: string) => machine.run(["cat", path]);
    expect(JSON.parse((await cat("/proc/1/status")).stdout)).toMatchObject({ pid: 1, state: "running" });
    expect((await cat("/proc/1/intent")).stdout).toBe("hold on");
    expect((await cat("/proc/1/context")).stdout).toContain("hold on");
    expect(JSON.parse((await cat("/proc/llm")).stdout)).toMatchObject({ queues: [{ provider: "openai" }] });
    machine.write("go", "");
    expect((await run.done).code).toBe(0);
    expect(await cat("/proc/1/status")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("NOT_FOUND"),
    });
    machine.write("a.txt", "no line end");
    expect((await cat("/dev/fs/a.txt")).stdout).toBe("no line end");
    expect(await cat("/dev/none")).toMatchObject({ code: 1, stderr: expect.stringContaining("No device") });
    expect(await cat("/dev/llm/openai")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("is a model"),
    });
    expect((await cat("a.txt")).code).toBe(64);
  });

  test("writes bytes unchanged, and says when it truncates them", async () => {
    await using machine = new Machine();
    machine.write("make", "head -c 5000 /dev/urandom > bytes; head -c 6000000 /dev/zero > large");
    await machine.run(["call", "Bash", '{"command":"sh make"}']);
    const same = `${RNIX} cat /dev/fs/bytes | cmp - bytes && echo same`;
    expect((await machine.run(["call", "Bash", JSON.stringify({ command: same })])).stdout).toContain("same");
    const large = await machine.run(["cat", "/dev/fs/large"]);
    expect(large.code).toBe(1);
    expect(large.stderr).toContain("truncated");
  });
});

test("a model reads /proc with Read, within its rules and its project", async () => {
  await using machine = new Machine();
  const read = (path: string): [string, Record<string, unknown>] => ["Read", { path }];
  const model = await machine.play({
    "look around": [
      calls(
        read("/proc/self/status"),
        read("/proc/1/intent"),
        read("/proc/2/intent"),
        read("/proc/llm"),
        read("/proc/9/status"),
        read("/proc/cpuinfo"),
      ),
      says("seen"),
    ],
    "hold on": [bash("touch held; until test -e go; do sleep 0.02; done"), says("done")],
  });
  const go = join(machine.elsewhere, "go");
  const other = machine.start(["spawn", "hold on"], { cwd: machine.elsewhere });
  await until(() => machine.has(join(machine.elsewhere, "held")), "the held call");
  await machine.ok(["spawn", "look around"]);
  const last = model.requests.filter(({ text }) => text.includes("look around")).slice(-1);
  const [self, foreign, own, llm, none, system] = last.flatMap(toolResults);
  expect(JSON.parse(self ?? "")).toMatchObject({ pid: 2, state: "running", intent: "look around" });
  expect(foreign).toStartWith("Error NOT_FOUND");
  expect(own).toBe("look around");
  expect(JSON.parse(llm ?? "")).toMatchObject({ queues: [{ provider: "openai" }] });
  expect(none).toStartWith("Error NOT_FOUND");
  expect(system).toStartWith("Error NOT_FOUND");
  machine.write(go, "");
  expect((await other.done).code).toBe(0);

  await verdict(machine, ["look around", "--allow", "Read(src/**)"]);
  for (const result of model.requests.slice(-1).flatMap(toolResults))
    expect(result).toStartWith("Error PERMISSION");
});

describe("inside a run", () => {
  test("a call has only the run's rights, and is recorded in its trace", async () => {
    await using machine = new Machine();
    machine.write("src/a.txt", "allowed");
    machine.write("secret.txt", "the secret");
    machine.write(".rnix/plugins/words.ts", WORDS);
    const model = await machine.play({
      "try it": [
        bash(
          `${RNIX} call Read '{"path":"src/a.txt"}'`,
          `${RNIX} call Read '{"path":"secret.txt"}'; echo "code $?"`,
          `${RNIX} call Write '{"path":"src/b.txt","content":"x"}'; echo "code $?"`,
          `${RNIX} cat /dev/fs/secret.txt; echo "code $?"`,
          `${RNIX} call --trust CountWords '{"text":"x"}'; echo "code $?"`,
          `env -u RNIX_UNIT setsid ${RNIX} call Read '{"path":"secret.txt"}'; echo "code $?"`,
          `${RNIX} call --no-daemon Read '{"path":"secret.txt"}'; echo "code $?"`,
          `${RNIX} call Complete '{"result":"x"}'; echo "code $?"`,
        ),
        says("tried"),
      ],
    });
    const { info } = await verdict(machine, ["try it", "--allow", "Bash", "--allow", "Read(src/**)"]);
    const results = model.requests.slice(-1).flatMap(toolResults);
    expect(results[0]).toBe("1\tallowed");
    for (const result of results.slice(1)) {
      expect(result).toMatch(/code (1|64|69)$/);
      expect(result).not.toContain("the secret");
    }
    expect(results[1]).toContain("Only Read(src/**) is allowed");
    expect(results[4]).toContain("--trust is for");
    expect(machine.has("src/b.txt")).toBe(false);
    const trace = await machine.run(["strace", info.uuid, "--json"]);
    expect(trace.stdout).toContain('"tool":"Read"');
  });

  test("a call can't reach a model outside the run's budget, nor the kernel's own tools", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "try it": [
        bash(
          `${RNIX} call /dev/llm/openai '{"intent":"x","model":"m","messages":[]}'; echo "code $?"`,
          `${RNIX} call /dev/kernel/agent '{"intent":"x"}'; echo "code $?"`,
        ),
        says("tried"),
      ],
    });
    await verdict(machine, ["try it", "--allow", "*"]);
    const [llm, kernel] = model.requests.slice(-1).flatMap(toolResults);
    expect(llm).toMatch(/is a model: a run calls it in its steps, and no program does.*code 1$/s);
    expect(kernel).toMatch(/code 1$/);
    expect(model.requests).toHaveLength(2);
  });
});

test("a call leaves the connection open, also for requests that were sent behind it", async () => {
  await using machine = new Machine();
  machine.write("a.txt", "content\n");
  await machine.ok(["daemon", "start"]);
  const client = await RawClient.connect(machine.socket);
  const payload = { cwd: machine.project, tool: "Read", input: { path: "a.txt" } };
  for (let time = 0; time < 2; time++) {
    const { ok, payload: made } = await client.ask("call", payload);
    expect({ ok, made }).toMatchObject({ ok: true, made: { result: expect.stringContaining("content") } });
  }
  await client.send(`${JSON.stringify({ method: "call", payload, id: 1 })}\n{"method":"ping","id":2}\n`);
  expect([(await client.line()).id, (await client.line()).id]).toEqual([1, 2]);
  client.destroy();
});
