import { expect, test } from "bun:test";
import type { TerminalSession } from "../../support/terminal.ts";
import { Machine } from "../support/machine.ts";
import { CTRL_C, chat, EMPTY_LINE, ENTER, leave, READY } from "./support.ts";

/** Types a command and waits for its answer, which is a block in the transcript. */
async function command(terminal: TerminalSession, line: string, answer: RegExp): Promise<void> {
  terminal.type(`${line}${ENTER}`);
  await terminal.until((text) => answer.test(text) && (EMPTY_LINE.test(text) || /^❯ a message/m.test(text)));
}

test("every command answers with a block, before the first message and after it", async () => {
  await using machine = new Machine();
  machine.write("total.txt", "one\n");
  machine.git("init", "-q");
  machine.git("add", ".");
  machine.git("commit", "-qm", "begin");
  const model = await machine.model([
    {
      tool_calls: [{ name: "Write", input: { path: "total.txt", content: "two\n" } }],
      usage: { input_tokens: 900, output_tokens: 80 },
    },
    { text: "changed" },
    { text: "changed again" },
  ]);
  await using terminal = await chat(machine, [], { columns: 100, rows: 40 });
  await command(terminal, "/model", /a new conversation runs on openai\/m, agent default/);
  await command(terminal, "/cost", /nothing was used yet/);
  await command(terminal, "/diff", /there is no conversation/);
  await command(terminal, "/btw why?", /no conversation to ask about yet/);
  await command(terminal, "/agent nobody", /there is no agent "nobody"/);
  await command(terminal, "/agent coder", /agent: coder/);
  await command(terminal, "/deny WebFetch", /there is no tool "WebFetch"/);
  await command(terminal, "/deny Glob", /deny in the new conversation: Glob/);
  await command(terminal, "/tools", /tools of coder: .*Bash/);
  await command(terminal, "/add", /\/add needs a folder/);
  await command(terminal, "/add total.txt", /expected a folder, got the file total.txt/);

  terminal.type(`change it${ENTER}`);
  await terminal.until((text) => /^changed$/m.test(text) && EMPTY_LINE.test(text));
  expect(terminal.screen.text).toContain("coder");
  await command(terminal, "/model m2", /model: openai\/m2/);
  await command(terminal, "/model", /model: openai\/m2/);
  await command(terminal, "/tools", /denied: Glob/);
  await command(terminal, "/deny Bash", /denied: .*Bash/);
  await command(terminal, "/cost", /tokens in 2 steps: .* in \(.*\), .* out/);
  await command(terminal, "/compact", /tokens; compaction can't make it smaller|tokens before/);
  await command(terminal, "/diff", /\+two/);
  terminal.type(`/undo${ENTER}`);
  await terminal.until(/Take back the changes in 1 file\?/);
  terminal.type(ENTER);
  await terminal.until((text) => text.includes("restored  total.txt") && EMPTY_LINE.test(text));
  expect(machine.read("total.txt")).toBe("one\n");

  terminal.type(`again${ENTER}`);
  await terminal.until((text) => text.includes("changed again") && EMPTY_LINE.test(text));
  expect((model.requests.at(-1)?.body as { model: string } | undefined)?.model).toBe("m2");
  await command(terminal, "/help", /ctrl-d\s+leave; a working agent continues/);
  terminal.type(`/quit${ENTER}`);
  expect((await terminal.done).code).toBe(0);
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

test("without colour everything is there, without a style", async () => {
  await using machine = new Machine();
  await machine.model([{ text: "a **plain** answer" }]);
  await using terminal = machine.terminal(["chat"], { env: { NO_COLOR: "1" } });
  await terminal.until(READY);
  terminal.type(`hello${ENTER}`);
  await terminal.until((text) => text.includes("a plain answer") && EMPTY_LINE.test(text));
  expect(terminal.screen.styled).not.toMatch(/<(?:red|green|yellow|cyan|dim|bold)>/);
  await leave(terminal);
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
