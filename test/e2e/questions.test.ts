import { describe, expect, test } from "bun:test";
import type { TerminalSession } from "../support/terminal.ts";
import { until } from "../support/until.ts";
import { Machine } from "./support/machine.ts";
import { plainTerminal, takesKeys, theQuestion } from "./support/questions.ts";
import { toolResults } from "./support/requests.ts";
import { bash, calls, says } from "./support/scenes.ts";
import { Receipt, receiptOf, recordOf } from "./support/verdict.ts";

const DATABASE = {
  question: "Which database?",
  header: "Database",
  options: [{ label: "Postgres", description: "a server" }, "SQLite"],
  default: "SQLite",
};
const COLOURS = { question: "Which colours?", options: ["red", "green", "blue"], multi_select: true };
const NAME = { question: "Which name?" };

async function model(machine: Machine, ...questions: object[]) {
  return machine.play({ "do it": [calls(["AskUser", { questions }]), says("done")] });
}

type Model = Awaited<ReturnType<typeof model>>;

/** What the model was answered. */
function reply({ requests }: Model): { answers: string[][]; by: string; note?: string } {
  const text = requests.flatMap(toolResults).at(-1) ?? "";
  const { answers, ...rest } = JSON.parse(text);
  return { answers: answers.map(({ answer }: { answer: string[] }) => answer), ...rest };
}

function live(machine: Machine, args: string[]): TerminalSession {
  return machine.terminal(args, { columns: 90, rows: 30, env: { CI: undefined } });
}

async function ended(machine: Machine, uuid: string): Promise<void> {
  await until(() => recordOf(machine, uuid).exit_reason === "completed", "the end");
}

