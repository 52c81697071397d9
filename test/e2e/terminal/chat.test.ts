import { describe, expect, test } from "bun:test";
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { png } from "../../support/images.ts";
import type { Turn } from "../../support/model-server/script.ts";
import type { TerminalSession } from "../../support/terminal.ts";
import { until } from "../../support/until.ts";
import { LosingSocket } from "../support/losing-socket.ts";
import { Machine } from "../support/machine.ts";
import { takesKeys } from "../support/questions.ts";
import {
  ALT_ENTER,
  ALT_UP,
  asked,
  CTRL_C,
  CTRL_D,
  CTRL_R,
  CTRL_S,
  chat,
  EMPTY_LINE,
  ENTER,
  ESCAPE,
  hasArrived,
  leave,
  READY,
} from "./support.ts";

/** A model that answers "answer number 1", "answer number 2" and so on. */
function numbered(): () => { text: string } {
  let count = 0;
  return () => ({ text: `answer number ${++count}` });
}

/** An answer that takes some seconds to arrive. */
const LONG_ANSWER = {
  text: Array.from({ length: 400 }, (_, i) => `word${i}`).join(" "),
  chunks: 400,
  pace_ms: 20,
};

/** A command that runs until it is stopped. */
const SLEEP = { name: "Bash", input: { command: "echo begun; sleep 60" } };

describe("a conversation", () => {
  test("of several turns is one run, and its end names the command that continues it", async () => {
    await using machine = new Machine();
    const model = await machine.model([{ text: "I am **ready**." }, { text: "The second answer." }]);
    await using terminal = machine.terminal([]);
    await terminal.until(READY);
    // No process exists before the first message.
    expect((await machine.run(["ps", "-a"])).stdout).not.toContain("default");
    terminal.type(`hello there${ENTER}`);
    await terminal.until((text) => text.includes("I am ready.") && EMPTY_LINE.test(text));
    terminal.type(`and again${ENTER}`);
    await terminal.until(/The second answer/);
    expect(terminal.screen.title).toContain("ready");
    const transcript = await leave(terminal);
    expect(transcript.match(/› hello there/g)).toHaveLength(1);
    expect(transcript.match(/The second answer/g)).toHaveLength(1);
    expect(transcript).toMatch(/rnix chat --resume [0-9a-f-]{36}$/m);
    expect(model.requests).toHaveLength(2);
    expect(asked(model.requests[1]).slice(-2)).toEqual(["hello there", "and again"]);
    const { stdout } = await machine.run(["ps", "-a", "--json"]);
    expect(JSON.parse(stdout)).toHaveLength(1);
  });

  test("letters typed right behind Enter are the next message", async () => {
    await using machine = new Machine();
    const model = await machine.model([{ text: "one" }, { text: "two" }]);
    await using terminal = await chat(machine);
    terminal.type(`first${ENTER}second`);
    await terminal.until((text) => text.includes("one") && /^❯ second/m.test(text));
    terminal.type(ENTER);
    await terminal.until(/two/);
    await leave(terminal);
    expect(asked(model.requests[1]).slice(-2)).toEqual(["first", "second"]);
  });

  test("keeps what was typed in a history of this user, for the next conversation", async () => {
    await using machine = new Machine();
    await machine.model([{ text: "done" }]);
    {
      await using terminal = await chat(machine);
      terminal.type(`remember me${ENTER}`);
      await terminal.until(/done/);
      await leave(terminal);
    }
    const folder = join(machine.dataDir, "history");
    const [file = ""] = readdirSync(folder);
    expect(statSync(join(folder, file)).mode & 0o777).toBe(0o600);
    await using terminal = await chat(machine);
    terminal.type("\x1b[A");
    await terminal.until(/^❯ remember me/m);
    terminal.type(CTRL_C);
    await terminal.until(/^❯ a message/m);
    terminal.type(CTRL_C);
    await terminal.until(/ctrl-c again leaves/);
    terminal.type(CTRL_C);
    expect((await terminal.done).code).toBe(0);
  });
});

