import { expect, test } from "bun:test";
import { assembleHead, type PromptHead } from "../../../src/kernel/conversation/prompt-head.ts";

const environment = { project: "/p", cwd: "/p/src", date: "2027-01-05", platform: "linux x64" };
const empty: PromptHead = { instructions: "", skills: [], deferredSkills: [], environment };

test("the parts are in a fixed order with a blank line between", () => {
  const head = assembleHead({
    instructions: "You read code.\n",
    skills: [
      { name: "one", dir: "/s/one", body: "First.\n" },
      { name: "two", dir: "", body: "Second." },
    ],
    deferredSkills: [{ name: "three", description: "Third things" }],
    systemPrompt: "Answer in German.",
    projectDoc: "# AGENTS",
    environment,
  });
  expect(head).toBe(
    [
      "You read code.",
      "# Skill: one\nBase folder of this skill: /s/one",
      "First.",
      "# Skill: two",
      "Second.",
      "# Skills that can be loaded\nLoad one with Skill before work it fits:\n- three: Third things",
      "Answer in German.",
      "# AGENTS",
      "# Environment\nProject folder: /p\nWorking folder: /p/src (relative paths start here)\nDate: 2027-01-05\nPlatform: linux x64",
    ].join("\n\n"),
  );
});

test("a working folder that is the project is named once", () => {
  const head = assembleHead({ ...empty, environment: { ...environment, cwd: "/p" } });
  expect(head).toContain("# Environment\nWorking folder: /p (relative paths start here)\n");
});

test("an absent part leaves no gap", () => {
  expect(assembleHead(empty)).toStartWith("# Environment");
});

test("the same parts give the same bytes, so that a provider's cache hits", () => {
  expect(assembleHead({ ...empty, systemPrompt: "x" })).toBe(assembleHead({ ...empty, systemPrompt: "x" }));
});