describe.concurrent("at a terminal", () => {
  test("the live view asks one question after the other: a choice, several, own words", async () => {
    await using machine = new Machine();
    const scripted = await model(machine, DATABASE, COLOURS, NAME);
    await using terminal = live(machine, ["spawn", "do it"]);
    const shown = await takesKeys(terminal, /Database \(1\/3\): Which database\?/);
    expect(shown).toContain("1 Postgres  a server");
    expect(shown).toContain("› 2 SQLite");
    expect(shown).toContain("3 something else: your own words");
    terminal.type("\x1b[A\r");
    await terminal.until(/2\/3: Which colours\?/);
    terminal.type("13\r");
    await terminal.until(/3\/3: Which name\?/);
    terminal.type("shop\r");
    expect((await terminal.done).code).toBe(0);
    expect(reply(scripted)).toEqual({ answers: [["Postgres"], ["red", "blue"], ["shop"]], by: "user" });
    expect(terminal.screen.transcript).toContain("Which colours? red, blue");
  });

  test("plain lines take numbers, labels, own words and the default", async () => {
    await using machine = new Machine();
    const scripted = await model(machine, DATABASE, COLOURS, NAME, DATABASE);
    await using terminal = plainTerminal(machine, ["spawn", "do it"]);
    const answers = ["", "red, 3", "a shop, of sorts", "MySQL"];
    for (const [i, line] of answers.entries()) {
      const question = new RegExp(`${i + 1}/4\\)?: Which[\\s\\S]*answer \\(`);
      const shown = await (i === 0 ? takesKeys(terminal, question) : terminal.until(question));
      if (i === 0) expect(shown).toContain("an empty answer, or none: SQLite");
      if (i === 2) {
        terminal.type("\r");
        await terminal.until(/\n {2}write an answer:/);
      }
      terminal.type(`${line}\r`);
    }
    expect((await terminal.done).code).toBe(0);
    expect(reply(scripted).answers).toEqual([["SQLite"], ["red", "blue"], ["a shop, of sorts"], ["MySQL"]]);
  });

  test("a chat asks, a second client that attaches asks too, and the first answer settles both", async () => {
    await using machine = new Machine();
    const scripted = await model(machine, DATABASE);
    await using chat = live(machine, ["chat"]);
    await chat.until(/a message/);
    chat.type("do it\r");
    await chat.until(/Database: Which database\?/);
    await using second = plainTerminal(machine, ["attach", "1"]);
    await takesKeys(second, /Database: Which database\?[\s\S]*answer \(/);
    chat.type("1\r");
    await chat.until(/done/);
    await second.until(/question \w+: answered by the user \(terminal\): Postgres/);
    expect(reply(scripted).answers).toEqual([["Postgres"]]);
    chat.type("\x04");
    await chat.done;
  });

  test.each([
    ["spawn", ["spawn", "do it", "--ask", "Bash"], ""],
    ["chat", ["chat", "--ask", "Bash"], "do it\r"],
  ])(
    "of %s, words that begin with a key of a permission answer nothing, however slowly they are typed",
    async (_, args, first) => {
      await using machine = await Machine.playing({ "do it": [bash("touch a"), says("done")] });
      await using terminal = live(machine, args);
      if (first !== "") await terminal.until(/a message/);
      terminal.type(first);
      await takesKeys(terminal, /› 1 Yes[\s\S]*4 No/);
      terminal.type("n");
      await takesKeys(terminal, /› 4 No/);
      terminal.type("ot yet");
      const shown = await terminal.until(/not yet[\s\S]*next step/);
      expect(shown).toMatch(/Waiting for permission|Enter sends your message/);
      terminal.type("\r");
      await terminal.until(/next step: not yet/);
      expect((await theQuestion(machine)).state).toBe("live");
      expect(machine.has("a")).toBe(false);
      await machine.run(["answer", (await theQuestion(machine)).request_id, "no"]);
      await terminal.until(/› not yet[\s\S]*done/);
      expect(machine.has("a")).toBe(false);
    },
  );

  test("a question takes typed words as the person's own answer", async () => {
    await using machine = new Machine();
    const scripted = await model(machine, DATABASE);
    await using terminal = live(machine, ["spawn", "do it"]);
    await takesKeys(terminal, /Database: Which database\?/);
    terminal.type("2");
    await terminal.until(/› 2 SQLite/);
    terminal.type(" of them");
    await terminal.until(/your answer: 2 of them/);
    terminal.type("\r");
    expect((await terminal.done).code).toBe(0);
    expect(reply(scripted).answers).toEqual([["2 of them"]]);
  });
});

describe.concurrent("without a person", () => {
  test.each([
    ["deny", "denied", [[], [], []]],
    ["default", "default", [["SQLite"], [], []]],
  ])("--on-ask %s answers at once, and jsonl has no question", async (onAsk, by, answers) => {
    await using machine = new Machine();
    const scripted = await model(machine, DATABASE, COLOURS, NAME);
    const { code, stdout } = await machine.run(["spawn", "do it", "--on-ask", onAsk, "--output", "jsonl"]);
    expect([code, stdout.includes("ask_user")]).toEqual([0, false]);
    expect(reply(scripted)).toMatchObject({
      by,
      answers,
      note: expect.stringContaining("decide by yourself"),
    });
  });

  test("park: notified, listed, shown, answered after kill -9, and logged once", async () => {
    await using machine = new Machine();
    const scripted = await model(machine, DATABASE, COLOURS, NAME);
    machine.config({ on_ask: `cat > ${machine.elsewhere}/hook.json` });
    const { code, stdout, stderr } = await machine.run([
      "spawn",
      "do it",
      "--on-ask",
      "park",
      "--output",
      "jsonl",
    ]);
    expect(code).toBe(75);
    const events = stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    const asked = events.find(({ type }) => type === "ask_user").payload;
    const id: string = asked.request_id;
    expect(asked.questions).toHaveLength(3);
    expect(stderr).toContain(`rnix answer ${id} "…" "…" "…"`);
    await until(() => machine.has(`${machine.elsewhere}/hook.json`), "the hook");
    expect(JSON.parse(machine.read(`${machine.elsewhere}/hook.json`))).toMatchObject({
      event: "ask",
      kind: "question",
    });
    machine.killDaemon();
    expect((await machine.run(["asks"])).stdout).toMatch(/suspended .* Which database\? \(and 2 more\)/);
    const shown = (await machine.run(["answer", id])).stdout;
    expect(shown).toContain("Database (1/3): Which database?\n  1 Postgres  a server\n  2 SQLite\n");
    expect(shown).toContain("an empty answer, or none: SQLite");
    for (const words of [
      ["Postgres"],
      ["Postgres", "9", "x"],
      ["Postgres", "red", ""],
      ["1", "2", "x", "y"],
    ]) {
      const wrong = await machine.run(["answer", id, ...words]);
      expect(wrong.code).toBe(64);
    }
    const answered = await machine.run(["answer", id, "postgres", "1,3", "the shop, of course"]);
    expect(answered.stderr).toMatch(/^answered; the run was resumed as process \d+/);
    await ended(machine, asked.uuid);
    expect(reply(scripted)).toEqual({
      answers: [["Postgres"], ["red", "blue"], ["the shop, of course"]],
      by: "user",
    });
    const log = (await machine.run(["log", asked.uuid])).stdout;
    expect(log.match(/AskUser Which database/g)).toHaveLength(1);
    expect(log).toContain(
      "asked: answered by the user (rnix answer): Postgres; red, blue; the shop, of course",
    );
    const late = await machine.run(["answer", id, "1", "1", "x"]);
    expect(late.code).toBe(64);
  });

  test("rnix answer asks at a terminal, and resumes the run", async () => {
    await using machine = new Machine();
    const scripted = await model(machine, DATABASE, NAME);
    const { uuid } = receiptOf(await machine.run(["spawn", "do it", "--on-ask", "park", "--output", "json"]));
    const { request_id } = await theQuestion(machine);
    await using terminal = plainTerminal(machine, ["answer", request_id]);
    await terminal.until(/1\/2\): Which database[\s\S]*answer \(/);
    terminal.type("1\r");
    await terminal.until(/2\/2: Which name[\s\S]*answer \(/);
    terminal.type("shop\r");
    expect((await terminal.done).code).toBe(0);
    expect(terminal.screen.transcript).toContain("answered; the run was resumed as process");
    await ended(machine, uuid);
    expect(reply(scripted).answers).toEqual([["Postgres"], ["shop"]]);
  });

  test("rnix call gets an answer for no person, too", async () => {
    await using machine = new Machine();
    const { code, stdout } = await machine.run(["call", "AskUser", JSON.stringify({ questions: [NAME] })]);
    expect([code, JSON.parse(stdout).by]).toEqual([0, "denied"]);
  });
});

test.concurrent("while a question that was parked waits again, the log of the open step has its call once", async () => {
  await using machine = new Machine();
  await model(machine, NAME);
  await using first = plainTerminal(machine, ["spawn", "do it"]);
  await first.until(/answer \(/);
  const { uuid } = await theQuestion(machine);
  machine.killDaemon();
  await first.done;
  await using again = plainTerminal(machine, ["resume", uuid]);
  await again.until(/answer \(/);
  const log = await machine.run(["log", uuid]);
  expect(log.stdout.match(/AskUser Which name/g)).toHaveLength(1);
});

test.concurrent("a plugin in a Worker asks twice in one call: each answer is given once, through kill -9 and suspension", async () => {
  await using machine = new Machine();
  machine.write(
    ".rnix/plugins/wizard.ts",
    `import { defineTool } from "rnix/plugin";
export default defineTool({
  name: "Wizard",
  description: "Asks for a name, then for a colour.",
  input: { type: "object" },
  needs: ["ask"],
  async run(_input, { ask }) {
    const name = await ask.ask([{ question: "Name?" }]);
    const colour = await ask.ask([{ question: "Colour?", options: [{ label: "red" }, { label: "blue" }] }]);
    return [name, colour].map(({ answers: [one] }) => one.answer.join()).join(" is ");
  },
});
`,
  );
  await machine.run(["trust", "--yes"]);
  const scripted = await machine.play({ "do it": [calls(["Wizard", {}]), says("done")] });
  const { stdout } = await machine.run(["spawn", "do it", "--on-ask", "park", "--output", "json"]);
  const { uuid } = Receipt.parse(JSON.parse(stdout));
  const first = await theQuestion(machine);
  await machine.ok(["answer", first.request_id, "the shop"]);
  const second = await theQuestion(machine, first.request_id);
  machine.killDaemon();
  await machine.ok(["answer", second.request_id, "blue"]);
  await ended(machine, uuid);
  expect(scripted.requests.flatMap(toolResults).at(-1)).toBe("the shop is blue");
});
