import { expect, test } from "bun:test";
import { bareAgent } from "../../../src/kernel/process/process-spec.ts";
import type { AgentInfo, SpawnOpts } from "../../../src/kernel/types.ts";
import { calls, KernelHarness, says, script } from "../../support/kernel.ts";

const ALL = ["*"];

test.each<[string, Partial<SpawnOpts>, Partial<AgentInfo>, boolean]>([
  ["not where * allows it", {}, { allowedTools: ALL }, false],
  ["not for a star in --allow", { allow: ALL }, { allowedTools: ALL }, false],
  ["not for a word that contains it", {}, { instructions: "Make Plans, PlanB." }, false],
  ["for the agent's list", {}, { allowedTools: ["Complete", "Plan"] }, true],
  ["for a star and its name", {}, { allowedTools: ["*", "Plan"] }, true],
  ["for its device", {}, { allowedTools: ["*", "/dev/kernel/plan"] }, true],
  ["for --allow", { allow: ["Plan", "Complete"] }, { allowedTools: ALL }, true],
  ["for the instructions", {}, { instructions: "Write the steps down with Plan." }, true],
  ["not where it is denied", { deny: ["Plan"] }, { allowedTools: ["*", "Plan"] }, false],
])("Plan is offered %s", async (_title, more, of, expected) => {
  await using h = new KernelHarness({ model: script(says("done")) });
  await h.run("go", more, { ...bareAgent("any"), ...of });
  expect(h.requests[0]?.tools?.some(({ name }) => name === "Plan")).toBe(expected);
});

test("Plan may be called where it is not offered, as earlier records do", async () => {
  await using h = new KernelHarness({ model: script(calls(["Plan", { steps: ["look"] }]), says("done")) });
  await h.run("go", {}, { ...bareAgent("any"), allowedTools: ALL });
  expect(h.requests[1]?.messages.at(-1)?.content).toBe("The plan is noted:\n1. look");
});
