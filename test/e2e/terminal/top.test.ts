import { describe, expect, test } from "bun:test";
import { TerminalSession } from "../../support/terminal.ts";
import { binary } from "../support/binary.ts";
import { Machine } from "../support/machine.ts";
import { takesKeys } from "../support/questions.ts";
import { bash, calls, says } from "../support/scenes.ts";
import { CTRL_C, DOWN, ENTER, ESCAPE } from "./support.ts";

const CTRL_Z = "\x1a";
const UNTIL_GO = "while [ ! -e go ]; do sleep 0.05; done";
const UNIT = { command: `echo begun; ${UNTIL_GO}`, description: "wait for go", run_in_background: true };

/** A done run, a failed one, one with a child at work, one with a unit at work, and one that asks. */
async function machineWithRuns(): Promise<Machine> {
  const machine = new Machine();
  await machine.play({
    short: [says("done")],
    bad: [{ fault: { kind: "status", status: 400, message: "no such model" } }],
    parent: [calls(["Agent", { agent: "default", intent: "child of it" }]), says("parent done")],
    child: [bash(UNTIL_GO), says("child done")],
    units: [calls(["Bash", UNIT]), bash(UNTIL_GO), says("units done")],
    asks: [bash("touch made"), says("asked and done")],
  });
  await machine.ok(["spawn", "short work"]);
  await machine.run(["spawn", "bad work"]);
  await machine.ok(["spawn", "--detach", "parent work"]);
  await machine.ok(["spawn", "--detach", "units work"]);
  await machine.ok(["spawn", "--detach", "asks work", "--ask", "Bash(touch *)", "--on-ask", "park"]);
  return machine;
}

/** The window with all runs as they stay. */
async function top(machine: Machine, o: Parameters<Machine["terminal"]>[1] = {}): Promise<TerminalSession> {
  const terminal = machine.terminal(["top"], { columns: 100, rows: 30, ...o });
  await terminal.until((text) => isSettled(text));
  return terminal;
}

function isSettled(text: string): boolean {
  return [/Waiting for you 1/, /Running 2/, /child of it\s+Bash while/, /Done 1/].every((one) =>
    one.test(text),
  );
}

/** Nothing of the window is left, and the terminal is as it was. */
function expectRestored({ screen }: TerminalSession): void {
  expect(screen.modes).toEqual({
    bracketedPaste: false,
    autowrap: true,
    mouse: false,
    alternateScreen: false,
  });
  expect(screen.cursor.visible).toBe(true);
  expect(screen.text).not.toContain("Running");
}