describe("typing while the agent works", () => {
  test("Enter is for its next step, Alt+Enter for after its answer; both can be taken back", async () => {
    await using machine = new Machine();
    const model = await machine.model([
      {
        tool_calls: [
          { name: "Bash", input: { command: "echo begun; while [ ! -e go ]; do sleep 0.05; done" } },
        ],
      },
      { text: "first answer" },
      { text: "second answer" },
    ]);
    await using terminal = await chat(machine);
    terminal.type(`begin${ENTER}`);
    await terminal.until(/begun/);
    terminal.type(`wrong${ENTER}`);
    await terminal.until(/next step: wrong/);
    terminal.type(ALT_UP);
    await terminal.until((text) => /^❯ wrong/m.test(text) && !text.includes("next step: wrong"));
    terminal.type(`\x15steer left${ENTER}`);
    await terminal.until(/next step: steer left/);
    terminal.type(`then more${ALT_ENTER}`);
    await terminal.until(/after this answer: then more/);
    await hasArrived(machine, "then more");
    machine.write("go", "");
    await terminal.until((text) => text.includes("second answer") && EMPTY_LINE.test(text));
    const transcript = await leave(terminal);
    expect(asked(model.requests[1]).at(-1)).toBe("steer left");
    expect(asked(model.requests[2]).at(-1)).toBe("then more");
    expect(transcript.match(/› steer left/g)).toHaveLength(1);
    expect(transcript).not.toContain("› wrong");
  });

  test("Esc stops a command within moments, and what waits returns to the line", async () => {
    await using machine = new Machine();
    const model = await machine.model([{ tool_calls: [SLEEP] }, { text: "as you wish" }]);
    await using terminal = await chat(machine);
    terminal.type(`sleep${ENTER}`);
    await terminal.until(/begun/);
    terminal.type(`do it otherwise${ENTER}`);
    await terminal.until(/next step: do it otherwise/);
    terminal.type(ESCAPE);
    await terminal.until((text) => /^❯ do it otherwise/m.test(text) && text.includes("stopped"));
    terminal.type(ENTER);
    await terminal.until(/as you wish/);
    await leave(terminal);
    expect(asked(model.requests[1]).at(-1)).toBe("do it otherwise");
  });

  test("Esc before any answer puts the message back into the line, and the model never got it", async () => {
    await using machine = new Machine();
    const model = await machine.model([{ fault: { kind: "hang" } }, { text: "now then" }]);
    await using terminal = await chat(machine);
    terminal.type(`my mistake${ENTER}`);
    await terminal.until(/› my mistake/);
    await until(() => model.requests.length === 1);
    terminal.type(ESCAPE);
    await terminal.until(/^❯ my mistake/m);
    terminal.type(`\x15corrected${ENTER}`);
    await terminal.until(/now then/);
    await leave(terminal);
    expect(asked(model.requests[1]).join()).not.toContain("my mistake");
  });

  test("Esc in the middle of an answer leaves its beginning, and a line that says where it stopped", async () => {
    await using machine = new Machine();
    const model = await machine.model([{ reasoning: "Hm.", ...LONG_ANSWER }, { text: "as you wish" }]);
    // So low that only the status line has room above the input line.
    await using terminal = await chat(machine, [], { columns: 60, rows: 5 });
    terminal.type(`tell me all${ENTER}`);
    await terminal.until(/answering/);
    terminal.resize(60, 20);
    await terminal.until(/word9/);
    terminal.type(ESCAPE);
    await terminal.until(EMPTY_LINE);
    await terminal.until(/! interrupted/);
    terminal.type(`shorter${ENTER}`);
    await terminal.until(/as you wish/);
    const transcript = await leave(terminal);
    expect(transcript).toMatch(
      /› tell me all\n\n∴ thought for .*\n\nword0 [^!]*\n\n! interrupted\n\n› shorter\n\nas you wish/,
    );
    // What explains it to the model is not for the user.
    expect(transcript).not.toContain("incomplete");
    expect(asked(model.requests[1]).at(-1)).toContain("interrupted your last answer");
  });

  test("Ctrl+S sends what waits at once", async () => {
    await using machine = new Machine();
    const model = await machine.model([{ tool_calls: [SLEEP] }, { text: "turned around" }]);
    await using terminal = await chat(machine);
    terminal.type(`sleep${ENTER}`);
    await terminal.until(/begun/);
    terminal.type(`not that${ENTER}`);
    await terminal.until(/next step: not that/);
    terminal.type(CTRL_S);
    await terminal.until(/turned around/);
    await leave(terminal);
    expect(asked(model.requests[1]).at(-1)).toBe("not that");
  });

  test("words typed at a question are a message, and their Enter approves nothing", async () => {
    await using machine = new Machine();
    const ask = { name: "Bash", input: { command: "touch approved" } };
    const model = await machine.model([{ tool_calls: [ask] }, { text: "as you say" }]);
    await using terminal = await chat(machine, ["--ask", "Bash"]);
    terminal.type(`begin${ENTER}`);
    await takesKeys(terminal, /needs your answer[\s\S]*Enter chooses/);
    terminal.type(`rather not${ENTER}`);
    await terminal.until(/next step: rather not/);
    expect(machine.has("approved")).toBe(false);
    await takesKeys(terminal, /needs your answer/);
    terminal.type(`4${ENTER}`);
    await terminal.until(/as you say/);
    await leave(terminal);
    expect(machine.has("approved")).toBe(false);
    expect(asked(model.requests[1]).at(-1)).toBe("rather not");
  });

  test("Ctrl-R finds a past message; Ctrl-C ends only the search", async () => {
    await using machine = new Machine();
    const model = await machine.model([{ text: "one" }, { tool_calls: [SLEEP] }]);
    await using terminal = await chat(machine);
    terminal.type(`count the apples${ENTER}`);
    await terminal.until((text) => text.includes("one") && EMPTY_LINE.test(text));
    terminal.type(`${CTRL_R}apples`);
    await terminal.until(/❯ apples\n❯ count the apples\n\s+past messages/);
    terminal.type(`${ENTER}`);
    await terminal.until(/❯ count the apples\s*$/m);
    terminal.type(ENTER);
    await terminal.until(/begun/);
    terminal.type(CTRL_R);
    await terminal.until(/past messages/);
    terminal.type(CTRL_C);
    await terminal.until((text) => !text.includes("past messages"));
    expect(terminal.screen.transcript).not.toContain("suspending");
    terminal.type(ESCAPE);
    await terminal.until(/interrupted/);
    await leave(terminal);
    expect(asked(model.requests[1]).at(-1)).toBe("count the apples");
  });

  test("a message is taken once, though its answer is lost and it is sent again", async () => {
    await using machine = new Machine();
    const wait = { name: "Bash", input: { command: "echo begun; until [ -e go ]; do sleep 0.02; done" } };
    const model = await machine.model([{ tool_calls: [wait] }, { text: "read it" }]);
    await machine.ok(["daemon", "start"]);
    await using between = await LosingSocket.listen(join(machine.root, "between"), machine.socket);
    await using terminal = await chat(machine, [], { env: { XDG_RUNTIME_DIR: between.folder } });
    terminal.type(`wait${ENTER}`);
    await terminal.until(/begun/);
    between.lose("send_message");
    terminal.type(`wake up${ENTER}`);
    await until(() => between.sent("send_message") === 2, "it is sent again");
    await terminal.until(/next step: wake up/);
    machine.write("go", "");
    await terminal.until((text) => text.includes("read it") && EMPTY_LINE.test(text));
    await leave(terminal);
    expect(
      asked(model.last)
        .join("\n")
        .match(/wake up/g),
    ).toHaveLength(1);
  });

  test("Ctrl-C suspends the run, and the next message resumes it", async () => {
    await using machine = new Machine();
    await machine.model([{ tool_calls: [SLEEP] }, { text: "resumed" }]);
    await using terminal = await chat(machine);
    terminal.type(`sleep${ENTER}`);
    await terminal.until(/begun/);
    terminal.type(CTRL_C);
    await terminal.until(/your next message resumes it/);
    expect((await machine.run(["ps", "-a"])).stdout).toContain("suspended");
    terminal.type(`go on${ENTER}`);
    await terminal.until((text) => text.includes("resumed") && EMPTY_LINE.test(text));
    await leave(terminal);
  });

  test.each([
    ["Ctrl-C", (terminal: TerminalSession, _: Machine) => terminal.type(CTRL_C)],
    ["a kill of the daemon", (_: TerminalSession, machine: Machine) => machine.killDaemon()],
  ])("a message that waits is read once after %s", async (_, stop) => {
    await using machine = new Machine();
    const model = await machine.model([LONG_ANSWER, { text: "carried on" }, { text: "carried on" }]);
    await using terminal = await chat(machine);
    terminal.type(`tell me all${ENTER}`);
    await terminal.until(/word9/);
    terminal.type(`but briefly${ENTER}`);
    await terminal.until(/next step: but briefly/);
    await stop(terminal, machine);
    await terminal.until((shown) => /1\s+message\s+not\s+read\s+yet/.test(shown) && EMPTY_LINE.test(shown));
    terminal.type(`go on${ENTER}`);
    // The daemon may have resumed the run by itself: the first answer is not always that to "go on".
    await until(() => asked(model.last).at(-1)?.includes("go on") === true, "the model reads it");
    await terminal.until((shown) => EMPTY_LINE.test(shown) && !shown.includes("next step:"));
    const transcript = await leave(terminal);
    expect(transcript.match(/^[› ] but briefly/gm)).toHaveLength(1);
    expect(
      asked(model.requests[1])
        .join("\n")
        .match(/but briefly/g),
    ).toHaveLength(1);
  });

  test("messages that wait keep their own words when the run is resumed and fails", async () => {
    await using machine = new Machine();
    machine.config({ model_retries: "none" });
    const refused: Turn = { fault: { kind: "status", status: 400, message: "not today" } };
    const model = await machine.model([LONG_ANSWER, refused]);
    await using terminal = await chat(machine);
    terminal.type(`tell me all${ENTER}`);
    await terminal.until(/word9/);
    terminal.type(`but briefly${ENTER}`);
    await terminal.until(/next step: but briefly/);
    terminal.type(CTRL_C);
    await terminal.until(/your next message resumes it/);
    terminal.type(`and go on${ENTER}`);
    // They wait again, as the model has not read them.
    const shown = await terminal.until((all) => /not today[\s\S]*next step: .*and go on/.test(all));
    expect(shown.slice(shown.indexOf("not today")).match(/tell me all/g)).toHaveLength(1);
    expect(shown.slice(shown.indexOf("not today")).match(/and go on/g)).toHaveLength(1);
    expect(
      asked(model.requests[1])
        .join("\n")
        .match(/but briefly/g),
    ).toHaveLength(1);
    terminal.type(CTRL_D);
    await terminal.done;
  });

  test("a first message that can't be sent stays in the line", async () => {
    await using machine = new Machine();
    await machine.model([{ text: "sent" }]);
    machine.config({ model_retries: "often" });
    await using terminal = await chat(machine);
    terminal.type(`keep me${ENTER}`);
    await terminal.until((shown) => shown.includes("model_retries") && /^❯ keep me/m.test(shown));
  });

  test("Ctrl-S asks again after the model has failed", async () => {
    await using machine = new Machine();
    const model = await machine.model([
      { fault: { kind: "status", status: 400, message: "not today" } },
      { text: "at last" },
    ]);
    await using terminal = await chat(machine);
    terminal.type(`try it${ENTER}`);
    await terminal.until((shown) => shown.includes("not today") && shown.includes("next step: try it"));
    terminal.type(CTRL_S);
    await terminal.until((shown) => shown.includes("at last") && EMPTY_LINE.test(shown));
    await leave(terminal);
    expect(asked(model.requests[1]).at(-1)).toBe("try it");
  });

  test("Ctrl-D leaves the agent working, and says how to come back", async () => {
    await using machine = new Machine();
    await machine.model([{ tool_calls: [SLEEP] }]);
    await using terminal = await chat(machine);
    terminal.type(`sleep${ENTER}`);
    await terminal.until(/begun/);
    const transcript = await leave(terminal);
    expect(transcript).toContain("The agent continues. To come back:");
    expect((await machine.run(["ps"])).stdout).toContain("sleep");
    const [uuid = ""] = /[0-9a-f-]{36}/.exec(transcript) ?? [];
    await machine.run(["kill", uuid]);
  });
});

