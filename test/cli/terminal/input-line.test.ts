import { afterEach, describe, expect, test } from "bun:test";
import { styleOf } from "../../../src/cli/output/style.ts";
import { Completer } from "../../../src/cli/terminal/completion.ts";
import { expanded } from "../../../src/cli/terminal/draft.ts";
import { InputLine, type KeyOutcome } from "../../../src/cli/terminal/input-line.ts";
import { until } from "../../support/until.ts";

const KEYS = {
  enter: "\r",
  altEnter: "\x1b\r",
  ctrlJ: "\n",
  shiftEnter: "\x1b[13;2u",
  up: "\x1b[A",
  down: "\x1b[B",
  left: "\x1b[D",
  tab: "\t",
  esc: "\x1b",
  backspace: "\x7f",
  ctrlD: "\x04",
  ctrlK: "\x0b",
  ctrlY: "\x19",
  ctrlW: "\x17",
  ctrlR: "\x12",
} as const;

const style = styleOf({ env: { NO_COLOR: "1" } }, { isTTY: true });
const open: InputLine[] = [];
afterEach(() => {
  for (const line of open.splice(0)) line.close();
});

interface Setup {
  files?: readonly string[];
  history?: string[];
  images?: readonly string[];
}

function inputLine({ files = [], history = [], images = [] }: Setup = {}): InputLine {
  const completer = new Completer({
    commands: () => [
      { name: "agent", about: "choose the agent" },
      { name: "quit", about: "leave" },
      { name: "btw", about: "ask aside", hint: "<question>" },
    ],
    files: { entries: files, complete: Promise.resolve() },
    cwd: "/",
  });
  const line = new InputLine({
    style,
    rows: () => 24,
    redraw: () => undefined,
    completer,
    history: { load: () => history, add: (text: string) => history.push(text) > 0 },
    isFile: (path) => images.includes(path),
  });
  open.push(line);
  return line;
}

/** Types text and keys; returns what the last one did. */
function type(line: InputLine, ...parts: string[]): KeyOutcome {
  let outcome: KeyOutcome = "used";
  for (const part of parts) {
    const isKey = Object.values(KEYS).some((key) => key === part);
    for (const data of isKey ? [part] : part) outcome = line.key(data);
  }
  return outcome;
}

describe("typing", () => {
  test("Enter asks to send, and what is taken leaves an empty line", () => {
    const line = inputLine();
    expect(type(line, "hello", KEYS.enter)).toBe("submit");
    expect(expanded(line.take(true))).toBe("hello");
    expect(line.isEmpty).toBe(true);
    expect(type(line, "x")).toBe("used");
    expect(line.text).toBe("x");
  });

  test.each([KEYS.altEnter, KEYS.ctrlJ, KEYS.shiftEnter])("%j begins a new line", (key) => {
    const line = inputLine();
    expect(type(line, "one", key, "two")).toBe("used");
    expect(line.text).toBe("one\ntwo");
  });

  test("a backslash before Enter begins a new line", () => {
    const line = inputLine();
    expect(type(line, "one\\", KEYS.enter, "two")).toBe("used");
    expect(line.text).toBe("one\ntwo");
  });

  test("what was killed can be put back", () => {
    const line = inputLine();
    type(line, "one two", KEYS.ctrlW);
    expect(line.text).toBe("one ");
    type(line, KEYS.ctrlY);
    expect(line.text).toBe("one two");
  });

  test("Ctrl-D belongs to the caller on an empty line only", () => {
    const line = inputLine();
    expect(type(line, KEYS.ctrlD)).toBe("unused");
    expect(type(line, "ab", KEYS.left, KEYS.ctrlD)).toBe("used");
    expect(line.text).toBe("a");
  });

  test("wide characters and long lines keep the cursor behind the text", () => {
    const line = inputLine();
    type(line, "日本語");
    expect(line.view(40)).toMatchObject({ lines: ["❯ 日本語"], cursor: { row: 0, column: 8 } });
    line.setText("word ".repeat(20).trim());
    const { lines, cursor } = line.view(40);
    expect(lines.length).toBe(3);
    expect(lines.every((text) => Bun.stringWidth(text) <= 40)).toBe(true);
    expect(cursor.row).toBe(2);
  });

  test("a long text shows a third of the screen and how much more there is", () => {
    const line = inputLine();
    line.setText(Array.from({ length: 30 }, (_, i) => `line ${i}`).join("\n"));
    const { lines, cursor } = line.view(60);
    expect(lines.length).toBeLessThan(10);
    expect(lines[0]).toContain("more above");
    expect(lines[cursor.row]).toContain("line 29");
  });
});

