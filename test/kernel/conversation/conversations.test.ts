import { describe, expect, test } from "bun:test";
import { Conversations } from "../../../src/kernel/conversation/conversations.ts";
import { SyscallError } from "../../../src/plugin/index.ts";

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (thrown) {
    if (thrown instanceof SyscallError) return thrown.code;
    throw thrown;
  }
  return "none";
}

const user = (content: string) => JSON.stringify({ role: "user", content });

describe("CtxAlloc and CtxFree", () => {
  test("ids only grow", () => {
    const manager = new Conversations();
    const first = manager.ctxAlloc(4);
    manager.ctxFree(first);
    expect(manager.ctxAlloc(4)).toBeGreaterThan(first);
  });

  test.each([0, -1, Number.NaN])("a size of %p is INTERNAL", (size) => {
    expect(codeOf(() => new Conversations().ctxAlloc(size))).toBe("INTERNAL");
  });

  test("every call on a freed context is NOT_FOUND", () => {
    const manager = new Conversations();
    const id = manager.ctxAlloc();
    manager.ctxFree(id);
    expect(manager.size).toBe(0);
    for (const call of [
      () => manager.ctxFree(id),
      () => manager.ctxRead(id, 0, 0),
      () => manager.ctxWrite(id, 0, user("x")),
      () => manager.buildPrompt(id),
      () => manager.summary(id),
    ]) {
      expect(codeOf(call)).toBe("NOT_FOUND");
    }
  });
});

describe("CtxWrite and CtxRead", () => {
  test("offset 0 appends, 1..N overwrites, both read back", () => {
    const manager = new Conversations();
    const id = manager.ctxAlloc(3);
    manager.setSystemPrompt(id, "be short");
    for (const text of ["a", "b", "c"]) manager.ctxWrite(id, 0, user(text));
    manager.ctxWrite(id, 2, user("B"));
    const all = JSON.parse(manager.ctxRead(id, 0, 0));
    expect(all).toEqual({
      system_prompt: "be short",
      messages: [
        { role: "user", content: "a" },
        { role: "user", content: "B" },
        { role: "user", content: "c" },
      ],
    });
    expect(JSON.parse(manager.ctxRead(id, 1, 1)).messages).toEqual([{ role: "user", content: "B" }]);
  });

  test("the default capacity is 64 messages", () => {
    const manager = new Conversations();
    const id = manager.ctxAlloc();
    for (let i = 0; i < 64; i++) manager.ctxWrite(id, 0, user(String(i)));
    expect(codeOf(() => manager.ctxWrite(id, 0, user("65th")))).toBe("INTERNAL");
  });

  test.each([
    ["no JSON", 0, "{"],
    ["an unknown role", 0, JSON.stringify({ role: "robot", content: "x" })],
    ["no content", 0, JSON.stringify({ role: "user" })],
    ["an offset beyond the end", 2, user("x")],
    ["a negative offset", -1, user("x")],
    ["half an offset", 0.5, user("x")],
  ])("%s is INTERNAL", (_what, offset, data) => {
    const manager = new Conversations();
    const id = manager.ctxAlloc();
    manager.ctxWrite(id, 0, user("only"));
    expect(codeOf(() => manager.ctxWrite(id, offset, data))).toBe("INTERNAL");
  });
});

describe("a turn", () => {
  const call = (id: string) => ({ id, name: "Read", input: {} });

  test("is added whole", () => {
    const manager = new Conversations();
    const id = manager.ctxAlloc();
    manager.appendTurn(id, { role: "assistant", content: "", tool_calls: [call("1"), call("2")] }, [
      { role: "tool", tool_call_id: "1", content: "one" },
      { role: "tool", tool_call_id: "2", content: "two" },
    ]);
    expect(manager.messageCount(id)).toBe(3);
  });

  test("without all its results is not added at all", () => {
    const manager = new Conversations();
    const id = manager.ctxAlloc();
    const half = () =>
      manager.appendTurn(id, { role: "assistant", content: "", tool_calls: [call("1"), call("2")] }, [
        { role: "tool", tool_call_id: "1", content: "one" },
      ]);
    expect(codeOf(half)).toBe("INTERNAL");
    expect(manager.messageCount(id)).toBe(0);
  });

  test("that does not fit adds nothing", () => {
    const manager = new Conversations();
    const id = manager.ctxAlloc(1);
    const turn = () =>
      manager.appendTurn(id, { role: "assistant", content: "", tool_calls: [call("1")] }, [
        { role: "tool", tool_call_id: "1", content: "one" },
      ]);
    expect(codeOf(turn)).toBe("INTERNAL");
    expect(manager.messageCount(id)).toBe(0);
  });
});

test("a prompt is a snapshot", () => {
  const manager = new Conversations();
  const id = manager.ctxAlloc();
  manager.ctxWrite(id, 0, user("first"));
  const prompt = manager.buildPrompt(id);
  manager.ctxWrite(id, 0, user("second"));
  expect(prompt.messages.map((message) => message.content)).toEqual(["first"]);
});
