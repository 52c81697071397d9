/** An agent that stays beside another: its answers and messages are each delivered once, and it ends with its owner. */
import { expect, test } from "bun:test";
import { until } from "../support/until.ts";
import { Machine } from "./support/machine.ts";
import { firstUserMessage, toolResults } from "./support/requests.ts";
import { calls, says } from "./support/scenes.ts";

/** The owner starts a teammate, gives it more to do after its first answer, and answers after the second. */
function model(machine: Machine, held?: Promise<unknown>) {
  return machine.model(async (request) => {
    const text = JSON.stringify(request.body);
    if (firstUserMessage(request).startsWith("help")) {
      if (text.includes("more please")) {
        await held;
        return says("SECOND");
      }
      return says("FIRST");
    }
    const results = toolResults(request);
    if (results.length === 0) return calls(["Teammate", { intent: "help me" }]);
    const pid = /Started as process (\d+)/.exec(results[0] ?? "")?.[1];
    if (text.includes("SECOND")) return says("all done");
    if (text.includes("FIRST") && results.length === 1)
      return calls(["SendMessage", { to: Number(pid), message: "more please" }]);
    return says("I wait");
  });
}

test("answers reach the owner once, a message wakes the idle one, and it ends with its owner", async () => {
  await using machine = new Machine();
  const { requests } = await model(machine);
  const receipt = await machine.json(["spawn", "--no-stdin", "--output", "json", "work together"]);
  expect(receipt).toMatchObject({ exit_code: 0, result: "all done" });
  const last = JSON.stringify(requests.findLast((one) => firstUserMessage(one).startsWith("work"))?.body);
  expect(last.match(/events:\\nFIRST/g)).toHaveLength(1);
  expect(last.match(/events:\\nSECOND/g)).toHaveLength(1);
  const helper = requests.filter((one) => firstUserMessage(one).startsWith("help"));
  expect(JSON.stringify(helper.at(-1)?.body).match(/more please/g)).toHaveLength(1);
  const { all_units } = await machine.json(["show", "1", "--json"]);
  expect(all_units).toMatchObject([{ kind: "in_process_teammate", metadata: { summary: "SECOND" } }]);
  const { stderr } = await machine.run(["send", "2", "too late"]);
  expect(stderr).not.toBe("");
});

test("after a kill -9 it goes on beside its owner, and nothing is delivered twice", async () => {
  await using machine = new Machine();
  const held = Promise.withResolvers<void>();
  const { requests } = await model(machine, held.promise);
  const args = ["spawn", "--no-stdin", "--detach", "work together"];
  const uuid = (await machine.ok(args)).stdout.trim().split(" ").at(-1) ?? "";
  await until(() => JSON.stringify(requests.at(-1)?.body ?? null).includes("more please"), "the message");
  await machine.endDaemon();
  held.resolve();
  await machine.ok(["resume", uuid]);
  const run = await machine.json(["show", uuid, "--json"]);
  expect(run).toMatchObject({ exit_code: 0, result: "all done" });
  const last = JSON.stringify(requests.findLast((one) => firstUserMessage(one).startsWith("work"))?.body);
  expect(last.match(/events:\\nFIRST/g)).toHaveLength(1);
  expect(last.match(/events:\\nSECOND/g)).toHaveLength(1);
});

test("a background agent whose daemon was killed goes on with its owner", async () => {
  await using machine = new Machine();
  const held = Promise.withResolvers<void>();
  const { requests } = await machine.model(async (request) => {
    if (firstUserMessage(request).startsWith("help")) {
      await held.promise;
      return says("HELPED");
    }
    if (toolResults(request).length > 0) return says("done");
    return calls(["Agent", { intent: "help me", run_in_background: true }]);
  });
  const uuid =
    (await machine.ok(["spawn", "--no-stdin", "--detach", "work"])).stdout.trim().split(" ").at(-1) ?? "";
  await until(() => requests.length === 3, "the request of the child, and the answer of its parent");
  await machine.until(["show", uuid, "--json"], /"steps": ?2/);
  await machine.endDaemon();
  held.resolve();
  await machine.ok(["resume", uuid]);
  const { all_units, exit_code } = await machine.json(["show", uuid, "--json"]);
  expect(exit_code).toBe(0);
  expect(all_units).toMatchObject([{ kind: "local_agent", status: "completed" }]);
  const last = JSON.stringify(requests.findLast((one) => firstUserMessage(one).startsWith("work"))?.body);
  expect(last.match(/HELPED/g)).toHaveLength(1);
});