describe("pastes", () => {
  const sixty = Array.from({ length: 60 }, (_, i) => `\tline ${i}`).join("\n");

  test("of many lines are a marker that is expanded when sent, tabs included", () => {
    const line = inputLine();
    type(line, "look: ");
    line.paste(sixty.replaceAll("\n", "\r\n"));
    type(line, " ok");
    expect(line.view(80).lines).toEqual(["❯ look: [paste #1 +60 lines] ok"]);
    expect(line.text).toBe(`look: ${sixty} ok`);
  });

  test("are deleted as a whole, and taken back as a marker", () => {
    const line = inputLine();
    line.paste(sixty);
    const draft = line.take(true);
    line.put(draft);
    expect(line.view(80).lines).toEqual(["❯ [paste #1 +60 lines]"]);
    type(line, KEYS.backspace);
    expect(line.text).toBe("");
  });

  test("of two texts put before what is typed keep their contents apart", () => {
    const line = inputLine();
    line.paste(sixty);
    const first = line.take(false);
    line.paste(`other\n${sixty}`);
    line.putBefore(first);
    expect(line.view(80).lines).toEqual(["❯ [paste #1 +60 lines]", "  [paste #2 +61 lines]"]);
    expect(line.text).toBe(`${sixty}\nother\n${sixty}`);
  });

  test("that look like keys stay text", () => {
    const line = inputLine();
    line.paste("a\x1b[201~\rb\x03");
    expect(line.text).toBe("a[201~\nb");
  });

  test("of a picture's path attach it, as terminals write it", () => {
    const path = "/tmp/my cat.png";
    const line = inputLine({ images: [path, "/tmp/a.jpg"] });
    for (const dropped of ["/tmp/my\\ cat.png", "'/tmp/my cat.png' ", "file:///tmp/my%20cat.png"]) {
      line.paste(dropped);
      expect(line.take(false).shown).toBe(`@"${path}" `);
    }
    type(line, "see");
    line.paste("/tmp/a.jpg");
    line.paste("/tmp/missing.png");
    expect(line.text).toBe("see @/tmp/a.jpg /tmp/missing.png");
  });
});

describe("the history", () => {
  test("is offered by Up on an empty line, and keeps what is sent", () => {
    const history = ["first", "second"];
    const line = inputLine({ history });
    type(line, KEYS.up);
    expect(line.text).toBe("second");
    type(line, KEYS.up);
    expect(line.text).toBe("first");
    type(line, KEYS.down, KEYS.down);
    expect(line.text).toBe("");
    type(line, "third");
    line.take(true);
    expect(history).toEqual(["first", "second", "third"]);
    type(line, KEYS.up);
    expect(line.text).toBe("third");
  });
});

