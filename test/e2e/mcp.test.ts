import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { until } from "../support/until.ts";
import { processesOf } from "./support/leftovers.ts";
import { Machine } from "./support/machine.ts";
import { MCP_SERVER, mcpJson, mcpServer } from "./support/mcp.ts";
import { toolNames, toolResults } from "./support/requests.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { verdict } from "./support/verdict.ts";

/** A project's agent that has the server `notes`, and the file that declares the server. */
function prepare(machine: Machine, behaviour = "", mcp = "[notes]"): void {
  machine.write(
    ".rnix/agents/keeper/agent.yaml",
    `name: keeper\ndescription: Keeps notes\nallowed_tools: []\nmcp: ${mcp}\n`,
  );
  machine.write(".rnix/agents/keeper/instructions.md", "Keep the notes.\n");
  mcpJson(machine, { notes: mcpServer([behaviour], { TOKEN: "$" + "{NOTES_TOKEN}" }) });
}

const env = { NOTES_TOKEN: "t0p" };

describe("an agent with an MCP server", () => {
  for (const way of [[], ["--no-daemon"]]) {
    test(`calls its tools like any other ${way.join("") || "through the daemon"}, once its file is trusted`, async () => {
      await using machine = new Machine();
      const model = await machine.play({
        "keep it": [
          calls(["mcp__notes__echo", { text: "milk" }], ["mcp__notes__env", { name: "TOKEN" }]),
          calls(["mcp__notes__read_resource", { uri: "file:///notes.txt" }], ["mcp__notes__nothing", {}]),
          says("kept"),
        ],
      });
      prepare(machine);
      const args = ["keep it", "--agent", "keeper", ...way];

      const untrusted = await machine.run(["spawn", ...args], { env });
      expect(untrusted.code).toBe(64);
      expect(untrusted.stderr).toContain(
        `The MCP server notes is left out: ${join(machine.project, ".mcp.json")}`,
      );
      expect(untrusted.stderr).toContain("rnix trust");
      expect(model.requests).toEqual([]);
      await machine.ok(["trust", "--yes"]);

      const unset = await machine.run(["spawn", ...args]);
      expect(unset.code).toBe(64);
      expect(unset.stderr).toContain("the variable NOTES_TOKEN is not set");

      const { receipt, info } = await verdict(machine, args, { env });
      expect(receipt.exit_code).toBe(0);
      expect(toolNames(model.last)).toEqual(expect.arrayContaining(["mcp__notes__echo", "mcp__notes__a_b"]));
      expect(toolNames(model.last)).not.toContain("Bash");
      const results = toolResults(model.last);
      expect(results.slice(0, 3)).toEqual(['{"text":"milk"}', "t0p", "remember the milk"]);
      expect(results[3]).toStartWith("Error NOT_FOUND");
      // The model was sent it, and the answer has it; nothing else has.
      expect(machine.search("t0p").filter((file) => !/\/(steps\.jsonl|step\.journal)$/.test(file))).toEqual(
        [],
      );

      const trace = await machine.run(["strace", info.uuid]);
      expect(trace.stdout + trace.stderr).toContain(`/mnt/mcp/${info.pid}-notes`);
      const servers = processesOf(machine.root).filter(({ command }) => command.includes(MCP_SERVER));
      // The daemon keeps it for the next run, and ends it when it stops.
      expect(servers).toHaveLength(way.length === 0 ? 1 : 0);
    });
  }

  test("runs without an optional one that fails, and says so; a required one that does not start is 69", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "keep it": [says("kept nothing")] });
    prepare(machine, "exit", "[{name: notes, required: false}]");
    const args = ["keep it", "--agent", "keeper"];

    const untrusted = await verdict(machine, args, { env });
    expect(untrusted.receipt.exit_code).toBe(0);
    expect(untrusted.stderr).toContain("The MCP server notes is left out");

    await machine.run(["trust", "--yes"]);
    const optional = await verdict(machine, args, { env });
    expect(optional.receipt.exit_code).toBe(0);
    expect(optional.stderr).toContain("ended with exit code 1. It said: no token: set TEST_TOKEN");
    const asked = model.requests.length;

    prepare(machine, "exit");
    await machine.run(["trust", "--yes"]);
    const required = await machine.run(["spawn", ...args], { env });
    expect(required.code).toBe(69);
    expect(required.stderr).toContain("no token: set TEST_TOKEN");
    expect(model.requests.length).toBe(asked);
    expect(machine.strays()).toEqual([]);
  });

  test("gets an error when it dies, and its tools again when it is back", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "break it": [
        calls(["mcp__notes__die", {}]),
        // Until it is back. A step that fails is followed by one that does not: failing only, it would be ended.
        (request) => {
          const result = toolResults(request).at(-1) ?? "";
          if (result === '{"text":"back"}') return says("mended");
          return result.startsWith("Error")
            ? bash("sleep 0.5")
            : calls(["mcp__notes__echo", { text: "back" }]);
        },
      ],
    });
    prepare(machine);
    machine.write(
      ".rnix/agents/keeper/agent.yaml",
      "name: keeper\ndescription: Keeps notes\nmcp: [notes]\nallowed_tools: [Bash]\n",
    );
    await machine.run(["trust", "--yes"]);
    const { receipt } = await verdict(machine, ["break it", "--agent", "keeper"], { env });
    const results = toolResults(model.last);
    expect(results[0]).toContain("Error UNAVAILABLE");
    expect(results[0]).toContain("something broke");
    expect(results.at(-1)).toBe('{"text":"back"}');
    expect(receipt.exit_code).toBe(0);
  });

  test("leaves no server behind after kill -9 of the daemon, once the next one has started", async () => {
    await using machine = await Machine.playing({ "hold it": [calls(["mcp__notes__slow", {}])] });
    prepare(machine);
    await machine.run(["trust", "--yes"]);
    const running = machine.start(["spawn", "hold it", "--agent", "keeper"], { env });
    const servers = () => processesOf(machine.root).filter(({ command }) => command.includes(MCP_SERVER));
    await until(() => servers().length === 1);
    machine.killDaemon();
    expect((await running.done).code).not.toBe(0);
    await machine.run(["daemon", "start"]);
    await until(() => servers().length === 0);
  });
});
