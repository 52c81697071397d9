import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { TerminalSession } from "../support/terminal.ts";
import { until } from "../support/until.ts";
import { binary } from "./support/binary.ts";
import { Machine } from "./support/machine.ts";
import { plainTerminal, questions, takesKeys, theQuestion } from "./support/questions.ts";
import { toolResults } from "./support/requests.ts";
import { calls, type Scene, says } from "./support/scenes.ts";
import { Receipt, recordOf } from "./support/verdict.ts";

const RNIX = `'${binary()}'`;
const bash = (command: string, description?: string): Scene =>
  calls(["Bash", { command, ...(description && { description }) }]);

async function answer(terminal: TerminalSession, line: string): Promise<void> {
  await takesKeys(terminal);
  terminal.type(`${line}\r`);
}

describe.concurrent("a question at a terminal", () => {
  test("says what, why and for how long, and yes may come with an instruction", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "do it": [bash("touch a", "make the file"), says("done")] });
    await using terminal = plainTerminal(machine, ["spawn", "do it", "--ask", "Bash(touch *)"]);
    const shown = await terminal.until(/answer \(/);
    expect(shown).toContain("? default needs your answer");
    expect(shown).toContain("Bash touch a");
    expect(shown).toContain("ask rule Bash(touch *)");
    expect(shown).toContain("the model says: make the file");
    expect(shown).toContain("2 Yes, and always Bash(touch *)  until this run ends");
    expect(shown).toContain("3 Yes, and always Bash(touch *) in this project");
    expect(machine.has("a")).toBe(false);
    await answer(terminal, "y and remove it later");
    expect((await terminal.done).code).toBe(0);
    expect(machine.has("a")).toBe(true);
    expect(model.requests.flatMap(toolResults).join()).toContain(
      "[The user allowed this call and added: and remove it later]",
    );
  });

  test("no, with a reason for the model; an empty line and an early one answer nothing", async () => {
    await using machine = new Machine();
    const model = await machine.play({ "do it": [bash("touch a"), says("not done")] });
    await using terminal = plainTerminal(machine, ["spawn", "do it", "--ask", "Bash"]);
    // Before the question: the words of a message, ended by Enter.
    terminal.type("y\r");
    await answer(terminal, "");
    await terminal.until(/\n {2}choose 1, 2, 3, 4, or y, a, p, n:/);
    terminal.type("n use mkdir\r");
    expect((await terminal.done).code).toBe(0);
    expect(machine.has("a")).toBe(false);
    expect(model.requests.flatMap(toolResults).join()).toContain(
      "The user said no to Bash(touch a): use mkdir",
    );
    expect((await machine.run(["log", "1"])).stdout).toContain(
      "asked: no by the user (terminal): use mkdir  (because of the ask rule Bash)",
    );
    expect((await machine.run(["steps", "1", "1"])).stdout).toContain("asked: no by the user (terminal)");
  });

  test("is answered from a second terminal, and the first shows it", async () => {
    await using machine = await Machine.playing({ "do it": [bash("touch a"), says("done")] });
    await using terminal = plainTerminal(machine, ["spawn", "do it", "--ask", "Bash"]);
    const { request_id, state, call } = await theQuestion(machine);
    expect([state, call]).toEqual(["live", { tool: "Bash", subject: "touch a", rules: ["Bash"] }]);
    const listed = await machine.run(["asks"]);
    expect(listed.stdout).toMatch(new RegExp(`${request_id} +1 +default +live .* Bash touch a`));
    expect((await machine.run(["answer", request_id.slice(0, 5)])).stdout).toContain("Bash touch a");
    const given = await machine.run(["answer", request_id, "yes"]);
    expect([given.code, given.stderr]).toEqual([0, "answered; process 1 has it\n"]);
    expect(given.stdout).toBe("Bash touch a\n");
    const late = await machine.run(["answer", request_id, "no"]);
    expect(late.code).toBe(1);
    expect(late.stderr).toContain(`Question ${request_id} is over: it was answered "yes" (rnix answer)`);
    expect((await terminal.done).code).toBe(0);
    expect(terminal.screen.transcript).toContain(`question ${request_id}: yes by the user (rnix answer)`);
    expect(machine.has("a")).toBe(true);
  });

  test("of a long command is listed as a whole, and a yes to a longer one is asked once more", async () => {
    const long = `touch ${Array.from({ length: 60 }, (_, i) => `file-${i}`).join(" ")} # end`;
    const longer = `${Array.from({ length: 40 }, (_, i) => `echo ${i}`).join("\n")}\ntouch last`;
    await using machine = await Machine.playing({ "do it": [bash(long), bash(longer), says("done")] });
    await using terminal = plainTerminal(machine, ["spawn", "do it", "--ask", "Bash"]);
    const first = await theQuestion(machine);
    expect((await machine.run(["asks"])).stdout).toContain(`Bash ${long}`);
    const yes = await machine.run(["answer", first.request_id, "yes"]);
    expect([yes.code, yes.stdout]).toEqual([0, `Bash ${long}\n`]);
    const second = await theQuestion(machine, first.request_id);
    expect((await machine.run(["asks"])).stdout).toContain(
      `rnix answer ${second.request_id} shows all of it`,
    );
    expect((await machine.run(["asks"])).stdout).toContain("Bash echo 0\\necho 1\\n");
    const refused = await machine.run(["answer", second.request_id, "yes"]);
    expect(refused.code).toBe(64);
    expect(refused.stdout).toContain("echo 39\ntouch last\n");
    expect(refused.stderr).toContain("answer with --read");
    expect(machine.has("last")).toBe(false);
    await using asking = machine.terminal(["answer", second.request_id, "yes"]);
    await asking.until(/Is this what you allow\? \[y\/N\]/);
    asking.type("y\r");
    expect((await asking.done).code).toBe(0);
    expect((await terminal.done).code).toBe(0);
    expect([machine.has("last"), machine.has("file-59")]).toEqual([true, true]);
  });

  test("takes another rule for always, which must cover the call", async () => {
    await using machine = await Machine.playing({
      "do it": [bash("touch a"), bash("touch b"), says("done")],
    });
    await using terminal = plainTerminal(machine, ["spawn", "do it", "--ask", "Bash"]);
    await answer(terminal, "a Bash(rm *)");
    await terminal.until(/does not cover this call/);
    await answer(terminal, "a Bash(touch *)");
    expect((await terminal.done).code).toBe(0);
    expect(machine.has("b")).toBe(true);
    expect((await machine.run(["answer", "x", "yes", "--rule", "Bash"])).stderr).toContain(
      "--rule goes with always",
    );
  });

  test("is asked by a run of --no-daemon, too", async () => {
    await using machine = await Machine.playing({ "do it": [bash("touch a"), says("done")] });
    await using terminal = plainTerminal(machine, ["spawn", "do it", "--ask", "Bash", "--no-daemon"]);
    await answer(terminal, "y");
    expect((await terminal.done).code).toBe(0);
    expect(machine.has("a")).toBe(true);
  });

  test("an agent below asks by its name, and always reaches the whole run", async () => {
    await using machine = await Machine.playing({
      parent: [calls(["Agent", { intent: "child" }]), bash("touch b"), says("done")],
      child: [bash("touch b"), says("child done")],
    });
    await using terminal = plainTerminal(machine, ["spawn", "parent", "--ask", "Bash"]);
    await terminal.until(/\? default \(agent of process 2\) needs your answer/);
    await answer(terminal, "a");
    expect((await terminal.done).code).toBe(0);
    expect(terminal.screen.transcript.match(/needs your answer/g)).toHaveLength(1);
  });
});