describe("Ctrl-R", () => {
  const history = ["fix the test", "explain src/a.ts\nand src/b.ts", "Fix the docs", "fix the test"];
  const shown = (line: InputLine): string[] => line.view(60).lines.slice(1);

  test("offers past messages with the words of the line, the newest first, each once", () => {
    const line = inputLine({ history: [...history] });
    type(line, KEYS.ctrlR);
    expect(shown(line).slice(0, -1)).toEqual([
      "❯ fix the test",
      "  Fix the docs",
      "  explain src/a.ts and src/b.ts",
    ]);
    type(line, "the fix");
    expect(shown(line).slice(0, -1)).toEqual(["❯ fix the test", "  Fix the docs"]);
    expect(type(line, KEYS.ctrlR, KEYS.enter)).toBe("used");
    expect([line.text, line.hasMenu, shown(line)]).toEqual(["Fix the docs", false, []]);
    expect(type(line, KEYS.enter)).toBe("submit");
  });

  test("takes a message whole, and completes nothing in it", () => {
    const line = inputLine({ history: [...history, "see @src/a"], files: ["src/a.ts"] });
    type(line, KEYS.ctrlR, KEYS.enter);
    expect([line.text, line.hasMenu]).toEqual(["see @src/a", false]);
    type(line, KEYS.ctrlK, "\x15", "explain", KEYS.ctrlR, KEYS.tab);
    expect(line.text).toBe("explain src/a.ts\nand src/b.ts");
  });

  test.each([KEYS.esc, "\x07"])("ends with %j, which does nothing else, and leaves what was typed", (key) => {
    const line = inputLine({ history: [...history] });
    type(line, "no such words", KEYS.ctrlR);
    expect(shown(line)).toEqual(["  no past message has these words"]);
    expect([line.key(key), line.text, line.hasMenu, shown(line)]).toEqual([
      "used",
      "no such words",
      false,
      [],
    ]);
    expect([line.key(key), line.endSearch()]).toEqual(["unused", false]);
  });

  test("Enter sends what no past message has", () => {
    const line = inputLine({ history: [...history] });
    expect(type(line, KEYS.ctrlR, "new words", KEYS.enter)).toBe("submit");
    line.take(true);
    expect([line.hasMenu, shown(line)]).toEqual([false, []]);
  });
});

describe("suggestions", () => {
  test("of commands are there at once, chosen with the arrows, completed with Tab", () => {
    const line = inputLine();
    type(line, "/");
    expect(line.view(60).lines).toEqual([
      "❯ /",
      "❯ /agent           choose the agent",
      "  /quit            leave",
      "  /btw <question>  ask aside",
    ]);
    type(line, KEYS.down, KEYS.tab);
    expect(line.text).toBe("/quit ");
    expect(line.hasMenu).toBe(false);
  });

  test("Enter sends the chosen command, also when it follows the letters at once", () => {
    const line = inputLine();
    expect(type(line, "/q", KEYS.enter)).toBe("submit");
    expect(line.take(true).shown).toBe("/quit ");
    expect(type(line, "/quit", KEYS.enter)).toBe("submit");
    expect(line.take(true).shown).toBe("/quit");
  });

  test("Enter waits for the arguments of a command that needs them", () => {
    const line = inputLine();
    expect(type(line, "/bt", KEYS.enter)).toBe("used");
    expect(line.text).toBe("/btw ");
  });

  test("Escape closes them, and belongs to the caller after that", () => {
    const line = inputLine();
    type(line, "/");
    expect(type(line, KEYS.esc)).toBe("used");
    expect(line.hasMenu).toBe(false);
    expect(type(line, KEYS.esc)).toBe("unused");
    type(line, "q");
    expect(line.hasMenu).toBe(true);
  });

  test("of files replace what was typed, and Enter takes one before it sends", async () => {
    const line = inputLine({ files: ["src/app.ts", "src/", "readme.md"] });
    type(line, "see @ap");
    await until(() => line.hasMenu);
    expect(type(line, KEYS.enter)).toBe("used");
    expect(line.text).toBe("see @src/app.ts ");
    expect(type(line, KEYS.enter)).toBe("submit");
  });

  test("of files never change a text that went on meanwhile", async () => {
    const line = inputLine({ files: ["src/app.ts"] });
    type(line, "@a");
    await until(() => line.hasMenu);
    // The search for "@ap" has not answered when Enter comes.
    expect(type(line, "p", KEYS.enter)).toBe("submit");
    expect(line.text).toBe("@ap");
  });

  test("a path that is typed whole is sent", async () => {
    const line = inputLine({ files: ["src/app.ts", "src/app.tsx"] });
    type(line, "@src/app.ts");
    await until(() => line.hasMenu);
    await Promise.resolve();
    expect(type(line, KEYS.enter)).toBe("submit");
    expect(line.text).toBe("@src/app.ts");
  });

  test("fit a narrow terminal", () => {
    const line = inputLine();
    type(line, "/");
    expect(line.view(24).lines.every((text) => Bun.stringWidth(text) <= 24)).toBe(true);
  });
});
