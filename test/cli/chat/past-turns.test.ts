import { expect, test } from "bun:test";
import { PastTurns } from "../../../src/cli/chat/past-turns.ts";
import { lookOf } from "../../../src/cli/terminal/look.ts";
import { FakeIo } from "../support.ts";

test("a terminal that attaches late shows the last twenty turns, and names the command for the others", () => {
  const past = new PastTurns();
  for (let i = 1; i <= 22; i++) {
    past.take({ ts: "", step: i, kind: "inbox", text: `message ${i}` });
    past.take({ ts: "", step: i, kind: "text", text: `answer ${i}` });
  }
  const lines = past.lines(80, lookOf(new FakeIo())).map((line) => Bun.stripANSI(line));
  expect(lines[0]).toContain("2 earlier messages: rnix log shows all of it");
  const shown = lines.filter((line) => line.startsWith("answer"));
  expect(shown).toEqual(Array.from({ length: 20 }, (_, i) => `answer ${i + 3}`));
});
