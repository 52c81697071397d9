import { afterEach, describe, expect, test } from "bun:test";
import { Keyboard, MAX_PASTE, PasteSplitter } from "../../../src/cli/terminal/keyboard.ts";
import { ModelTerminal } from "../../support/model-terminal.ts";
import { until } from "../../support/until.ts";

const open: Keyboard[] = [];
afterEach(() => {
  for (const keyboard of open.splice(0)) keyboard.close();
});

/** What the keyboard hands on for what the terminal sends in these pieces. */
function typed(terminal = new ModelTerminal()): { terminal: ModelTerminal; got: string[] } {
  const got: string[] = [];
  const on = { key: (data: string) => got.push(data), paste: (text: string) => got.push(`paste:${text}`) };
  const keyboard = Keyboard.open({ terminal: () => terminal }, on, { extended: true });
  if (keyboard) open.push(keyboard);
  return { terminal, got };
}

describe("keys", () => {
  test("of a sequence that arrives in pieces are one key", () => {
    const { terminal, got } = typed();
    for (const piece of ["\u001b", "[", "1;5", "C", "x"]) terminal.type(piece);
    expect(got).toEqual(["\u001b[1;5C", "x"]);
  });

  test("Esc alone is a key after a moment", async () => {
    const { terminal, got } = typed();
    terminal.type("\u001b");
    expect(got).toEqual([]);
    await until(() => got.length > 0);
    expect(got).toEqual(["\u001b"]);
  });

  test("answers of the terminal are no keys", () => {
    const { terminal, got } = typed();
    terminal.type("\u001b[>0;276;0c\u001b[?1;2c\u001bP>|xterm.js(6.0.0)\u001b\\a");
    expect(got).toEqual(["a"]);
  });

  test("modes are set, and undone in reverse when it is closed", () => {
    const { terminal } = typed();
    for (const keyboard of open.splice(0)) keyboard.close();
    terminal.type("late");
    expect(terminal.written).toBe("\u001b[?2004h\u001b[>4;1m\u001b[>1u\u001b[<u\u001b[>4;0m\u001b[?2004l");
  });
});

describe("a paste", () => {
  test("is one text, however it is cut", () => {
    const sent = "a\u001b[200~one\r\ntwo\rthree \u001b[31m 👍 \u0003\u001b[201~b";
    for (let at = 1; at < sent.length; at++) {
      const { terminal, got } = typed();
      const bytes = [...sent];
      terminal.type(bytes.slice(0, at).join(""));
      terminal.type(bytes.slice(at).join(""));
      expect(got).toEqual(["a", "paste:one\ntwo\nthree \u001b[31m 👍 \u0003", "b"]);
    }
  });

  test("of one character at a time, and of two behind each other", () => {
    const { terminal, got } = typed();
    for (const char of "\u001b[200~x\u001b[201~\u001b[200~\u001b[201~\u001b[A") terminal.type(char);
    expect(got).toEqual(["paste:x", "paste:", "\u001b[A"]);
  });

  test("of many pieces costs each of them once, and ends at a limit", () => {
    let pasted = -1;
    const splitter = new PasteSplitter({
      keys: () => undefined,
      paste: (text) => {
        pasted = text.length;
      },
    });
    const began = performance.now();
    splitter.take("\u001b[200~");
    for (let i = 0; i < 5000; i++) splitter.take("x".repeat(4096));
    splitter.take("\u001b[201~");
    expect(pasted).toBe(MAX_PASTE);
    // It was minutes with a search from the beginning at each piece.
    expect(performance.now() - began).toBeLessThan(3000);
  });
});

test("without a terminal there is no keyboard", () => {
  expect(
    Keyboard.open({ terminal: () => null }, { key: () => undefined, paste: () => undefined }),
  ).toBeNull();
});
