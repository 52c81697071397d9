import { expect, test } from "bun:test";
import { binary } from "./support/binary.ts";
import { Machine } from "./support/machine.ts";
import { toolNames, toolResults } from "./support/requests.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { recordOf, verdict } from "./support/verdict.ts";

const SPAWN = `${binary()} spawn 'do a part' --output json`;

test("rnix spawn in the shell of a run makes a child with at most its parent's rights, on its parent's budget", async () => {
  await using machine = new Machine();
  const model = await machine.play({
    "do the whole": [bash(`${SPAWN} --allow Write --allow Read`), says("whole")],
    "do a part": [calls(["Write", { path: "a.txt", content: "x" }]), says("part")],
  });
  const { receipt } = await verdict(machine, ["do the whole", "--deny", "Write"]);
  expect(receipt).toMatchObject({
    exit_code: 0,
    result: "whole",
    children: [{ agent: "default", exit_code: 0, exit_reason: "completed", tokens_used: 30 }],
    tokens_used: 60,
    usage: { input_tokens: 20, output_tokens: 10 },
  });
  const [child] = receipt.children;
  expect(recordOf(machine, child?.uuid ?? "")).toMatchObject({
    parent_uuid: receipt.uuid,
    ppid: receipt.pid,
  });
  const ofChild = model.requests.filter(
    ({ text }) => text.includes("do a part") && !text.includes("do the whole"),
  );
  expect(ofChild.map(toolNames)).toEqual([["Read"], ["Read"]]);
  expect(ofChild.flatMap(toolResults)).toEqual([expect.stringMatching(/^Error (NOT_FOUND|PERMISSION)/)]);
  expect(machine.has("a.txt")).toBe(false);
});

test("a child that fails fails its parent, whatever the parent says", async () => {
  await using machine = await Machine.playing({
    "do the whole": [bash(SPAWN), says("all is well")],
    "do a part": [{ fault: { kind: "status", status: 401 } }],
  });
  const { receipt } = await verdict(machine, ["do the whole"]);
  expect(receipt).toMatchObject({ exit_code: 1, exit_reason: "failed", result: "all is well" });
  expect(receipt.error?.message).toContain(receipt.children[0]?.uuid ?? "no child");
});

test("commands for a person are refused inside a run, and a run without a daemon spawns no children", async () => {
  await using machine = new Machine();
  const rnix = binary();
  const commands = [
    `${rnix} trust --yes`,
    `${rnix} daemon stop`,
    `${SPAWN} --trust`,
    `${SPAWN} --no-daemon`,
    SPAWN,
  ];
  const model = await machine.play({
    "try it": [
      calls(...commands.map((command): [string, Record<string, unknown>] => ["Bash", { command }])),
      says("tried"),
    ],
  });
  const { receipt } = await verdict(machine, ["try it", "--no-daemon"]);
  expect(receipt).toMatchObject({ exit_code: 0, result: "tried", children: [] });
  const results = model.requests.at(-1);
  const codes = (results === undefined ? [] : toolResults(results)).map(
    (one) => /\[exit code (\d+)\]$/.exec(one)?.[1],
  );
  expect(codes).toEqual(["1", "1", "69", "69", "69"]);
  expect(machine.daemonPid).toBeNull();
  expect(machine.leftovers()).toEqual([]);
});