describe.concurrent("rnix top", () => {
  test("groups the runs, and its keys act on the chosen one", async () => {
    await using machine = await machineWithRuns();
    await using terminal = await top(machine);
    const { text } = terminal.screen;
    expect(text).toMatch(/asks work\s+asks: Bash touch made/);
    expect(text).toMatch(/└─ child of it/);
    expect(text).toMatch(/Failed 1\n.*bad work\s+llm_error/);
    expect(text).toMatch(/Done 1\n.*short work\s+completed/);

    // The one with the question is chosen. It is answered in the pane.
    terminal.type("a");
    await terminal.until(/esc leaves it open/);
    terminal.type(ESCAPE);
    await terminal.until((shown) => !shown.includes("esc leaves it open"));
    terminal.type("a");
    await takesKeys(terminal, /Enter chooses/);
    terminal.type(ENTER);
    await terminal.until(/answered; the run was resumed as process \d+/);
    await terminal.until(/Done 2\n/);
    expect(machine.has("made")).toBe(true);

    terminal.type("/units work");
    await terminal.until((shown) => !shown.includes("parent work"));
    terminal.type(`${ENTER}u`);
    await terminal.until(/local_bash running.*wait for go\n\s+begun/);
    terminal.type("x");
    await terminal.until(/end unit \w+\? y\/n/);
    terminal.type("nl");
    await terminal.until(/call\s+Bash echo begun/);
    terminal.type("p");
    await terminal.until(/PAUSE sent to 1 process/);
    await terminal.until(/Parked 1\n.*units work\s+paused/);
    terminal.type("c");
    await terminal.until(/Running 1\n.*units work/);
    terminal.type(`mtouch nothing${ENTER}`);
    await terminal.until(/process \d+ has the message/);
    await terminal.until(/message\s+(next_step|user)?.*touch nothing/);
    terminal.type("k");
    await terminal.until(/kill process \d+ and all below it\? y\/n/);
    terminal.type("n");
    await terminal.until(/^enter open|filter: units work/m);
    terminal.type("ky");
    await terminal.until(/Failed 1\n.*units work\s+terminated/);
    terminal.type(ESCAPE);
    await terminal.until((shown) => !shown.includes("log of process"));
    terminal.type(ESCAPE);
    await terminal.until(/Failed 2\n/);
    terminal.type("?");
    await terminal.until(/allow it a tool/);
    terminal.type("qq");
    expect((await terminal.done).code).toBe(0);
    expectRestored(terminal);
    machine.write("go", "");
  }, 40_000);

  test("opens a run and comes back; the window follows its size, and a daemon that starts again", async () => {
    await using machine = await machineWithRuns();
    await using terminal = await top(machine);
    terminal.type(DOWN);
    await terminal.until(/❯ \d+.*(parent|units) work/);
    terminal.type(`/units${ENTER}s`);
    await terminal.until(/Parked 1\n.*units work\s+on request/);
    // Its call was stopped: it ends before a look at the live processes.
    terminal.type("r");
    await terminal.until(/Done 1\n.*units work\s+completed/);
    terminal.type(ESCAPE);
    await terminal.until(/parent work/);
    terminal.type(`/parent${ENTER}${ENTER}`);
    await terminal.until((text) => text.includes("ctrl-c detaches"));
    expect(terminal.screen.modes.alternateScreen).toBe(false);
    terminal.type(CTRL_C);
    await terminal.until(/❯ \d+.*parent work/);
    expect(terminal.screen.modes.alternateScreen).toBe(true);
    terminal.type(ENTER);
    await terminal.until((text) => text.includes("ctrl-c detaches"));
    machine.write("go", "");
    await terminal.until(/any key: back to rnix top/);
    expect(terminal.screen.text).toContain("parent done");
    terminal.type(" ");
    await terminal.until(/Done 1\n.*parent work/);

    for (const [columns, rows] of [
      [40, 8],
      [20, 3],
      [200, 50],
      [80, 24],
    ] as const) {
      terminal.resize(columns, rows);
      const isWhole = (text: string): boolean => {
        const lines = text.split("\n");
        return lines.length <= rows && lines.filter((line) => /^❯/.test(line)).length === 1;
      };
      await terminal.until((text) => isWhole(text) && (columns < 80 || /parent work\s+completed/.test(text)));
    }
    await machine.ok(["daemon", "restart"]);
    await terminal.until(/Done 1\n.*parent work/);
    await machine.ok(["daemon", "stop"]);
    await terminal.until(/the daemon is gone/);
    terminal.type("q");
    expect((await terminal.done).code).toBe(0);
    expectRestored(terminal);
  }, 40_000);

  test("gives the terminal back on TERM and Ctrl-Z; without colour it writes none", async () => {
    await using machine = await machineWithRuns();
    await using terminal = await top(machine, { env: { NO_COLOR: "1" } });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: styles begin with one.
    expect(terminal.written).not.toMatch(/\x1b\[[0-9;]*m/);
    terminal.signal("SIGTERM");
    expect((await terminal.done).code).toBe(143);
    expectRestored(terminal);

    const env = { ...machine.env, PS1: "$ ", HISTFILE: "" };
    const argv = ["bash", "--norc", "--noediting", "-i"];
    await using under = new TerminalSession({ argv, cwd: machine.project, env }, { columns: 100, rows: 30 });
    under.type(`${binary()} top\r`);
    await under.until(isSettled);
    under.type(CTRL_Z);
    await under.until(/Stopped/);
    expectRestored(under);
    under.type("fg\r");
    await under.until(isSettled);
    under.type("q");
    await under.until((text) => !text.includes("Running"));
    expectRestored(under);
    machine.write("go", "");
  }, 40_000);

  test("shows all of a long call before it is allowed, and why a key did nothing", async () => {
    await using machine = new Machine();
    const lines = Array.from({ length: 40 }, (_, i) => `echo line ${i}`);
    await machine.play({ long: [bash([...lines, "touch made"].join("\n")), says("done")] });
    await machine.ok(["spawn", "--detach", "long work", "--ask", "Bash", "--on-ask", "park"]);
    await using terminal = machine.terminal(["top"], { columns: 80, rows: 24 });
    const ask = async (): Promise<void> => {
      await terminal.until(/Waiting for you 1/);
      terminal.type("a");
      await takesKeys(terminal, /more lines[\s\S]*Enter chooses/);
      terminal.type(ENTER);
      await terminal.until(/^Bash echo line 0\necho line 1$/m);
    };
    await ask();
    expect(machine.has("made")).toBe(false);
    for (let i = 0; i < 10; i++) terminal.type("\x1b[6~");
    await terminal.until(/^touch made$[\s\S]*Enter answers/m);
    terminal.type(ENTER);
    await terminal.until(/Done 1\n/);
    expect(machine.has("made")).toBe(true);
    terminal.type("a");
    await terminal.until(/it asks nothing/);
    terminal.type("r");
    await terminal.until(/has nothing left to answer|Add a message/);
    terminal.type("q");
    expect((await terminal.done).code).toBe(0);
  }, 40_000);

  test("prints a table once where it can't draw", async () => {
    await using machine = await machineWithRuns();
    const dumb = machine.terminal(["top"], { columns: 100, rows: 30, env: { TERM: "dumb" } });
    expect((await dumb.done).code).toBe(0);
    expect(dumb.written).toMatch(/^GROUP\s+PID/);
    const { stdout } = await machine.ok(["top", "--sort", "steps"]);
    expect(stdout).toMatch(/^waits +6 .*asks: Bash touch made/m);
    expect(stdout).toMatch(/^running +`- \d .*child of it/m);
    expect((await machine.ok(["top", "--filter", "bad"])).stdout.split("\n")).toHaveLength(3);
    const rows: { group: string }[] = await machine.json(["top", "--json"]);
    expect(rows.map(({ group }) => group)).toEqual([
      "waits",
      "running",
      "running",
      "running",
      "failed",
      "done",
    ]);
    machine.write("go", "");
  }, 40_000);
});
