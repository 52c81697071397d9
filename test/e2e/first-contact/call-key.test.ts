import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { until } from "../../support/until.ts";
import { binary } from "../support/binary.ts";
import { textOf } from "../support/leftovers.ts";
import { Machine } from "../support/machine.ts";
import { mcpJson, mcpServer } from "../support/mcp.ts";
import { toolResults } from "../support/requests.ts";
import { detach } from "../support/runs.ts";
import { bash, calls, says } from "../support/scenes.ts";
import { recordOf, verdict } from "../support/verdict.ts";

/** Its service is a program that records each call's key. The first call does not answer. */
const CHARGE = `
import { appendFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { definePlugin } from "rnix/plugin";
export default definePlugin({
  name: "charge",
  needs: ["exec"],
  devices: {
    "/dev/charge": {
      tools: [{ name: "Charge", description: "Charges", input: { type: "object" }, annotations: { idempotentHint: true } }],
      factory: (_subpath, _flags, { cwd, call, exec }) => {
        let answer = "charged";
        return {
          async write(_data, signal) {
            const file = join(cwd, "keys");
            const isFirst = !existsSync(file);
            const child = await exec({ argv: ["sh", "-c", 'echo "$RNIX_CALL" >> programs'], life: "call" });
            while (await child.read());
            appendFileSync(file, call.key + "\\n");
            if (isFirst) await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
          },
          async read() { const said = answer; answer = ""; return said; },
          async close() {},
          async stat() { return { name: "charge", size: 0, isDevice: true, devicePath: "/dev/charge" }; },
        };
      },
    },
  },
});
`;

/** The keys that a service was given, one for each call. */
function keysIn(machine: Machine, file: string): string[] {
  return (textOf(join(machine.project, file)) ?? "").split("\n").filter((line) => line !== "");
}

describe("a tool call that is retried after kill -9", () => {
  test("gives the plugin and its program the same key, and the next call another", async () => {
    await using machine = await Machine.playing({
      "pay it": [calls(["Charge", {}]), calls(["Charge", {}]), says("paid")],
    });
    machine.write("plugins/charge.ts", CHARGE);
    await machine.ok(["trust", "--yes"]);
    const { uuid } = await detach(machine, "pay it");
    await until(() => keysIn(machine, "keys").length === 1, "the first call");
    await machine.endDaemon();
    expect(await machine.run(["resume", uuid])).toMatchObject({ code: 0, stdout: "paid\n" });

    const [first, again, next, ...more] = keysIn(machine, "keys");
    expect(more).toEqual([]);
    expect(first).toStartWith(`${uuid}:1:`);
    expect(again).toBe(first);
    expect(next).toStartWith(`${uuid}:2:`);
    expect(keysIn(machine, "programs")).toEqual(keysIn(machine, "keys"));
    expect(recordOf(machine, uuid)).toMatchObject({ steps: 3 });
  });

  test("gives the MCP server the same key in _meta", async () => {
    await using machine = await Machine.playing({
      "note it": [calls(["mcp__notes__keyed", {}]), says("noted")],
    });
    machine.write(
      ".rnix/agents/keeper/agent.yaml",
      "name: keeper\ndescription: Keeps notes\nallowed_tools: []\nmcp: [notes]\n",
    );
    machine.write(".rnix/agents/keeper/instructions.md", "Keep the notes.\n");
    const keys = { TOKEN: "t", KEYS: join(machine.project, "keys") };
    mcpJson(machine, { notes: mcpServer([], keys) });
    await machine.ok(["trust", "--yes"]);
    const { uuid } = await detach(machine, "note it", "--agent", "keeper");
    await until(() => keysIn(machine, "keys").length === 1, "the first call");
    await machine.endDaemon();
    expect(await machine.run(["resume", uuid])).toMatchObject({ code: 0, stdout: "noted\n" });
    const [first, again, ...more] = keysIn(machine, "keys");
    expect(more).toEqual([]);
    expect(first).toStartWith(`${uuid}:1:`);
    expect(again).toBe(first);
  });
});

test("a shell command has its call's key; a run that it spawns has its own, and a check has none", async () => {
  await using machine = new Machine();
  const shown = bash('echo "key $RNIX_CALL"');
  const model = await machine.play({
    top: [shown, bash(`${binary()} spawn below -q --check 'test -z "$RNIX_CALL"'`), says("top")],
    below: [shown, says("below")],
  });
  const { receipt } = await verdict(machine, ["top", "--check", 'test -z "$RNIX_CALL"'], {
    env: { RNIX_CALL: "from outside" },
  });
  expect(receipt).toMatchObject({ exit_code: 0, checks: [{ exit_code: 0 }] });
  const keys = model.requests.flatMap((request) =>
    toolResults(request).filter((text) => text.startsWith("key ")),
  );
  const [own, child] = [...new Set(keys)];
  expect(own).toStartWith(`key ${receipt.uuid}:1:`);
  expect(child).toMatch(/^key [0-9a-f-]{36}:1:/);
  expect(child).not.toContain(receipt.uuid);
});
