import { expect, test } from "bun:test";
import type { TerminalSession } from "../../support/terminal.ts";
import { Machine } from "../support/machine.ts";
import { hostileServer, mcpJson, mcpServer } from "../support/mcp.ts";
import { asked, CTRL_C, chat, EMPTY_LINE, ENTER, ESCAPE, leave, READY } from "./support.ts";

/** Types a command and waits for its answer, which is a block in the transcript. */
async function command(terminal: TerminalSession, line: string, answer: RegExp): Promise<void> {
  terminal.type(`${line}${ENTER}`);
  await terminal.until((text) => answer.test(text) && (EMPTY_LINE.test(text) || /^❯ a message/m.test(text)));
}

/** Types a command that opens a list, and a key for it. */
async function picked(terminal: TerminalSession, line: string, list: RegExp, key: string): Promise<void> {
  terminal.type(`${line}${ENTER}`);
  await terminal.until(list);
  terminal.type(key);
  await terminal.until((text) => !/type to filter/.test(text));
}

test("every command answers with a block, before the first message and after it", async () => {
  await using machine = new Machine();
  machine.write("total.txt", "one\n");
  machine.git("init", "-q");
  machine.git("add", ".");
  machine.git("commit", "-qm", "begin");
  const model = await machine.model({
    turns: [
      {
        tool_calls: [{ name: "Write", input: { path: "total.txt", content: "two\n" } }],
        usage: { input_tokens: 900, output_tokens: 80 },
      },
      { text: "changed" },
      { text: "changed again" },
    ],
    models: ["m", "m2"],
  });
  await using terminal = await chat(machine, [], { columns: 100, rows: 40 });
  await picked(terminal, "/model", /openai\/m +in use/, ESCAPE);
  await command(terminal, "/model m3", /openai has no model "m3": did you mean/);
  await command(terminal, "/effort highest", /\/effort takes minimal, low, medium, high, max/);
  await command(terminal, "/effort low", /effort of the new conversation: low/);
  for (const name of ["name it", "copy", "export"])
    await command(terminal, `/${name}`, new RegExp(`/${name}|there is no (?:conversation|answer) to`));
  await command(terminal, "/cost", /nothing was used yet/);
  await command(terminal, "/diff", /there is no conversation/);
  await command(terminal, "/btw why?", /no conversation to ask about yet/);
  await command(terminal, "/agent nobody", /there is no agent "nobody"/);
  // Before any letter of a name, Enter chooses none.
  terminal.type("/agent ");
  await terminal.until(/^❯ \/agent\n❯ \S/m);
  await command(terminal, "", /agent of a new conversation: default/);
  await command(terminal, "/agent coder", /agent: coder/);
  await command(terminal, "/deny NoSuchTool", /there is no tool "NoSuchTool"/);
  await command(terminal, "/deny Glob", /denied in the new conversation: Glob/);
  await command(terminal, "/tools", /tools of coder: .*Bash/);
  await command(terminal, "/add", /\/add needs a folder/);
  await command(terminal, "/add total.txt", /expected a folder, got the file total.txt/);

  terminal.type(`change it${ENTER}`);
  await terminal.until((text) => /^changed$/m.test(text) && EMPTY_LINE.test(text));
  expect(terminal.screen.text).toContain("coder");
  await command(terminal, "/model m2", /model: openai\/m2/);
  await picked(terminal, "/model", /openai\/m2 +in use/, ESCAPE);
  await command(terminal, "/effort high", /effort: high/);
  await command(terminal, "/tools", /denied: Glob/);
  await command(terminal, "/deny Bash", /denied: .*Bash/);
  await command(terminal, "/cost", /tokens in 2 steps: .* in \(.*\), .* out/);
  await command(terminal, "/compact", /tokens; compaction can't make it smaller|tokens before/);
  await command(terminal, "/diff", /\+two/);
  terminal.type(`/undo${ENTER}`);
  await terminal.until(/Take back the changes in 1 file\?/);
  for (const key of "first tell me") terminal.type(key);
  await terminal.until(/nothing fits/);
  terminal.type(ESCAPE);
  // What is no answer is the beginning of a message.
  await terminal.until(/^❯ first tell me$/m);
  terminal.type(CTRL_C);
  await terminal.until(EMPTY_LINE);
  terminal.type(`/undo${ENTER}`);
  await terminal.until(/Take back the changes in 1 file\?/);
  terminal.type(ENTER);
  await terminal.until((text) => text.includes("--redo makes them again") && EMPTY_LINE.test(text));
  expect(machine.read("total.txt")).toBe("one\n");

  terminal.type(`again${ENTER}`);
  await terminal.until((text) => text.includes("changed again") && EMPTY_LINE.test(text));
  const body = model.requests.at(-1)?.body as { model: string; reasoning_effort?: string } | undefined;
  expect(body?.model).toBe("m2");
  await command(terminal, "/help", /ctrl-d\s+leave; a working agent continues/);
  terminal.type(`/quit${ENTER}`);
  expect((await terminal.done).code).toBe(0);
});

test("prompts of an MCP server are commands: completed by the server, filled with arguments", async () => {
  await using machine = new Machine();
  mcpJson(machine, { notes: mcpServer(), bad: hostileServer("hang") });
  await machine.ok(["trust", "--yes"]);
  const model = await machine.model([{ text: "a summary" }]);
  await using terminal = await chat(machine, [], { columns: 100, rows: 30 });
  terminal.type("/note");
  // The files are read with the first slash.
  await terminal.until(/prompts of this MCP server|^❯ \/note/m);
  terminal.type("s");
  await terminal.until(/\/notes: +prompts of this MCP server/);
  terminal.type("\t");
  await terminal.until(/summary +\[topic\] \[style\]: Summarizes the notes/);
  terminal.type("\t");
  await terminal.until(/^❯ \/notes:summary$/m);
  terminal.type(`cats style="in three words"${ENTER}`);
  await terminal.until((text) => text.includes("a summary") && EMPTY_LINE.test(text));
  expect(asked(model.requests[0]).join()).toContain("Summarize cats, in three words.");
  await command(terminal, "/notes:no", /there is no \/notes:no; notes has \/notes:summary/);
  await command(terminal, "/nots:summary", /got "nots"\. Did you\s+mean "notes"/);
  await command(terminal, "/notes:summary style=x topic=y z", /it takes no z/);
  terminal.type("/bad:");
  expect(await terminal.until(/look +red:/)).toMatch(/look +red: and more$/m);
  expect(terminal.screen.text).not.toContain("can't be typed");
  expect(terminal.written).not.toContain("red:\x1b");
  terminal.type("\x15");
  await terminal.until(EMPTY_LINE);
  await leave(terminal);
});

test("/quit and Ctrl-C twice while the agent works: the first asks or suspends", async () => {
  await using machine = new Machine();
  const sleep = { name: "Bash", input: { command: "trap '' TERM INT; echo begun; sleep 60" } };
  await machine.model([{ tool_calls: [sleep] }]);
  machine.config({ grace: "20s" });
  await using terminal = await chat(machine);
  terminal.type(`sleep${ENTER}`);
  await terminal.until(/begun/);
  terminal.type(`/quit${ENTER}`);
  await terminal.until(/\/quit again leaves it running/);
  terminal.type(CTRL_C);
  await terminal.until(/suspending the run; ctrl-c again kills it/);
  terminal.type(CTRL_C);
  await terminal.until(/killing the run/);
  terminal.type(CTRL_C);
  expect((await terminal.done).code).toBe(0);
  const [uuid = ""] = /[0-9a-f]{8}-[0-9a-f-]{27}/.exec(terminal.screen.transcript) ?? [];
  await machine.run(["kill", "-s", "KILL", uuid]);
});

for (const [name, value] of Object.entries({ TERM: "dumb", CI: "true" }))
  test(`with ${name}=${value} no conversation begins, and the error names what to use`, async () => {
    await using machine = new Machine();
    await using terminal = machine.terminal(["chat"], { env: { [name]: value } });
    expect((await terminal.done).code).toBe(64);
    expect(terminal.written).toMatch(
      /a conversation needs a terminal, and (?:TERM is dumb|CI is set)\. For one answer: rnix spawn/,
    );
    expect(terminal.written).not.toContain("\x1b[");
  });

test("without colour everything is there, without a style", async () => {
  await using machine = new Machine();
  await machine.model([{ text: "a **plain** answer" }]);
  await using terminal = machine.terminal(["chat"], { env: { NO_COLOR: "1" } });
  await terminal.until(READY);
  terminal.type(`hello${ENTER}`);
  await terminal.until((text) => text.includes("a plain answer") && EMPTY_LINE.test(text));
  expect(terminal.screen.styled).not.toMatch(
    /<(?:red|green|yellow|blue|magenta|cyan|dim|bold|italic|underline|strike)>/,
  );
  await leave(terminal);
});

test("/diff of a conversation that has changed nothing is one plain sentence", async () => {
  await using machine = new Machine();
  await machine.model([{ text: "hello" }]);
  await using terminal = await chat(machine);
  terminal.type(`hi${ENTER}`);
  await terminal.until((text) => /^hello$/m.test(text) && EMPTY_LINE.test(text));
  terminal.type(`/diff${ENTER}`);
  await terminal.until(/^The conversation has changed no files\.$/m);
  expect(terminal.screen.text).not.toContain("note:");
  await leave(terminal);
});

test("the status line has the folder and the branch, as they are now", async () => {
  await using machine = new Machine({ git: true });
  await machine.model([{ text: "one" }, { text: "two" }]);
  await using terminal = await chat(machine);
  await terminal.until(/project \(main\), openai\/m, agent default/);
  terminal.type(`one${ENTER}`);
  await terminal.until((text) => /project \(main\) · default · m · /.test(text) && EMPTY_LINE.test(text));
  machine.git("switch", "--quiet", "--create", "topic/a");
  terminal.type(`two${ENTER}`);
  await terminal.until((text) => /project \(topic\/a\) · /.test(text) && text.includes("two"));
  await leave(terminal);
});

test("a pasted megabyte becomes a marker, and is sent whole", async () => {
  await using machine = new Machine();
  const model = await machine.model([{ text: "read" }]);
  await using terminal = await chat(machine);
  terminal.paste("a line of text, some words\n".repeat(40_000));
  await terminal.until(/^❯ \[paste #1 \+40001 lines\]/m);
  terminal.type(ENTER);
  await terminal.until((text) => text.includes("read") && EMPTY_LINE.test(text));
  await leave(terminal);
  expect(asked(model.requests[0]).at(-1)).toHaveLength(27 * 40_000 - 1);
});

test("a pasted megabyte shows something within 200 ms of what a small paste takes", async () => {
  await using machine = new Machine();
  await machine.model([]);
  await using terminal = await chat(machine);
  const firstSign = async (text: string): Promise<number> => {
    const start = performance.now();
    terminal.paste(text);
    await terminal.until(/pasting: |\[paste #/);
    const took = performance.now() - start;
    await terminal.until(/\[paste #\d+ [^\]]*\]$/m);
    terminal.type(CTRL_C);
    await terminal.until((shown) => !/pasting: |\[paste #/.test(shown));
    return took;
  };
  /** The best of some, as other programs may have the processor. */
  const best = async (text: string): Promise<number> => {
    const times: number[] = [];
    for (let i = 0; i < 4; i++) times.push(await firstSign(text));
    return Math.min(...times);
  };
  const line = "a line of text, some words\n";
  const floor = await best(line.repeat(40));
  for (const megabyte of [line.repeat(40_000), "some words ".repeat(100_000)])
    expect(await best(megabyte)).toBeLessThan(floor + 200);
});

test("the bell rings for a turn that took longer than the setting", async () => {
  await using machine = new Machine();
  machine.config({ bell: "100ms" });
  const slow = { name: "Bash", input: { command: "sleep 0.3" } };
  await machine.model([{ tool_calls: [slow] }, { text: "slept" }]);
  await using terminal = await chat(machine);
  terminal.type(`sleep a little${ENTER}`);
  await terminal.until((text) => text.includes("slept") && EMPTY_LINE.test(text));
  await terminal.until(() => terminal.screen.bells > 0);
  await leave(terminal);
});

test("an unknown command is cleared, and is no part of the next message", async () => {
  await using machine = new Machine();
  const model = await machine.model([{ text: "answered" }]);
  await using terminal = await chat(machine);
  terminal.type(`/modle m2${ENTER}`);
  await terminal.until(
    (text) => text.includes("unknown command /modle; did you mean /model?") && /^❯ a/m.test(text),
  );
  terminal.type(`hello${ENTER}`);
  await terminal.until(/answered/);
  await leave(terminal);
  expect(asked(model.requests[0]).at(-1)).toBe("hello");
});

/** The form of a key, and none. */
const KEY = `ghp_${"Ab1".repeat(12)}`;

test("/copy gives the terminal the last answer, and /export writes the conversation without secrets", async () => {
  await using machine = new Machine();
  machine.write("key.txt", `token ${KEY}\n`);
  await machine.model([
    { text: "the first" },
    { tool_calls: [{ name: "Read", input: { path: "key.txt" } }] },
    { text: "# Last\n\n<script>alert(1)</script> of *two*" },
  ]);
  await using terminal = await chat(machine, [], { env: { DEPLOY_TOKEN: "not-a-known-format-1" } });
  terminal.type(`one${ENTER}`);
  await terminal.until((text) => text.includes("the first") && EMPTY_LINE.test(text));
  terminal.type(`use ${KEY} and not-a-known-format-1${ENTER}`);
  await terminal.until((text) => text.includes("of *two*") && EMPTY_LINE.test(text));
  await command(terminal, "/copy", /copied the last answer: 3 lines/);
  const sent = terminal.written.split("\x1b]52;c;")[1]?.split("\x07")[0] ?? "";
  expect(Buffer.from(sent, "base64").toString()).toBe("# Last\n\n<script>alert(1)</script> of *two*");

  await command(terminal, "/name the two keys", /name: the two keys/);
  await command(terminal, "/export talk.md", /exported to .*talk\.md/);
  const text = machine.read("talk.md");
  expect(text).toStartWith("# the two keys\n");
  expect(text).toMatch(
    /## You\n\n> one\n\n## Answer\n\nthe first\n\n## You\n\n> use \[a GitHub token\] and \[DEPLOY_TOKEN\]/,
  );
  expect(text).toMatch(/`Read key\.txt`\n\n```\n.*token \[a GitHub token\]\n```/);
  await picked(terminal, "/export talk.md", /talk\.md exists\. Overwrite it\?/, ESCAPE);
  await command(terminal, "/export talk.html", /exported to .*talk\.html/);
  const page = machine.read("talk.html");
  expect(page).toContain("<h1>Last</h1>");
  expect(page).toContain("&lt;script&gt;alert(1)");
  expect(page).not.toContain(KEY);
  await leave(terminal);
});

test("/resume tells a fork from its origin, and shows the names that were given", async () => {
  await using machine = new Machine();
  let count = 0;
  await machine.model(() => ({ text: `answer ${++count}` }));
  await using terminal = await chat(machine, [], { columns: 100, rows: 30 });
  const say = async (message: string): Promise<void> => {
    terminal.type(`${message}${ENTER}`);
    await terminal.until(
      (text) => new RegExp(`› ${message}[\\s\\S]*answer \\d`).test(text) && EMPTY_LINE.test(text),
    );
  };
  await say("about apples");
  await command(terminal, "/fork", /this is a copy/);
  await say("make it green");
  await command(terminal, "/fork", /this is a copy[\s\S]*this is a copy/);
  await say("make it red");
  await command(terminal, "/new", /begins a new conversation/);
  terminal.type(`/resume${ENTER}`);
  const list = await terminal.until(/Continue which conversation/);
  expect(list).toMatch(/about apples … make it red +fork, /);
  expect(list).toMatch(/about apples … make it green +fork, /);
  expect(list).toMatch(/about apples +(?!fork)\S/);
  terminal.type(`green${ENTER}`);
  await terminal.until((text) => text.includes("› make it green") && EMPTY_LINE.test(text));
  await command(terminal, "/name green apples", /name: green apples/);
  expect((await machine.run(["ps"])).stdout).toContain("green apples");
  await command(terminal, "/new", /begins a new conversation/);
  await picked(terminal, "/resume", /^.*green apples +fork, /m, ESCAPE);
  await leave(terminal);
});