test("a question without an answer in time parks its run, and is not called withdrawn", async () => {
  await using machine = await Machine.playing({ "do it": [bash("touch a"), says("done")] });
  machine.config({ question_timeout: "2s" });
  await using terminal = plainTerminal(machine, ["spawn", "do it", "--ask", "Bash"]);
  const { request_id, uuid } = await theQuestion(machine);
  expect((await terminal.done).code).toBe(75);
  expect(terminal.screen.transcript).toContain(`question ${request_id} waits for you`);
  expect(terminal.screen.transcript).not.toContain("withdrawn");
  await machine.ok(["answer", request_id, "yes"]);
  await until(() => recordOf(machine, uuid).exit_reason === "completed", "the end");
  expect(machine.has("a")).toBe(true);
});

describe("rnix and an intent alone, at a terminal", () => {
  test("asks what a conversation asks; rnix spawn keeps to the setting", async () => {
    await using machine = await Machine.playing({ "do it": [bash("touch a"), says("done")] });
    machine.config({ ask: "chat" });
    await using terminal = plainTerminal(machine, ["do it"]);
    await terminal.until(/ask rule the mode outside|asked because/);
    await answer(terminal, "n");
    expect([(await terminal.done).code, machine.has("a")]).toEqual([0, false]);
    await using script = plainTerminal(machine, ["spawn", "do it"]);
    expect([(await script.done).code, machine.has("a")]).toEqual([0, true]);
    machine.remove("a");
    machine.config({ ask: "plan" });
    await using planned = plainTerminal(machine, ["spawn", "do it"]);
    expect([(await planned.done).code, machine.has("a")]).toEqual([0, false]);
  });
});

