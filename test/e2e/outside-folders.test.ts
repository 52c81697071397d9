import { describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TerminalSession } from "../support/terminal.ts";
import { Machine } from "./support/machine.ts";
import { plainTerminal, questions, takesKeys } from "./support/questions.ts";
import { toolResults } from "./support/requests.ts";
import { calls, says } from "./support/scenes.ts";
import { chat, EMPTY_LINE, ENTER, leave } from "./terminal/support.ts";

async function answer(terminal: TerminalSession, line: string): Promise<void> {
  await takesKeys(terminal);
  terminal.type(`${line}\r`);
}

/** A folder beside the project, with one file. */
class Beside {
  readonly dir = realpathSync(mkdtempSync(join(tmpdir(), "rnix-beside-")));

  constructor() {
    writeFileSync(join(this.dir, "known.txt"), "it is known\n");
  }

  [Symbol.dispose](): void {
    rmSync(this.dir, { recursive: true });
  }
}

const write = (path: string) => calls(["Write", { path, content: "new\n" }]);
const read = (path: string) => calls(["Read", { path }]);

describe.concurrent("a file outside the run's folders", () => {
  test("is written after a yes, which opens its folder to the run", async () => {
    await using machine = new Machine();
    using beside = new Beside();
    const { dir } = beside;
    const model = await machine.play({
      go: [write(join(dir, "a.txt")), read(join(dir, "known.txt")), write(join(dir, "b.txt")), says("done")],
    });
    await using terminal = plainTerminal(machine, ["spawn", "go", "--ask-mode", "outside"]);
    const shown = await terminal.until(/answer \(/);
    expect(shown).toContain(`1 Yes  opens ${dir} to this run`);
    expect(shown).not.toContain("until this run ends");
    await answer(terminal, "y");
    expect((await terminal.done).code).toBe(0);
    expect(readFileSync(join(dir, "a.txt"), "utf8")).toBe("new\n");
    expect(readFileSync(join(dir, "b.txt"), "utf8")).toBe("new\n");
    expect(model.requests.flatMap(toolResults).join()).toContain("it is known");
  });

  test("a yes to reading lets the run read there, and writing is asked for", async () => {
    await using machine = new Machine();
    using beside = new Beside();
    const { dir } = beside;
    await machine.play({ go: [read(join(dir, "known.txt")), write(join(dir, "a.txt")), says("done")] });
    await using terminal = plainTerminal(machine, ["spawn", "go", "--ask-mode", "outside"]);
    expect(await terminal.until(/answer \(/)).toContain(`opens ${dir} to this run for reading`);
    await answer(terminal, "y");
    // Not the question before it, which ends otherwise.
    await terminal.until(new RegExp(`Yes  opens ${dir} to this run(?! for reading)`));
    await answer(terminal, "n");
    expect((await terminal.done).code).toBe(0);
    expect(existsSync(join(dir, "a.txt"))).toBe(false);
  });

  test("always in this project opens it to the next runs, which trust --show lists", async () => {
    await using machine = new Machine();
    using beside = new Beside();
    const { dir } = beside;
    await machine.play({
      one: [write(join(dir, "a.txt")), says("done")],
      two: [write(join(dir, "b.txt")), read(join(dir, "b.txt")), says("done")],
    });
    await using terminal = plainTerminal(machine, ["spawn", "one", "--ask-mode", "outside"]);
    await answer(terminal, "p");
    expect((await terminal.done).code).toBe(0);
    const next = await machine.run(["spawn", "two", "--ask-mode", "outside", "--on-ask", "deny"]);
    expect([next.code, existsSync(join(dir, "b.txt"))]).toEqual([0, true]);
    expect((await machine.run(["trust", "--show"])).stdout).toContain(`Write(${dir}/**)`);
    await machine.ok(["trust", "--revoke"]);
  });

  test("is open after rnix allow --add and /add, and no question is left", async () => {
    await using machine = new Machine();
    using beside = new Beside();
    const { dir } = beside;
    const model = await machine.model([
      { text: "hello" },
      { tool_calls: [{ name: "Write", input: { path: join(dir, "a.txt"), content: "new\n" } }] },
      { text: "written" },
    ]);
    await using terminal = await chat(machine, [], { columns: 120 });
    terminal.type(`hi${ENTER}`);
    await terminal.until((text) => /^hello$/m.test(text) && EMPTY_LINE.test(text));
    terminal.type(`/add ${dir}${ENTER}`);
    await terminal.until(new RegExp(`the agent may use ${dir}`));
    terminal.type(`write${ENTER}`);
    await terminal.until((text) => /^written$/m.test(text) && EMPTY_LINE.test(text));
    expect(existsSync(join(dir, "a.txt"))).toBe(true);
    expect(JSON.stringify(model.requests.at(-1))).toContain(`The user has opened ${dir} to this run.`);
    expect((await machine.run(["allow", "1", "--add", join(dir, "a.txt")])).stderr).toContain(
      "expected a folder",
    );
    expect((await machine.run(["allow", "1"])).stderr).toContain("TOOL is missing");
    expect((await machine.run(["allow", "1", "--add", "/tmp"])).code).toBe(0);
    await leave(terminal);
  });

  test("is refused without a question where a yes could not allow it", async () => {
    await using machine = new Machine();
    const config = join(machine.configDir, "config.yaml");
    const model = await machine.play({
      go: [write(config), read(config), write("/tmp"), says("done")],
    });
    await using terminal = plainTerminal(machine, ["spawn", "go", "--ask-mode", "outside"]);
    expect((await terminal.done).code).toBe(0);
    expect(terminal.screen.transcript).not.toContain("needs your answer");
    const heard = model.requests.flatMap(toolResults).join();
    expect(heard).toContain("settings and keys of Rnix");
    expect(heard).toContain("/tmp is a folder, not a file");
    expect(await questions(machine)).toEqual([]);
  });
});
