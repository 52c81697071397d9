import { expect, test } from "bun:test";
import { digest } from "../../../src/kernel/conversation/summary.ts";
import type { Message } from "../../../src/plugin/index.ts";

const CONVERSATION: Message[] = [
  { role: "user", content: "the task" },
  {
    role: "assistant",
    content: "I look.",
    tool_calls: [{ id: "1", name: "Read", input: { path: "a.txt" } }],
  },
  { role: "tool", tool_call_id: "1", content: "forty-two" },
  { role: "user", content: "and now?" },
  { role: "assistant", content: " " },
];

test("a digest says who said what, and each call with its result", () => {
  expect(digest(CONVERSATION, null, 1_000).split("\n")).toEqual([
    "- you said: I look.",
    '  - called Read {"path":"a.txt"}: forty-two',
    "- you received: and now?",
  ]);
});

test("a digest keeps the newest entries that fit, after an earlier summary", () => {
  const long: Message[] = [
    { role: "user", content: "the task" },
    ...Array.from(
      { length: 40 },
      (_, at): Message => ({ role: "user", content: `message ${at} ${"x".repeat(100)}` }),
    ),
  ];
  const text = digest(long, "It began so.", 300);
  const [earlier, gap, ...kept] = text.split("\n");
  expect(earlier).toBe("It began so.");
  expect(gap).toBe(`[${40 - kept.length} earlier entries are left out here.]`);
  expect(kept.length).toBeGreaterThan(2);
  expect(kept.at(-1)).toContain("message 39");
});