describe("what is sent", () => {
  test("a paste of 60 lines is a marker, and whole for the model", async () => {
    await using machine = new Machine();
    const model = await machine.model([{ text: "read" }]);
    await using terminal = await chat(machine);
    const pasted = Array.from({ length: 60 }, (_, i) => `\tline ${i}`).join("\n");
    terminal.type("look: ");
    terminal.paste(pasted);
    await terminal.until(/❯ look: \[paste #1 \+60 lines\]/);
    terminal.type(ENTER);
    await terminal.until(/read/);
    expect(await leave(terminal)).toContain("› look: [paste #1 +60 lines]");
    expect(asked(model.requests[0]).at(-1)).toBe(`look: ${pasted}`);
  });

  test("files by @, completed from the project, with their text; a picture as a picture", async () => {
    await using machine = new Machine();
    const model = await machine.model([{ text: "seen" }, { text: "seen too" }]);
    machine.write("src/total.ts", "export const total = 41;\n");
    machine.write("picture.png", "");
    await Bun.write(join(machine.project, "picture.png"), png(2, 2));
    await using terminal = await chat(machine);
    terminal.type("explain @tot");
    await terminal.until(/❯ src\/total.ts/);
    terminal.type(ENTER);
    await terminal.until(/explain @src\/total.ts/);
    terminal.type(ENTER);
    await terminal.until(/seen/);
    terminal.type(`and @picture.png ${ENTER}`);
    await terminal.until(/seen too/);
    const transcript = await leave(terminal);
    expect(asked(model.requests[0]).at(-1)).toContain("export const total = 41;");
    expect(transcript).not.toContain("export const total");
    expect(asked(model.requests[1]).at(-1)).toContain("image");
  });

  test("a prompt command with its arguments; an unknown command is not sent", async () => {
    await using machine = new Machine();
    const model = await machine.model([{ text: "reviewed" }]);
    machine.write(
      ".claude/commands/git/review.md",
      "---\ndescription: Review\n---\nReview $1 for $ARGUMENTS",
    );
    await using terminal = await chat(machine);
    terminal.type(`/revue${ENTER}`);
    await terminal.until(/unknown command \/revue/);
    expect(model.requests).toHaveLength(0);
    terminal.type("\x15/rev");
    await terminal.until(/\/git:review\s+Review \(project\)/);
    terminal.type(`\t"a b" c${ENTER}`);
    await terminal.until(/reviewed/);
    terminal.type(`/help${ENTER}`);
    await terminal.until(/ctrl-r[\s\S]*ctrl-d/);
    expect(await leave(terminal)).toMatch(/^commands\n[\s\S]*\n {2}\/git:review +Review \(project\)\n/m);
    expect(asked(model.requests[0]).at(-1)).toBe('Review a b for "a b" c');
  });
});

describe("a past conversation", () => {
  test("whose terminal was killed in the middle of an answer is shown from its question on", async () => {
    await using machine = new Machine();
    await machine.model([LONG_ANSWER]);
    {
      await using terminal = await chat(machine);
      terminal.type(`tell me all${ENTER}`);
      await terminal.until(/word9/);
      terminal.signal("SIGKILL");
      await terminal.done;
    }
    await using terminal = machine.terminal(["chat", "--continue"]);
    await terminal.until(/word30/);
    terminal.type(ESCAPE);
    await terminal.until(/! interrupted/);
    expect(await leave(terminal)).toMatch(/› tell me all\n\nword0 word1 [^!]*word30[^!]*\n\n! interrupted/);
  });

  test("is continued on the next day, after the daemon was killed", async () => {
    await using machine = new Machine();
    const model = await machine.model([{ text: "the first answer" }, { text: "the second answer" }]);
    {
      await using terminal = await chat(machine);
      terminal.type(`how are you${ENTER}`);
      await terminal.until((text) => text.includes("the first answer") && EMPTY_LINE.test(text));
      await leave(terminal);
    }
    await machine.killDaemon();
    await using terminal = machine.terminal(["chat", "--continue"]);
    // Its end is shown before the line, and nothing runs yet.
    await terminal.until((text) => /› how are you[\s\S]*the first answer[\s\S]*^❯/m.test(text));
    terminal.type(`still there?${ENTER}`);
    await terminal.until(/the second answer/);
    await leave(terminal);
    expect(asked(model.requests[1])).toContain("how are you");
    expect(asked(model.requests[1]).at(-1)).toContain("still there?");
    const { stdout } = await machine.run(["ps", "-a", "--json"]);
    expect(JSON.parse(stdout)).toHaveLength(1);
  });

  test("goes on when the daemon is killed while it waits", async () => {
    await using machine = new Machine();
    await machine.model([{ text: "the first answer" }, { text: "the second answer" }]);
    await using terminal = await chat(machine);
    terminal.type(`one${ENTER}`);
    await terminal.until((text) => text.includes("the first answer") && EMPTY_LINE.test(text));
    await machine.killDaemon();
    await terminal.until(/your next message continues the conversation/);
    terminal.type(`two${ENTER}`);
    await terminal.until(/the second answer/);
    await leave(terminal);
  });

  test("is chosen by /resume from the project's, and forked by /fork", async () => {
    await using machine = new Machine();
    const model = await machine.model(numbered());
    await using terminal = await chat(machine);
    terminal.type(`about apples${ENTER}`);
    await terminal.until(/answer/);
    terminal.type(`/new${ENTER}`);
    await terminal.until(/your next message begins a new conversation/);
    terminal.type(`about pears${ENTER}`);
    await terminal.until(/› about pears[\s\S]*answer/);
    terminal.type(`/resume${ENTER}`);
    await terminal.until(/resume another conversation|Continue which conversation/);
    terminal.type(`${ESCAPE}${ENTER}`);
    await terminal.until(/Continue which conversation/);
    terminal.type(`apples${ENTER}`);
    await terminal.until((text) => /› about apples\s+answer/.test(text) && EMPTY_LINE.test(text));
    terminal.type(`/fork${ENTER}`);
    await terminal.until((text) => text.includes("this is a copy") && text.includes("a fork of"));
    terminal.type(`and more${ENTER}`);
    await terminal.until((text) => /› and more[\s\S]*answer/.test(text) && EMPTY_LINE.test(text));
    await leave(terminal);
    expect(asked(model.requests.at(-1)).filter((text) => !text.includes("<"))).toEqual([
      "about apples",
      "and more",
    ]);
  });

  test("that is followed from another terminal shows both what either has sent", async () => {
    await using machine = new Machine();
    await machine.model(numbered());
    await using first = await chat(machine);
    first.type(`from the first${ENTER}`);
    await first.until((text) => text.includes("answer number 1") && EMPTY_LINE.test(text));
    await using second = machine.terminal(["chat", "--continue"]);
    await second.until((text) => text.includes("› from the first") && EMPTY_LINE.test(text));
    second.type(`from the second${ENTER}`);
    await first.until(/› from the second[\s\S]*answer number 2/);
    await second.until((text) => text.includes("answer number 2") && EMPTY_LINE.test(text));
    await leave(second);
    await leave(first);
  });
});

describe("what goes wrong", () => {
  test("the window is closed while it waits: the command ends", async () => {
    await using machine = new Machine();
    await machine.model(numbered());
    await using terminal = await chat(machine);
    terminal.type(`hello${ENTER}`);
    await terminal.until((text) => text.includes("answer number 1") && EMPTY_LINE.test(text));
    terminal.hangUp();
    expect((await terminal.done).code).toBe(129);
  });

  test("without a provider the message returns to the line", async () => {
    await using machine = new Machine();
    await using terminal = machine.terminal(["chat"]);
    await terminal.until(/Set one up now/);
    terminal.type(`no${ENTER}`);
    await terminal.until(/no provider can be used yet: rnix setup/);
    terminal.type(`hello${ENTER}`);
    await terminal.until(/Set one up now[\s\S]*Set one up now/);
    terminal.type(`no${ENTER}`);
    await terminal.until((text) => /^❯ hello/m.test(text) && text.includes("rnix setup"));
    terminal.type(`\x15`);
    await terminal.until(/^❯ a message/m);
    await leave(terminal);
  });

  test("an error of the model ends the turn, and the conversation can be continued", async () => {
    await using machine = new Machine();
    await machine.model([{ fault: { kind: "status", status: 401, message: "bad key" } }, { text: "better" }]);
    await using terminal = await chat(machine);
    terminal.type(`hello${ENTER}`);
    await terminal.until((text) => text.includes("bad key") && EMPTY_LINE.test(text));
    terminal.type(`again${ENTER}`);
    await terminal.until((text) => text.includes("better") && EMPTY_LINE.test(text));
    await leave(terminal);
  });

  test("a message that a failing model has not read can be sent again, and taken back", async () => {
    await using machine = new Machine();
    const fault = { kind: "status" as const, status: 401, message: "bad key" };
    const model = await machine.model([{ fault }, { fault }, { text: "better" }]);
    await using terminal = await chat(machine);
    terminal.type(`hello${ENTER}`);
    await terminal.until(/bad key[\s\S]*next step: hello[\s\S]*ctrl-s: send again/);
    terminal.type(CTRL_S);
    await terminal.until((text) => text.match(/bad key/g)?.length === 2 && text.includes("next step: hello"));
    terminal.type(ESCAPE);
    await terminal.until((text) => /^❯ hello/m.test(text) && !text.includes("next step"));
    terminal.type(` there${ENTER}`);
    await terminal.until((text) => text.includes("better") && EMPTY_LINE.test(text));
    await leave(terminal);
    expect(model.requests.map((request) => asked(request).at(-1))).toEqual(["hello", "hello", "hello there"]);
  });

  test("60 columns hold everything", async () => {
    await using machine = new Machine();
    await machine.model([{ tool_calls: [SLEEP] }, { text: "a word ".repeat(30) }]);
    await using terminal = await chat(machine, [], { columns: 60, rows: 24 });
    terminal.type(`${"long words of a message ".repeat(5)}${ENTER}`);
    await terminal.until(/begun/);
    terminal.type(`stop that${ENTER}`);
    await terminal.until(/next step: stop that/);
    terminal.type("/");
    await terminal.until(/\/model/);
    terminal.type(ESCAPE);
    await terminal.until((text) => !text.includes("/model"));
    terminal.type(`\x15${CTRL_S}`);
    await terminal.until((text) => text.includes("a word a word") && EMPTY_LINE.test(text));
    const transcript = await leave(terminal);
    expect(transcript.split("\n").every((line) => Bun.stringWidth(line) <= 60)).toBe(true);
  });

  test("without a terminal it says what to use instead, and rnix alone prints the help", async () => {
    await using machine = new Machine();
    const chat = await machine.run(["chat"]);
    expect(chat).toMatchObject({ code: 64 });
    expect(chat.stderr).toContain("rnix spawn");
    const alone = await machine.run([]);
    expect(alone.stderr).toContain("rnix chat");
    expect(alone.code).toBe(64);
  });
});
