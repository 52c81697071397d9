import { expect, test } from "bun:test";
import { ModelServer, type RecordedRequest, type Turn } from "../server.ts";
import type { HttpDriver } from "./driver.ts";
import type { Findings } from "./findings.ts";
import { runOver } from "./run.ts";

export const PREFIX =
  "each request of a run begins with the one before it, byte for byte: the provider's cache hits";

/** A run of several turns, with thoughts, calls side by side and one that was never whole. */
const TURNS: Turn[] = [
  {
    reasoning: "first look",
    text: "Let me look",
    tool_calls: [
      { name: "Bash", input: { command: "ls", deep: { b: [1, 2.5, null], a: "ä\u2028" } } },
      { name: "Bash", input: { command: "pwd" } },
    ],
  },
  { tool_calls: [{ name: "Bash", rawArguments: '{"command": "ls' }] },
  { reasoning: "again", tool_calls: [{ name: "Bash", input: { command: "cat a" } }] },
  { text: "done" },
];

export function describePrefix(driver: HttpDriver, findings: Findings): void {
  test(PREFIX, async () => {
    await using server = await ModelServer.start(TURNS);
    const { info, made } = await runOver(driver, server.url);
    expect(info).toMatchObject({ exit_code: 0, result: "done" });
    expect(made).toEqual(["ls", "pwd", "cat a"]);
    const sent = server.requests.map(parts);
    expect(sent).toHaveLength(TURNS.length);
    for (const [index, { rest, messages }] of sent.slice(0, -1).entries()) {
      const next = sent[index + 1];
      expect(next?.rest).toBe(rest);
      expect(next?.messages.length).toBeGreaterThan(messages.length);
      expect(next?.messages.slice(0, messages.length)).toEqual(messages);
    }
    // The kernel has stored what the provider has signed.
    if (driver.signs !== undefined) expect(server.requests[1]?.text).toMatch(/"(signature|encrypted)-0"/);
    findings.note(PREFIX, driver.title, "a run");
  });
}

/** The conversation, message by message as text, and all that is beside it. */
function parts({ body }: RecordedRequest): { rest: string; messages: string[] } {
  const { messages, input, contents, ...rest } = body;
  const text = (value: unknown) =>
    // Where Anthropic's cache is to end moves with the conversation, and is no part of what is cached.
    JSON.stringify(value, (key, part) => (key === "cache_control" ? undefined : part));
  return { rest: text(rest), messages: (messages ?? input ?? contents ?? []).map(text) };
}
