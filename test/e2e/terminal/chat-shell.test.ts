import { describe, expect, test } from "bun:test";
import { isAlive } from "../../support/is-alive.ts";
import { until } from "../../support/until.ts";
import { Machine } from "../support/machine.ts";
import { ALT_UP, asked, chat, EMPTY_LINE, ENTER, ESCAPE, hasArrived, leave } from "./support.ts";

describe("!command", () => {
  test("runs as the user, and the next message takes its output to the model; !! keeps it back", async () => {
    await using machine = new Machine();
    const model = await machine.model([{ text: "one" }, { text: "two" }]);
    await using terminal = await chat(machine, ["--allow", "Read"]);
    // Nothing runs yet, and the agent itself may not use a shell.
    terminal.type(`!echo "in $(basename "$PWD")" > made.txt; cat made.txt; exit 3${ENTER}`);
    await terminal.until((text) => /✖ ! echo .* · exited 3 · /.test(text) && /│ in project/.test(text));
    expect(machine.read("made.txt")).toBe("in project\n");
    terminal.type(`!!echo only for me${ENTER}`);
    await terminal.until(/● !! echo only for me · exited 0 · .* · not for the model/);
    terminal.type(`why${ENTER}`);
    await terminal.until((text) => text.includes("one") && EMPTY_LINE.test(text));
    terminal.type(`and now${ENTER}`);
    await terminal.until((text) => text.includes("two") && EMPTY_LINE.test(text));
    const transcript = await leave(terminal);
    expect(transcript).toMatch(/› why\n\none/);
    expect(asked(model.requests[0]).at(-1)).toMatch(
      /^why\n\n<command line=".*exit 3" end="exited 3">\nin project\n<\/command>$/,
    );
    expect(asked(model.requests[1]).at(-1)).toBe("and now");
    expect(JSON.stringify(model.requests.map(({ body }) => body))).not.toContain("only for me");
  });

  test("Esc ends it with its programs, while the agent works on", async () => {
    await using machine = new Machine();
    const waits = { name: "Bash", input: { command: "echo begun; while [ ! -e go ]; do sleep 0.05; done" } };
    const model = await machine.model([{ tool_calls: [waits] }, { text: "finished" }, { text: "read" }]);
    await using terminal = await chat(machine);
    terminal.type(`work${ENTER}`);
    await terminal.until(/begun/);
    terminal.type(`!echo $$ > pid; echo started; sleep 60 & sleep 60${ENTER}`);
    await terminal.until(/│ started/);
    terminal.type(`!ls${ENTER}`);
    await terminal.until(/still runs: Esc ends it/);
    terminal.type(ESCAPE);
    await terminal.until(/! echo .* · stopped · /);
    const pid = Number(machine.read("pid"));
    await until(() => !isAlive(pid), "the end of the command");
    machine.write("go", "");
    await terminal.until((text) => text.includes("finished") && EMPTY_LINE.test(text));
    terminal.type(`look${ENTER}`);
    await terminal.until((text) => /^read/m.test(text) && EMPTY_LINE.test(text));
    await leave(terminal);
    expect(asked(model.requests.at(-1)).at(-1)).toMatch(/^look\n\n<command .* end="stopped">\nstarted\n/);
  });

  test("a long output is bounded, and returns with a message that the model has not read", async () => {
    await using machine = new Machine();
    const waits = { name: "Bash", input: { command: "echo begun; while [ ! -e go ]; do sleep 0.05; done" } };
    const model = await machine.model([{ tool_calls: [waits] }, { text: "finished" }]);
    await using terminal = await chat(machine, [], { rows: 50 });
    terminal.type(`work${ENTER}`);
    await terminal.until(/begun/);
    terminal.type(`!seq 1 300000${ENTER}`);
    await terminal.until(
      (text) => /● ! seq 1 300000 · exited 0/.test(text) && text.includes("the last 20 lines"),
    );
    terminal.type(`count${ENTER}`);
    await terminal.until(/next step: count/);
    terminal.type(ALT_UP);
    await terminal.until((text) => /^❯ count/m.test(text) && !text.includes("next step: count"));
    terminal.type(`them${ENTER}`);
    await terminal.until(/next step: (?:countthem|themcount)/);
    await hasArrived(machine, "them");
    machine.write("go", "");
    await terminal.until((text) => text.includes("finished") && EMPTY_LINE.test(text));
    await leave(terminal);
    const last = asked(model.requests.at(-1)).at(-1) ?? "";
    expect(last).toMatch(/characters before this were left out\]\n[\s\S]*\n300000\n<\/command>$/);
    expect(last.length).toBeLessThan(31_000);
  });
});
