import { expect, test } from "bun:test";
import { until } from "../../support/until.ts";
import { Machine } from "../support/machine.ts";
import { questions, takesKeys } from "../support/questions.ts";
import { asked, chat, EMPTY_LINE, ENTER, leave } from "./support.ts";

const SHIFT_TAB = "\x1b[Z";
const bash = (command: string) => ({ tool_calls: [{ name: "Bash", input: { command } }] });

test("plan, then accept: the status line shows the mode, and the model carries the plan out", async () => {
  await using machine = new Machine();
  machine.config({ ask: "chat" });
  const model = await machine.model([
    bash("touch a"),
    { text: "1. I make the file a." },
    bash("touch a"),
    { text: "made" },
  ]);
  await using terminal = await chat(machine, [], { columns: 90, rows: 30 });
  await terminal.until(/mode outside \(shift-tab\)/);
  for (const mode of ["edits", "off", "plan"]) {
    terminal.type(SHIFT_TAB);
    await terminal.until(new RegExp(`mode ${mode} \\(shift-tab\\)`));
  }
  terminal.type(`make a${ENTER}`);
  await takesKeys(terminal, /Carry out this plan\?[\s\S]*1 Yes, in the mode edits/);
  expect(machine.has("a")).toBe(false);
  expect(asked(model.requests[0]).join()).toContain("The mode is plan: only look.");
  terminal.type(ENTER);
  await terminal.until((text) => /^made$/m.test(text) && EMPTY_LINE.test(text));
  expect(terminal.screen.text).toContain("mode edits (shift-tab)");
  expect(machine.has("a")).toBe(true);
  expect(asked(model.requests.at(-1)).join()).toContain("I accept the plan. Carry it out.");
  await leave(terminal);
});

test("/ask changes the mode of a live run, and answers its open question; a resume has it", async () => {
  await using machine = new Machine();
  machine.config({ ask: "chat" });
  await machine.model([bash("make x || touch a"), { text: "first" }, bash("touch b"), { text: "second" }]);
  await using terminal = await chat(machine, [], { columns: 90, rows: 30 });
  terminal.type(`begin${ENTER}`);
  await takesKeys(terminal, /needs your answer[\s\S]*No/);
  // From outside over edits to off, which asks nothing. The mode is shown while the question is.
  await terminal.until(/mode outside \(shift-tab\)/);
  terminal.type(SHIFT_TAB);
  await terminal.until(/needs your answer[\s\S]*mode edits \(shift-tab\)/);
  terminal.type(SHIFT_TAB);
  await terminal.until((text) => /^first$/m.test(text) && /mode off/.test(text));
  expect(terminal.screen.text).toMatch(/question \w+: yes by the mode off/);
  expect(machine.has("a")).toBe(true);
  terminal.type(`/ask sideways${ENTER}`);
  await terminal.until(/there is no mode "sideways": expected plan, outside, edits, off/);
  terminal.type(`/ask edits${ENTER}`);
  await terminal.until(/mode edits: as outside, but commands/);
  await leave(terminal);
  await machine.ok(["daemon", "stop"]);
  await using again = await chat(machine, ["--continue"], { columns: 90, rows: 30 });
  await again.until(/mode edits \(shift-tab\)/);
  again.type(`go on${ENTER}`);
  await again.until((text) => /^second$/m.test(text) && EMPTY_LINE.test(text));
  expect(machine.has("b")).toBe(true);
  expect((await machine.run(["show", "1"])).stdout).toContain("the mode edits");
  await leave(again);
});

test("/allow lets calls pass without a question, before the first message and after it; /deny wins", async () => {
  await using machine = new Machine();
  machine.config({ ask: "chat" });
  await machine.model([
    bash("touch a"),
    bash("touch b"),
    { text: "first" },
    bash("touch c"),
    { text: "second" },
    { text: "third" },
  ]);
  await using terminal = await chat(machine, [], { columns: 90, rows: 40 });
  terminal.type(`/allow Bash(touch a)${ENTER}`);
  await terminal.until(/allowed without a question in the new conversation: Bash\(touch a\)/);
  // A rule that is wrong is not taken: each message would be refused for it. Quotes are those of a shell.
  terminal.type(`/allow bash${ENTER}`);
  await terminal.until(/there is no tool "bash"/);
  terminal.type(`/allow Bash(ls${ENTER}`);
  await terminal.until(/expected a pattern like/);
  terminal.type(`/allow 'Bash(env *)'${ENTER}`);
  await terminal.until(
    /, Bash\(env \*\)\nstill asked, where the arguments may run a program: Bash\(env \*\)/,
  );
  terminal.type(`begin${ENTER}`);
  await takesKeys(terminal, /needs your answer[\s\S]*touch b[\s\S]*No/);
  expect([machine.has("a"), machine.has("b")]).toEqual([true, false]);
  terminal.type(`1${ENTER}`);
  await terminal.until((text) => /^first$/m.test(text) && EMPTY_LINE.test(text));
  terminal.type(`/allow Bash(touch *)${ENTER}`);
  await terminal.until(/without a question: Bash\(touch \*\)/);
  terminal.type(`more${ENTER}`);
  await terminal.until((text) => /^second$/m.test(text) && EMPTY_LINE.test(text));
  await until(() => machine.has("c"));
  await leave(terminal);
});

test("a message that is sent beside a question is shown as waiting, with the question", async () => {
  await using machine = new Machine();
  machine.config({ ask: "chat" });
  await machine.model([bash("env touch a"), { text: "made" }]);
  await using terminal = await chat(machine, [], { columns: 90, rows: 30 });
  terminal.type(`begin${ENTER}`);
  await takesKeys(terminal, /needs your answer[\s\S]*No/);
  terminal.type("be quick");
  await terminal.until(/Waiting for permission[\s\S]*be quick/);
  terminal.type(ENTER);
  await terminal.until(/needs your answer[\s\S]*No[\s\S]*next step: be quick/);
  expect(machine.has("a")).toBe(false);
});

test("a question of a conversation that its user has left waits, and is shown again", async () => {
  await using machine = new Machine();
  machine.config({ ask: "chat", question_timeout: "1s" });
  await machine.model([bash("env touch a"), { text: "made" }]);
  await using terminal = await chat(machine, [], { columns: 90, rows: 30 });
  terminal.type(`begin${ENTER}`);
  // Longer than question_timeout: in a conversation it does not count.
  const shown = await takesKeys(terminal, /needs your answer[\s\S]*No/);
  expect(shown).not.toContain(" left");
  await leave(terminal);
  await until(async () => (await questions(machine))[0]?.state === "suspended", "the suspension");
  await using again = await chat(machine, ["--continue"], { columns: 90, rows: 30 });
  await again.until(/the agent waits for your answer: your next message shows the question/);
  again.type(`go on${ENTER}`);
  await takesKeys(again, /needs your answer[\s\S]*env touch a[\s\S]*No/);
  again.type(ENTER);
  await again.until((text) => /^made$/m.test(text) && EMPTY_LINE.test(text));
  expect(machine.has("a")).toBe(true);
  await leave(again);
});