test("the line of a --check is not asked for by a mode, and that of an agent's check is", async () => {
  const line = "make check; true";
  await using machine = await Machine.playing({ "do it": [bash(line), says("done")] });
  const dir = join(machine.configDir, "agents", "careful");
  machine.write(join(dir, "agent.yaml"), `name: careful\ndescription: x\nchecks: ["${line}"]\n`);
  machine.write(join(dir, "instructions.md"), "Be careful.\n");
  const spawn = ["spawn", "do it", "--ask-mode", "outside"];
  await using terminal = plainTerminal(machine, [...spawn, "--check", line]);
  expect((await terminal.done).code).toBe(0);
  expect(terminal.screen.transcript).not.toContain("needs your answer");
  await using other = plainTerminal(machine, [...spawn, "--agent", "careful"]);
  await other.until(/needs your answer/);
});

describe("always in this project", () => {
  test("is shown by rnix trust --show, holds for the next run, and is withdrawn", async () => {
    await using machine = await Machine.playing({ "do it": [bash("make check; true"), says("done")] });
    const run = async (): Promise<string> => {
      await using terminal = plainTerminal(machine, ["spawn", "do it", "--ask-mode", "outside"]);
      const first = await terminal.until(/answer \(|completed/);
      if (first.includes("answer (")) await answer(terminal, "p");
      expect((await terminal.done).code).toBe(0);
      return terminal.screen.transcript;
    };
    expect(await run()).toContain("3 Yes, and always Bash(make *) in this project");
    const shown = await machine.run(["trust", "--show"]);
    expect(shown.stdout).toMatch(
      /always allowed here.*\n {2}Bash\(make \*\) {2}.*\/\.rnix\/config\.yaml:2:5/,
    );
    expect(machine.read(".rnix/config.yaml")).toBe("allow_always:\n  - Bash(make *)\n");
    expect((await machine.run(["diff", "1"])).stdout).not.toContain("config.yaml");
    expect(await machine.json(["trust", "--show", "--json"])).toMatchObject({
      always_allowed: [{ rule: "Bash(make *)" }],
    });
    expect(await run()).not.toContain("needs your answer");
    const again = await machine.run(["trust", "--ask-again", "Bash(make *)"]);
    expect([again.code, again.stderr]).toEqual([0, expect.stringContaining("asked for again in")]);
    expect(machine.has(".rnix/config.yaml")).toBe(false);
    expect(await run()).toContain("needs your answer");
    await machine.ok(["trust", "--revoke"]);
    expect((await machine.run(["trust", "--show"])).stdout).not.toContain("always allowed");
    machine.remove(".rnix/config.yaml");
  });

  test("writes a line that is no change of the run, and that its undo leaves alone", async () => {
    await using machine = await Machine.playing({
      go: [bash("make check; touch a"), bash("touch b; make check; true"), says("done")],
    });
    machine.git("init", "-q");
    machine.git("add", ".");
    machine.git("commit", "-qm", "begin", "--allow-empty");
    await using terminal = plainTerminal(machine, ["spawn", "go", "--ask", "Bash(make *)"]);
    await answer(terminal, "p");
    expect((await terminal.done).code).toBe(0);
    const { stdout } = await machine.run(["diff", "1"]);
    expect([stdout.includes("b/a"), stdout.includes("b/b"), stdout.includes("config.yaml")]).toEqual([
      true,
      true,
      false,
    ]);
    await machine.ok(["undo", "1"]);
    expect([machine.has("a"), machine.has("b")]).toEqual([false, false]);
    expect(machine.read(".rnix/config.yaml")).toContain("allow_always");
    await machine.ok(["trust", "--revoke"]);
    machine.remove(".rnix/config.yaml");
  });

  test("a line that the project brings counts once it is trusted; one of the user's file counts at once", async () => {
    await using machine = await Machine.playing({ "do it": [bash("make check; true"), says("done")] });
    machine.write(".rnix/config.yaml", "# ours\nallow_always:\n  - Bash(make check *) # the checks\n");
    const refused = async (): Promise<boolean> => {
      await machine.run(["spawn", "do it", "--ask-mode", "outside", "--on-ask", "deny"]);
      const [last] = ((await machine.json(["ps", "-a", "--json"])) as { pid: number }[]).toReversed();
      return (await machine.run(["log", String(last?.pid)])).stdout.includes("asked: no");
    };
    expect(await refused()).toBe(true);
    const { stdout } = await machine.run(["trust", "--show"]);
    expect(stdout).toMatch(/new +allow_always: Bash\(make check \*\)/);
    await machine.ok(["trust", "--yes"]);
    expect(await refused()).toBe(false);
    await machine.ok(["trust", "--ask-again", "Bash(make check *)"]);
    expect(machine.read(".rnix/config.yaml")).toContain("# ours");
    expect(await refused()).toBe(true);
    machine.config({ allow_always: ["Bash(make *)"] });
    expect(await refused()).toBe(false);
    const again = await machine.run(["trust", "--ask-again", "Bash(make *)"]);
    expect([again.code, again.stderr]).toEqual([64, expect.stringContaining("your own rule: remove it at")]);
    machine.config({ allow_always: ["Bash("] });
    expect((await machine.run(["config"])).stderr).toContain("expected a rule such as Read or Bash(git *)");
    machine.config({});
  });
});

describe.concurrent("without a person", () => {
  test("an ask rule refuses at once, with a message for the model; no mode adds questions", async () => {
    await using machine = new Machine();
    machine.config({ ask: "outside" });
    const model = await machine.play({ "do it": [bash("touch a"), bash("touch b"), says("done")] });
    const { code, stdout } = await machine.run([
      "spawn",
      "do it",
      "--ask",
      "Bash(touch a)",
      "--output",
      "json",
    ]);
    expect([code, Receipt.parse(JSON.parse(stdout)).result]).toEqual([0, "done"]);
    expect(model.requests.flatMap(toolResults).join()).toContain(
      "Bash(touch a) needs a person's yes (ask rule Bash(touch a)), and there is no person to ask",
    );
    expect([machine.has("a"), machine.has("b")]).toEqual([false, true]);
    expect(await questions(machine)).toEqual([]);
  });

  test("in CI and with --no-daemon nothing hangs", async () => {
    await using machine = await Machine.playing({ "do it": [bash("touch a"), says("done")] });
    await using terminal = machine.terminal(["spawn", "do it", "--ask", "Bash"], { env: { CI: "true" } });
    expect((await terminal.done).code).toBe(0);
    const inside = await machine.run(["spawn", "do it", "--ask", "Bash", "--no-daemon"]);
    expect(inside.code).toBe(0);
    expect(machine.has("a")).toBe(false);
  });

  test("an agent's own ask rules count in an untrusted project", async () => {
    await using machine = new Machine();
    machine.agent("careful", "name: careful\ndescription: d\nask: [Read]\n", "Do.\n");
    machine.write("x", "text\n");
    const model = await machine.play({ "do it": [calls(["Read", { path: "x" }]), says("done")] });
    await machine.run(["spawn", "do it", "--agent", "careful"]);
    expect(model.requests.flatMap(toolResults).join()).toContain("needs a person's yes (ask rule Read)");
  });
});

test("a question whose only client detaches is decided by the run's policy", async () => {
  await using machine = await Machine.playing({
    "do it": [
      bash("touch held; until test -e go; do sleep 0.02; done"),
      calls(["Write", { path: "a", content: "x" }]),
      says("done"),
    ],
  });
  await machine.run(["spawn", "do it", "--detach", "--ask", "Write"]);
  await machine.held();
  await using terminal = plainTerminal(machine, ["attach", "1"]);
  await terminal.until(/touch held/);
  machine.write("go", "");
  await terminal.until(/answer \(/);
  terminal.type("\x03");
  await terminal.done;
  expect(await machine.run(["wait", "1"])).toMatchObject({ code: 0, stdout: "done\n" });
  expect(machine.has("a")).toBe(false);
});

describe.concurrent("park", () => {
  async function parked(machine: Machine, ...more: string[]): Promise<{ uuid: string; id: string }> {
    const args = ["spawn", "do it", "--ask", "Bash", "--on-ask", "park", "--output", "json", ...more];
    const { code, stdout, stderr } = await machine.run(args);
    expect(code).toBe(75);
    const receipt = Receipt.parse(JSON.parse(stdout));
    const id = /rnix answer ([0-9a-f]+) yes/.exec(stderr)?.[1] ?? "";
    expect(id).not.toBe("");
    return { uuid: receipt.uuid, id };
  }

  async function ended(machine: Machine, uuid: string): Promise<string> {
    await until(() => ["completed"].includes(recordOf(machine, uuid).exit_reason ?? ""), "the end");
    return recordOf(machine, uuid).result ?? "";
  }

  test("a run waits on disk, and the answer resumes it, also after kill -9 of the daemon", async () => {
    await using machine = await Machine.playing({ "do it": [bash("touch a"), says("done")] });
    machine.config({ on_ask: `cat > ${machine.elsewhere}/hook.json` });
    const { uuid, id } = await parked(machine);
    await until(() => machine.has(`${machine.elsewhere}/hook.json`), "the hook");
    expect(JSON.parse(machine.read(`${machine.elsewhere}/hook.json`))).toMatchObject({
      event: "ask",
      request_id: id,
      call: { subject: "touch a" },
    });
    expect((await machine.run(["ps"])).stdout).toContain(`rnix answer ${id}`);
    machine.killDaemon();
    const [ask] = await questions(machine);
    expect(ask).toMatchObject({ request_id: id, uuid, state: "suspended" });
    expect((ask?.until_ms ?? 0) - (ask?.asked_at_ms ?? 0)).toBeGreaterThan(6 * 24 * 3_600_000);
    const answered = await machine.run(["answer", id, "yes"]);
    expect(answered.stderr).toMatch(/^answered; the run was resumed as process \d+/);
    expect(await ended(machine, uuid)).toBe("done");
    expect(machine.has("a")).toBe(true);
    const late = await machine.run(["answer", id, "no"]);
    expect([late.code, late.stderr]).toEqual([
      64,
      expect.stringContaining(`No run waits for question ${id}`),
    ]);
  });

  test("a run of --no-daemon is answered and resumed by the daemon", async () => {
    await using machine = await Machine.playing({ "do it": [bash("touch a"), says("done")] });
    const { uuid, id } = await parked(machine, "--no-daemon");
    await machine.ok(["answer", id, "no", "not now"]);
    await ended(machine, uuid);
    expect(machine.has("a")).toBe(false);
    expect((await machine.run(["log", uuid])).stdout).toContain(
      "asked: no by the user (rnix answer): not now",
    );
  });

  test("a question of an agent below parks the whole tree, and its answer resumes it", async () => {
    await using machine = await Machine.playing({
      "do it": [calls(["Agent", { intent: "child" }]), says("done")],
      child: [bash("touch a"), says("child done")],
    });
    const args = ["spawn", "do it", "--ask", "Bash", "--on-ask", "park", "--output", "json"];
    const { code, stdout } = await machine.run(args);
    expect(code).toBe(75);
    const { uuid } = Receipt.parse(JSON.parse(stdout));
    const [ask] = await questions(machine);
    expect([ask?.depth, ask?.uuid === uuid]).toEqual([1, false]);
    await machine.ok(["answer", ask?.request_id ?? "", "yes"]);
    expect(await ended(machine, uuid)).toBe("done");
    expect(machine.has("a")).toBe(true);
  });
});

test("a live question survives kill -9 of the daemon: it is listed and its answer resumes the run", async () => {
  await using machine = await Machine.playing({ "do it": [bash("touch a"), says("done")] });
  await using terminal = plainTerminal(machine, ["spawn", "do it", "--ask", "Bash"]);
  const { request_id, uuid } = await theQuestion(machine);
  machine.killDaemon();
  await terminal.done;
  const [ask] = await questions(machine);
  expect(ask).toMatchObject({ request_id, uuid, state: "suspended" });
  await machine.ok(["answer", request_id, "yes"]);
  await until(() => recordOf(machine, uuid).exit_reason === "completed", "the end");
  expect(machine.has("a")).toBe(true);
});

test("no run answers a question, its own or another's", async () => {
  await using machine = new Machine();
  const model = await machine.play({
    first: [bash("touch a"), says("done")],
    second: [
      bash(
        `${RNIX} asks --json; ${RNIX} answer $(cat id) yes; env -u RNIX_UNIT ${RNIX} answer $(cat id) yes`,
      ),
      says("tried"),
    ],
  });
  const args = ["spawn", "first", "--ask", "Bash", "--on-ask", "park"];
  expect((await machine.run(args)).code).toBe(75);
  const { request_id } = await theQuestion(machine);
  machine.write("id", request_id);
  await machine.run(["spawn", "second"]);
  const said = model.requests.flatMap(toolResults).join();
  expect(said).toContain("rnix asks is for a person");
  expect(said).toContain("rnix answer is for a person");
  expect(await questions(machine)).toHaveLength(1);
  await machine.run(["kill", "1"]);
  expect(await questions(machine)).toEqual([]);
});

test("a replay takes the recorded answers, and asks no one", async () => {
  await using machine = await Machine.playing({ "do it": [bash("touch a"), bash("touch b"), says("done")] });
  await using terminal = plainTerminal(machine, ["spawn", "do it", "--ask", "Bash"]);
  await answer(terminal, "y");
  await takesKeys(terminal, /touch b\s+asked because of the ask rule/);
  terminal.type("n\r");
  expect((await terminal.done).code).toBe(0);
  machine.remove("a");
  const replayed = await machine.run(["replay", "1"]);
  expect(replayed.stderr).not.toContain("differs");
  expect(replayed.code).toBe(0);
  expect([machine.has("a"), machine.has("b")]).toEqual([true, false]);
});

describe("in the live view", () => {
  test("a question is a block: numbers, arrows and Tab choose, and it waits for a person who types", async () => {
    await using machine = new Machine();
    const model = await machine.play({
      "do it": [bash("touch a", "make the file"), bash("touch b"), says("done")],
    });
    await using terminal = machine.terminal(["spawn", "do it", "--ask", "Bash"], {
      columns: 80,
      rows: 24,
      env: { CI: undefined },
    });
    const shown = await terminal.until(/4 No/);
    expect(shown).toContain("? default needs your answer");
    expect(shown).toContain("2 Yes, and always Bash(touch *)  until this run ends");
    expect(shown).toContain("the model says: make the file");
    expect(terminal.screen.title).toContain("action required");
    // Too early: it belongs to what the person was typing.
    terminal.type("1");
    await terminal.until(/Waiting for permission… Bash touch a/);
    await terminal.until(/4 No/);
    expect(machine.has("a")).toBe(false);
    terminal.type("\x1b[A");
    await terminal.until(/› 4 No/);
    terminal.type("\t");
    terminal.type("use mkdir");
    await terminal.until(/why not: use mkdir/);
    terminal.type("\r");
    await takesKeys(terminal, /touch b[\s\S]*4 No/);
    // The input line holds what came too early: an arrow says that the question is meant.
    terminal.type("\x1b[B\x1b[A1\r");
    expect((await terminal.done).code).toBe(0);
    expect([machine.has("a"), machine.has("b")]).toEqual([false, true]);
    expect(model.requests.flatMap(toolResults).join()).toContain(
      "The user said no to Bash(touch a): use mkdir",
    );
  });
});

test("a replay takes the answers to its agents' questions, too", async () => {
  await using machine = await Machine.playing({
    parent: [calls(["Agent", { intent: "child" }]), says("done")],
    child: [bash("touch a"), says("child done")],
  });
  await using terminal = plainTerminal(machine, ["spawn", "parent", "--ask", "Bash"]);
  await answer(terminal, "y");
  expect((await terminal.done).code).toBe(0);
  machine.remove("a");
  await machine.ok(["replay", "1"]);
  expect(machine.has("a")).toBe(true);
});

test("a conversation asks before what changes something outside; Esc refuses and waits for words", async () => {
  await using machine = new Machine();
  machine.config({ ask: "chat" });
  await machine.play({ hello: [bash("ls"), bash("touch a"), says("never")], other: [says("fine")] });
  await using terminal = machine.terminal(["chat"], { columns: 80, rows: 24, env: { CI: undefined } });
  await terminal.until(/a message/);
  terminal.type("hello\r");
  await takesKeys(
    terminal,
    /needs your answer[\s\S]*Bash touch a[\s\S]*asked because `touch` may change files/,
  );
  terminal.type("\x1b");
  await terminal.until((text) => !text.includes("needs your answer"));
  expect(machine.has("a")).toBe(false);
  terminal.type("\x04");
  await terminal.done;
});
