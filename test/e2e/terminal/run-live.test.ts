import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import type { Turn } from "../../support/model-server/script.ts";
import { TerminalSession } from "../../support/terminal.ts";
import { until } from "../../support/until.ts";
import { binary } from "../support/binary.ts";
import { Machine } from "../support/machine.ts";
import { calls, says, scenes } from "../support/scenes.ts";

setDefaultTimeout(120_000);

const SPINNER = /[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]/u;

/** A turn that waits until the test lets it go on. */
function held(turn: Turn) {
  const gate = Promise.withResolvers<void>();
  return {
    release: gate.resolve,
    scene: async (): Promise<Turn> => {
      await gate.promise;
      return turn;
    },
  };
}

/** Without styles: a sequence that is left moves the cursor or sets a mode. */
function unstyled(written: string): string {
  return written.replace(/\p{Cc}\[[0-9;]*m/gu, "");
}

/** Puts `rnix` on the PATH, as a user has it. */
function onPath(machine: Machine): { env: Record<string, string> } {
  const bin = join(machine.project, "bin");
  mkdirSync(bin);
  symlinkSync(binary(), join(bin, "rnix"));
  return { env: { PATH: `${bin}:${machine.env.PATH}` } };
}

/** Nothing of the live region is left in what stays on the terminal. */
function expectOnlyTranscript(terminal: TerminalSession): void {
  const { transcript, modes, cursor } = terminal.screen;
  expect(transcript).not.toMatch(SPINNER);
  expect(transcript).not.toContain("ctrl-c suspends");
  expect(modes).toEqual({ bracketedPaste: false, autowrap: true, mouse: false, alternateScreen: false });
  expect(cursor.visible).toBe(true);
}

describe("a run of ten calls with two sub-agents", () => {
  const DIFF = { path: "sum.sh", old_string: "total - price", new_string: "total + price" };
  const write = (machine: Machine): void => {
    machine.write("sum.sh", "total=0\ntotal=$((total - price))\necho $total\n");
    machine.write("notes.txt", "one\ntwo\n");
  };

  test.each([
    [80, 24],
    [60, 20],
    [120, 40],
  ])("on %d columns and %d rows: every call once, with its result, in order", async (columns, rows) => {
    await using machine = new Machine();
    write(machine);
    const last = held(says("## Done\n\nAll *ten* calls are made."));
    await machine.model(
      scenes({
        "do all": [
          { reasoning: "I look around first.\nThen I act.", ...calls(["Bash", { command: "seq 1 20" }]) },
          calls(["Read", { path: "sum.sh" }], ["Read", { path: "notes.txt" }]),
          calls(["Glob", { pattern: "*.txt" }]),
          calls(
            ["Edit", DIFF],
            ["Write", { path: "new.txt", content: "a\nb\n" }],
            ["Bash", { command: "exit 3" }],
          ),
          calls(["Edit", { file: "x" }]),
          calls(["Agent", { intent: "CHILD one" }], ["Agent", { intent: "CHILD two" }]),
          last.scene,
        ],
        "CHILD one": [calls(["Bash", { command: "echo 1; test -e go || sleep 0.1" }]), says("one is done")],
        "CHILD two": [calls(["Bash", { command: "echo 2" }]), says("two is done")],
      }),
    );
    await using terminal = machine.terminal(["spawn", "do all"], { columns, rows, ...onPath(machine) });
    await terminal.until(/two is done/);
    expect(terminal.screen.titles.at(-1)).toBe("rnix: working - do all");
    last.release();
    expect(await terminal.done).toEqual({ code: 0 });

    const { transcript } = terminal.screen;
    const order = [
      /∴ thought for \d+m?s/,
      /● Bash seq 1 20 · \d+m?s\n {2}│ … 15 lines above\n {2}│ 16\n {2}│ 17\n {2}│ 18\n {2}│ 19\n {2}│ 20/,
      /● Read 2 files · sum\.sh, notes\.txt · \d+m?s/,
      /● Glob \*\.txt · 1 file · \d+m?s/,
      /● Edit sum\.sh · \+1 -1 · \d+m?s\n {5}1 {3}total=0\n {5}2 - total=\$\(\(total - price\)\)\n {5}2 \+ total=\$\(\(total \+ price\)\)/,
      /● Write new\.txt · new file · 2 lines · \d+m?s\n {5}1 \+ a\n {5}2 \+ b/,
      /✖ Bash exit 3 · exited 3 · \d+m?s/,
      /✖ Edit file=x · failed/,
      /● Agent CHILD (one|two) · 2 steps · \d+ tokens · [\d.]+m?s\n {2}│ (one|two) is done/,
      /Done\n\nAll ten calls are made\.|## Done\n\nAll \*ten\* calls are made\./,
      /✔ completed · 7 steps/,
      /to continue it:\s+rnix resume [0-9a-f-]{36} "…"/,
    ];
    const places = order.map((pattern) => transcript.search(pattern));
    expect(places.map((place, i) => (place < 0 ? String(order[i]) : ""))).toEqual(order.map(() => ""));
    expect(places).toEqual([...places].sort((a, b) => a - b));
    for (const text of ["● Bash seq", "one is done", "two is done", "● Edit sum.sh", "exited 3", "completed"])
      expect(transcript.split(text)).toHaveLength(2);
    expectOnlyTranscript(terminal);
  });
});

describe("what happens now", () => {
  test("something is shown at once, then the model, the command's last lines, the sub-agents, each where it belongs", async () => {
    await using machine = new Machine();
    const first = held({ ...calls(["Bash", { command: "seq 1 9; until test -e go; do sleep 0.02; done" }]) });
    const child = held(says("counted"));
    await machine.model(
      scenes({
        "look at it": [first.scene, calls(["Agent", { intent: "COUNT the files" }]), says("seen")],
        COUNT: [child.scene],
      }),
    );
    await using terminal = machine.terminal(["spawn", "look at it"], { columns: 80, rows: 24 });
    await terminal.until(SPINNER);
    await terminal.until(/waiting for m/);
    first.release();
    const running = await terminal.until(/│ 9\n/);
    expect(running).toMatch(
      /Bash seq 1 9; until .*\n {2}│ … 4 lines above\n {2}│ 5\n {2}│ 6\n {2}│ 7\n {2}│ 8\n {2}│ 9\n\n. running Bash/,
    );
    expect(running).toMatch(/\n {2}default · m · step 1 · \d+ tokens · .* in context|of \d+k/);
    machine.write("go", "");
    await terminal.until(/. default COUNT the files · (starting|waiting for m|thinking)/);
    child.release();
    expect((await terminal.done).code).toBe(0);
    expectOnlyTranscript(terminal);
  });

  test("calls side by side: the finished one is above with its result, the running ones are below", async () => {
    await using machine = new Machine();
    await machine.model(
      scenes({
        "three things": [calls(["Agent", { intent: "SLOW" }], ["Agent", { intent: "FAST" }]), says("both")],
        SLOW: [calls(["Bash", { command: "until test -e go; do sleep 0.02; done" }]), says("slow is done")],
        FAST: [says("fast is done")],
      }),
    );
    await using terminal = machine.terminal(["spawn", "three things"], { columns: 80, rows: 24 });
    const text = await terminal.until(
      (shown) => shown.includes("fast is done") && /SLOW · Bash until/.test(shown),
    );
    expect(text.indexOf("● Agent FAST")).toBeLessThan(text.indexOf("SLOW · Bash"));
    machine.write("go", "");
    expect((await terminal.done).code).toBe(0);
    expect(terminal.screen.transcript).toMatch(
      /● Agent FAST .*\n {2}│ fast is done\n\n● Agent SLOW .*\n {2}│ slow is done/,
    );
  });

  test("failed attempts: a countdown in one place, with the reason in words, and one line when the model answers", async () => {
    await using machine = new Machine();
    machine.config({ model_retries: 5 });
    const broken: Turn = { fault: { kind: "status", status: 529, message: "the engine is overloaded" } };
    await machine.model(scenes({ "try it": [broken, broken, says("at last")] }));
    await using terminal = machine.terminal(["spawn", "try it"], { columns: 80, rows: 24 });
    const waiting = await terminal.until(/attempt 2 failed/);
    expect(waiting.split("overloaded")).toHaveLength(2);
    expect(waiting).toMatch(/attempt 2 failed · (next in \d+s|asking again)/);
    expect((await terminal.done).code).toBe(0);
    const { transcript } = terminal.screen;
    expect(transcript).toMatch(/2 attempts failed before the model answered: [^{}]*overloaded/);
    expect(transcript.split("overloaded")).toHaveLength(2);
    expectOnlyTranscript(terminal);
  });

  test("an answer that breaks off and is asked for again is there once", async () => {
    await using machine = new Machine();
    machine.config({ model_retries: 1 });
    const broken: Turn = { text: "It began so, and then", chunks: 6, fault: { kind: "cut" } };
    await machine.model(scenes({ talk: [broken, says("It is done.")] }));
    await using terminal = machine.terminal(["spawn", "talk"]);
    expect((await terminal.done).code).toBe(0);
    expect(terminal.screen.transcript.split("It is done.")).toHaveLength(2);
  });

  test("a narrower window in the middle of it leaves nothing behind and loses nothing", async () => {
    await using machine = new Machine();
    const last = held(says("That is all."));
    await machine.model(
      scenes({
        "be resized": [
          calls(["Bash", { command: "seq 1 50; until test -e go; do sleep 0.02; done" }]),
          last.scene,
        ],
      }),
    );
    await using terminal = machine.terminal(["spawn", "be resized"], { columns: 100, rows: 30 });
    await terminal.until(/│ 50\n/);
    for (const [columns, rows] of [
      [60, 20],
      [40, 12],
      [90, 24],
    ] as const) {
      terminal.resize(columns, rows);
      // Drawn again: the keys stand at the right edge.
      await terminal.until((text) =>
        text.split("\n").some((line) => line.includes("ctrl-c") && line.length === columns),
      );
    }
    machine.write("go", "");
    await terminal.until(/waiting for m/);
    last.release();
    expect((await terminal.done).code).toBe(0);
    expect(terminal.screen.transcript.match(/Bash seq 1 50/g)).toHaveLength(1);
    expect(terminal.screen.transcript).toContain("That is all.");
    expectOnlyTranscript(terminal);
  });

  test("ASCII only with RNIX_ASCII", async () => {
    await using machine = new Machine();
    await machine.model(
      scenes({ "be plain": [calls(["Bash", { command: "seq 1 9" }]), says("All is well.")] }),
    );
    await using terminal = machine.terminal(["spawn", "be plain"], { env: { RNIX_ASCII: "1" } });
    expect((await terminal.done).code).toBe(0);
    expect(terminal.screen.transcript).toMatch(/^[\x20-\x7e\n]*$/);
    expect(terminal.screen.transcript).toMatch(/\* Bash seq 1 9 - \d+ms\n {2}\| \.\.\. 4 lines above/);
  });

  test("texts of a model and of programs can't act on the terminal", async () => {
    const evil = "\u001b]0;PWN\u0007\u001b[2J\u009b2J\u001b]52;c;UFdO\u0007\u001b[?1049h\rX\u202e";
    await using machine = new Machine();
    await machine.model(
      scenes({
        be: [
          { reasoning: `hm ${evil}`, ...calls(["Bash", { command: `printf '%s\\n' '${evil}a'; exit 1` }]) },
          calls(["Write", { path: "evil.txt", content: `${evil}\n` }], [`mcp__${evil}`, { [evil]: evil }]),
          says(`done ${evil} so`),
        ],
      }),
    );
    await using terminal = machine.terminal(["spawn", `be ${evil}`]);
    await terminal.done;
    const { screen } = terminal;
    expect(screen.titles.filter((title) => title.includes("PWN") && !title.startsWith("rnix: "))).toEqual([]);
    expect(screen.clipboardWrites).toBe(0);
    expect(screen.transcript).not.toMatch(/[\u202a-\u202e]/u);
    expect(screen.transcript).toContain("exited 1");
    expectOnlyTranscript(terminal);
  });
});

describe("the keys", () => {
  const slow = {
    "work on": [
      calls(["Bash", { command: "seq 1 30; until test -e go; do sleep 0.02; done" }]),
      says("ready"),
    ],
  };

  test("Ctrl-D leaves the run, which continues, and names the command that attaches to it", async () => {
    await using machine = new Machine();
    await machine.model(scenes(slow));
    await using terminal = machine.terminal(["spawn", "work on"]);
    await terminal.until(/running Bash/);
    terminal.type("\x04");
    expect((await terminal.done).code).toBe(0);
    expect(terminal.screen.transcript).toMatch(/process 1 continues in the daemon: \S*rnix attach 1/);
    expectOnlyTranscript(terminal);
    await using attached = machine.terminal(["attach", "1"]);
    // The call that runs, with the end of its output so far.
    await attached.until(/Bash seq 1 30.*\n {2}│ … \d+ lines above\n(.*\n)* {2}│ 30\n/);
    machine.write("go", "");
    expect((await attached.done).code).toBe(0);
    expect(attached.screen.transcript).toContain("ready");
    expectOnlyTranscript(attached);
  });

  test("Ctrl-O prints the last block in full", async () => {
    await using machine = new Machine();
    const last = held(says("ready"));
    await machine.model(scenes({ "work on": [calls(["Bash", { command: "seq 1 30" }]), last.scene] }));
    await using terminal = machine.terminal(["spawn", "work on"], { rows: 50 });
    await terminal.until(/25 lines above[\s\S]*ctrl-o: more/);
    terminal.type("\x0f");
    await terminal.until(/│ 1\n {2}│ 2\n[\s\S]*│ 29\n {2}│ 30\n[\s\S]*ctrl-o: short/);
    last.release();
    expect((await terminal.done).code).toBe(0);
  });

  test("Ctrl-C suspends, and the command that resumes it has the flags that were given", async () => {
    await using machine = new Machine();
    await machine.model(scenes(slow));
    await using terminal = machine.terminal(["spawn", "work on", "--no-daemon", "--trust"], { columns: 120 });
    await terminal.until(/running Bash/);
    terminal.type("\x03");
    expect((await terminal.done).code).toBe(75);
    expect(terminal.screen.transcript).toMatch(/rnix resume [0-9a-f-]{36} --trust --no-daemon$/);
    expect(terminal.screen.transcript).toMatch(/✖ Bash seq 1 30; until .* · stopped · /);
    expectOnlyTranscript(terminal);
  });

  test("what is typed while it works is never read by the shell afterwards", async () => {
    await using machine = new Machine();
    await machine.model(scenes(slow));
    await using shell = new TerminalSession(
      {
        argv: ["bash", "--norc", "-i"],
        cwd: machine.project,
        env: { ...machine.env, PS1: "$ ", HISTFILE: "", PATH: `${machine.env.PATH}` },
      },
      { columns: 100, rows: 40 },
    );
    shell.type(`${binary()} spawn "work on"\r`);
    // The daemon is still starting.
    await shell.until(/starting/);
    shell.type("touch typed-early\r");
    await shell.until(/running Bash/);
    shell.type("touch typed\rtouch typed-too");
    machine.write("go", "");
    await shell.until(/✔ completed[\s\S]*\$$/);
    shell.type("touch after\r");
    await until(() => machine.has("after"), "the shell reads what is typed after the run");
    expect(machine.has("typed-early")).toBe(false);
    expect(machine.has("typed")).toBe(false);
    expect(machine.has("typed-too")).toBe(false);
    shell.type("exit\r");
    await shell.done;
  });

  test("with a pipe on stdin it is live without keys", async () => {
    await using machine = new Machine();
    await machine.model(scenes({ "read it": [calls(["Bash", { command: "echo hi" }]), says("read")] }));
    await using terminal = new TerminalSession({
      argv: ["sh", "-c", `echo input | ${binary()} spawn "read it"`],
      cwd: machine.project,
      env: machine.env,
    });
    expect((await terminal.done).code).toBe(0);
    expect(terminal.screen.transcript).toMatch(/● Bash echo hi · \d+ms\n {2}│ hi/);
    expectOnlyTranscript(terminal);
  });
});

describe("plain lines", () => {
  const book = { "say it": [calls(["Bash", { command: "seq 1 3" }]), says("It is said.")] };

  test.each([
    ["NO_COLOR", { NO_COLOR: "1" }],
    ["TERM=dumb", { TERM: "dumb" }],
    ["CI", { CI: "true" }],
  ])("with %s nothing is redrawn", async (_, env) => {
    await using machine = new Machine();
    await machine.model(scenes(book));
    await using terminal = machine.terminal(["spawn", "say it"], { env });
    expect((await terminal.done).code).toBe(0);
    // Styles at most: no cursor movement, no title.
    expect(unstyled(terminal.written)).not.toContain("\x1b");
    expect(terminal.screen.transcript).toMatch(/step 1\/100\n.*Bash seq 1 3\n {4}1\n {4}2\n {4}3\n.*step 2/);
    expect(terminal.screen.transcript.match(/It is said\./g)).toHaveLength(1);
  });

  test.each([
    ["stdout", `${binary()} spawn "say it" | cat`],
    ["stderr", `${binary()} spawn "say it" 2>log; cat log`],
  ])("where %s is no terminal", async (_, line) => {
    await using machine = new Machine();
    await machine.model(scenes(book));
    await using terminal = new TerminalSession({
      argv: ["sh", "-c", line],
      cwd: machine.project,
      env: machine.env,
    });
    await terminal.done;
    expect(unstyled(terminal.written)).not.toContain("\x1b");
    expect(terminal.screen.transcript).toContain("It is said.");
  });
});

describe("rnix demo", () => {
  test("plays at reading pace, any key hurries it, and its end fits one screen of 80 by 24", async () => {
    await using machine = new Machine();
    await using terminal = machine.terminal(["demo"], { columns: 80, rows: 24, ...onPath(machine) });
    await terminal.until(/any key: faster/);
    await terminal.until(/I will look/);
    const began = performance.now();
    terminal.type(" ");
    expect((await terminal.done).code).toBe(0);
    expect(performance.now() - began).toBeLessThan(5000);
    expect(terminal.screen.text).toMatch(
      /✔ fixed: the project's own test fails without this change and passes with it\n\nNow you:\n {2}rnix setup .*\n {2}rnix spawn "explain this project" .*\n {2}rnix log 1 .*$/,
    );
    expect(terminal.screen.text).toMatch(/^Fixed\. total\.sh dropped/m);
    expectOnlyTranscript(terminal);
  });

  test("ends at once with Ctrl-C, and leaves nothing", async () => {
    await using machine = new Machine();
    await using terminal = machine.terminal(["demo"], { columns: 60, rows: 20 });
    await terminal.until(/I will look/);
    terminal.type("\x03");
    expect((await terminal.done).code).toBe(0);
    expect(terminal.screen.text).toContain("Now you:");
    expectOnlyTranscript(terminal);
  });
});

describe("rnix replay", () => {
  const PLAY = `intent: play it
responses:
  - tool_calls: [{ name: Bash, input: { command: "touch begun; seq 1 3; until test -e go; do sleep 0.05; done" } }]
  - text: "## Played\\n\\nIt is *done*."
`;

  test("of a script is live at a terminal, with the running call and then its block", async () => {
    await using machine = new Machine();
    machine.write("script.yaml", PLAY);
    await using terminal = machine.terminal(["replay", "script.yaml"], { columns: 100 });
    await terminal.until(/running Bash/);
    await terminal.until(SPINNER);
    expect(terminal.screen.text).toMatch(/ctrl-c/);
    machine.write("go", "");
    expect((await terminal.done).code).toBe(0);
    expect(terminal.screen.transcript).toMatch(/● Bash touch begun/);
    expect(terminal.screen.transcript).toContain("Played");
    expect(terminal.screen.transcript).not.toContain("*done*");
    expectOnlyTranscript(terminal);
  });

  test("of a recorded run is live too, and plain lines in a pipe", async () => {
    await using machine = new Machine();
    machine.write("script.yaml", PLAY.replace("until test -e go; do sleep 0.05; done", "true"));
    const spawned = await machine.run([
      "spawn",
      "--provider",
      "replay",
      "--model",
      "script.yaml",
      "--output",
      "json",
      "x",
    ]);
    const { uuid } = JSON.parse(spawned.stdout);
    await using terminal = machine.terminal(["replay", uuid], { columns: 100 });
    expect((await terminal.done).code).toBe(0);
    expect(terminal.screen.transcript).toMatch(/● Bash touch begun/);
    expectOnlyTranscript(terminal);
    const { stdout, stderr } = await machine.run(["replay", uuid]);
    expect(stdout).toStartWith("ok the same as run");
    expect(stdout + stderr).not.toContain("\x1b");
  });
});
