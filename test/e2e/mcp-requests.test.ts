import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { Turn } from "../support/model-server/script.ts";
import { until } from "../support/until.ts";
import { Machine } from "./support/machine.ts";
import { mcpServer } from "./support/mcp.ts";
import { takesKeys } from "./support/questions.ts";
import { toolResults } from "./support/requests.ts";
import { calls, says } from "./support/scenes.ts";
import { verdict } from "./support/verdict.ts";

/** A machine whose server `notes` has these keys, with a model that calls its tool once. */
async function prepared(tool: string, keys: object) {
  const machine = new Machine();
  const entry = { ...mcpServer(), ...keys };
  machine.write(join(machine.configDir, "mcp.yaml"), JSON.stringify({ servers: { notes: entry } }));
  const model = await machine.model(({ text, assistantMessages }): Turn => {
    if (text.includes("asks for the next answer")) return says("42");
    return assistantMessages === 0 ? calls([`mcp__notes__${tool}`, {}]) : says("done");
  });
  const args = ["go", "--mcp", "notes", "--allow", `mcp__notes__${tool}`];
  return { machine, model, args };
}

describe("a server that may ask the user", () => {
  test("gets the answers of the person at the terminal, as its form wants them", async () => {
    const { machine, model, args } = await prepared("ask", { elicitation: "ask", request_timeout: "2s" });
    await using _ = machine;
    await using terminal = machine.terminal(["spawn", ...args], {
      columns: 90,
      rows: 30,
      env: { CI: undefined },
    });
    await takesKeys(terminal, /MCP server notes: Who are you\?/);
    // Longer than the call may take by itself: its time stands still.
    await Bun.sleep(3_500);
    terminal.type("Ada\r");
    await terminal.until(/age: in years/);
    terminal.type("36\r");
    await terminal.until(/1 red/);
    terminal.type("2\r");
    await terminal.until(/1 Yes/);
    terminal.type("1\r");
    expect((await terminal.done).code).toBe(0);
    const answer = '{"name":"Ada","age":36,"colour":"green","sure":true}';
    expect(toolResults(model.last)[0]).toBe(`the user answered with accept ${answer}`);
  });

  test("gets the answers that come after the run was suspended, by the same call", async () => {
    const { machine, model, args } = await prepared("ask", { elicitation: "ask" });
    await using _ = machine;
    const parked = await machine.run(["spawn", ...args, "--on-ask", "park"]);
    const [, id = ""] = /rnix answer (\w+)/.exec(parked.stderr) ?? [];
    expect([parked.code, id]).toEqual([75, expect.stringMatching(/^\w{8}$/)]);
    await machine.ok(["answer", id, "Ada", "36", "red", "No"]);
    await until(() => model.requests.length === 2);
    const answer = '{"name":"Ada","age":36,"colour":"red","sure":false}';
    expect(toolResults(model.last)[0]).toBe(`the user answered with accept ${answer}`);
  });

  test("is declined at once where no person is there", async () => {
    const { machine, model, args } = await prepared("ask", { elicitation: "ask" });
    await using _ = machine;
    const { ms } = await verdict(machine, [...args, "--no-daemon"]);
    expect(ms).toBeLessThan(20_000);
    expect(toolResults(model.last)[0]).toMatch(
      /^the user answered with decline\nThe MCP server asked the user/,
    );
  });
});

test("a server that may ask the model gets its answer, within the run's budget and record", async () => {
  const { machine, model, args } = await prepared("think", { sampling: "allow" });
  await using _ = machine;
  const { receipt } = await verdict(machine, [...args, "--no-daemon"]);
  expect(toolResults(model.last)[0]).toBe("the model thinks: 42\nThe MCP server got an answer of the model.");
  expect(model.requests).toHaveLength(3);
  expect(receipt.tokens_used).toBeGreaterThan(0);
  // Without a run there is no model.
  const direct = await machine.run(["call", "mcp__notes__think"]);
  expect(direct.stdout).toMatch(/^no model: /);
});
