import { describe, expect, test } from "bun:test";
import { Machine } from "../support/machine.ts";
import { asked, CTRL_R, chat, DOWN, EMPTY_LINE, ENTER, ESCAPE, hasArrived, leave, READY } from "./support.ts";

/** A command that runs until the file is there. */
function until(file: string): { name: string; input: { command: string } } {
  return {
    name: "Bash",
    input: { command: `echo begun ${file}; while [ ! -e ${file} ]; do sleep 0.05; done` },
  };
}

describe("a run that is followed", () => {
  test("by rnix spawn takes what is typed for its next step", async () => {
    await using machine = new Machine();
    const model = await machine.model([
      { tool_calls: [until("go")] },
      { text: "all done" },
      { tool_calls: [until("never")] },
    ]);
    await using terminal = machine.terminal(["spawn", "work"]);
    await terminal.until(/begun go/);
    expect(terminal.screen.text).not.toMatch(READY);
    terminal.type("be quick");
    await terminal.until(/^❯ be quick/m);
    terminal.type(ENTER);
    await terminal.until(/next step: be quick/);
    await hasArrived(machine, "be quick");
    machine.write("go", "");
    expect((await terminal.done).code).toBe(0);
    expect(asked(model.requests[1]).at(-1)).toBe("be quick");
    expect(terminal.screen.transcript.match(/› be quick/g)).toHaveLength(1);
    expect(terminal.screen.transcript).toContain("all done");
    // Ctrl-R as the first key searches what was typed before.
    await using again = machine.terminal(["spawn", "work"]);
    await again.until(/running Bash|all done/);
    again.type(`${CTRL_R}quick`);
    await again.until(/^❯ quick\n❯ be quick$/m);
  });

  test("by rnix attach can be interrupted and given other words", async () => {
    await using machine = new Machine();
    const model = await machine.model([{ tool_calls: [until("never")] }, { text: "otherwise" }]);
    const { stdout } = await machine.run(["spawn", "work", "--detach"]);
    const [pid = ""] = stdout.split(" ");
    await using terminal = machine.terminal(["attach", pid]);
    await terminal.until(/begun never/);
    terminal.type("x");
    await terminal.until(/^❯ x/m);
    terminal.type("\x7f");
    await terminal.until(EMPTY_LINE);
    terminal.type(ESCAPE);
    await terminal.until(/stopped/);
    terminal.type(`do it otherwise${ENTER}`);
    expect((await terminal.done).code).toBe(0);
    expect(asked(model.requests[1]).at(-1)).toBe("do it otherwise");
    expect(terminal.screen.transcript).toContain("otherwise");
  });
});

describe("beside a conversation", () => {
  test("/btw is answered while the agent works, by an agent without tools, and is no part of it", async () => {
    await using machine = new Machine();
    const model = await machine.model((request) => {
      const text = JSON.stringify(request);
      if (text.includes("what did I ask")) return { text: "You asked about apples." };
      if (text.includes("now work") && !text.includes("begun go")) return { tool_calls: [until("go")] };
      return { text: text.includes("now work") ? "worked" : "Apples are fruit." };
    });
    await using terminal = await chat(machine);
    terminal.type(`tell me about apples${ENTER}`);
    await terminal.until((text) => text.includes("Apples are fruit.") && EMPTY_LINE.test(text));
    terminal.type(`now work${ENTER}`);
    await terminal.until(/begun go/);
    terminal.type(`/btw what did I ask?${ENTER}`);
    await terminal.until(/│ {3}You asked about apples\./);
    machine.write("go", "");
    await terminal.until((text) => text.includes("worked") && EMPTY_LINE.test(text));
    await leave(terminal);
    const aside = model.requests.find((request) => asked(request).at(-1)?.includes("what did I ask"));
    expect(JSON.stringify(aside?.body)).not.toContain('"tools":[{');
    expect(asked(aside).at(-1)).toContain("Apples are fruit.");
    expect(JSON.stringify(model.requests.at(-1)?.body)).not.toContain("what did I ask");
  });

  test("a sub-agent can be watched, told something and left", async () => {
    await using machine = new Machine();
    const model = await machine.model((request) => {
      const { messages } = request.body as { messages: { role: string; content: string }[] };
      const said = JSON.stringify(messages);
      const isChild = messages.some(
        ({ role, content }) => role === "user" && content?.includes?.("count the files"),
      );
      if (isChild)
        return said.includes("begun go") ? { text: "there are two" } : { tool_calls: [until("go")] };
      if (said.includes("there are two")) return { text: "the agent says two" };
      return { tool_calls: [{ name: "Agent", input: { agent: "default", intent: "count the files" } }] };
    });
    await using terminal = await chat(machine);
    terminal.type(`let an agent count${ENTER}`);
    await terminal.until(/begun go|down: choose a sub-agent/);
    await terminal.until(/down: choose a sub-agent/);
    terminal.type(DOWN);
    await terminal.until(/enter: watch and talk/);
    terminal.type(ENTER);
    await terminal.until((text) => text.includes("begun go") && text.includes("you watch a sub-agent"));
    terminal.type(`the hidden ones too${ENTER}`);
    await terminal.until(/next step: the hidden ones too/);
    await hasArrived(machine, "the hidden ones too", 2);
    terminal.type(ESCAPE);
    await terminal.until(/back to the conversation/);
    machine.write("go", "");
    await terminal.until((text) => text.includes("the agent says two") && EMPTY_LINE.test(text));
    await leave(terminal);
    expect(model.requests.some((request) => asked(request).at(-1) === "the hidden ones too")).toBe(true);
  });
});
