import { describe, expect, test } from "bun:test";
import type { TerminalSession } from "../../support/terminal.ts";
import { Machine } from "../support/machine.ts";
import { asked, CTRL_C, chat, EMPTY_LINE, ENTER, leave } from "./support.ts";

/** A command that runs until it is stopped. */
const SLEEP = { name: "Bash", input: { command: "echo begun; sleep 60" } };

const AFTER: [string, RegExp, (machine: Machine, first: TerminalSession) => unknown][] = [
  ["Ctrl-C", /your next message resumes it/, (_, first) => first.type(CTRL_C)],
  [
    "a kill -9 of the daemon",
    /your next message continues the conversation/,
    (machine) => machine.endDaemon(),
  ],
];

/** Two terminals on one conversation whose command is running. */
async function twoTerminals(machine: Machine) {
  const first = await chat(machine);
  first.type(`begin${ENTER}`);
  await first.until(/begun/);
  const second = machine.terminal(["chat", "--continue"]);
  await second.until(/begun/);
  return { first, second };
}

async function answered(terminal: TerminalSession, answer: string): Promise<void> {
  await terminal.until((text) => text.includes(answer) && EMPTY_LINE.test(text));
}

describe("two terminals on one conversation", () => {
  for (const [what, notice, stop] of AFTER) {
    test(`after ${what}, both write: the one that comes second attaches`, async () => {
      await using machine = new Machine();
      const model = await machine.model([
        { tool_calls: [SLEEP] },
        { text: "to the second" },
        { text: "to the first" },
      ]);
      const both = await twoTerminals(machine);
      await using first = both.first;
      await using second = both.second;
      await stop(machine, first);
      await first.until(notice);
      await second.until(notice);
      second.type(`from the second${ENTER}`);
      await answered(second, "to the second");
      first.type(`from the first${ENTER}`);
      await answered(first, "to the first");
      await answered(second, "to the first");
      expect(second.screen.transcript.match(/› from the first$/gm)).toHaveLength(1);
      await leave(second);
      await leave(first);
      expect(asked(model.requests.at(-1)).slice(-2)).toEqual(["from the second", "from the first"]);
      expect(await machine.json(["ps", "-a", "--json"])).toHaveLength(1);
    });

    test(`after ${what}, both write at once: no message is lost`, async () => {
      await using machine = new Machine();
      let count = 0;
      const model = await machine.model(() =>
        count++ === 0 ? { tool_calls: [SLEEP] } : { text: `answer ${count}` },
      );
      const both = await twoTerminals(machine);
      await using first = both.first;
      await using second = both.second;
      await stop(machine, first);
      await first.until(notice);
      await second.until(notice);
      first.type(`from the first${ENTER}`);
      second.type(`from the second${ENTER}`);
      for (const terminal of [first, second]) {
        await terminal.until(
          (text) => /› from the first/.test(text) && /› from the second/.test(text) && EMPTY_LINE.test(text),
        );
        await leave(terminal);
      }
      const texts = asked(model.requests.at(-1));
      expect(texts.filter((text) => text.includes("from the first"))).toHaveLength(1);
      expect(texts.filter((text) => text.includes("from the second"))).toHaveLength(1);
    });
  }

  test("a message that can't resume it returns to the line, and the next one is sent", async () => {
    await using machine = new Machine();
    const model = await machine.model([{ text: "one" }, { text: "two" }]);
    await using terminal = await chat(machine);
    terminal.type(`first${ENTER}`);
    await answered(terminal, "one");
    await machine.endDaemon();
    await terminal.until(/your next message continues/);
    const key = machine.read(`${machine.configDir}/config.yaml`);
    machine.write(`${machine.configDir}/config.yaml`, "no_such_setting: [\n");
    terminal.type(`second${ENTER}`);
    await terminal.until((text) => /Flow sequence[\s\S]*^❯ second/m.test(text) && !text.includes("starting"));
    machine.write(`${machine.configDir}/config.yaml`, key);
    terminal.type(ENTER);
    await answered(terminal, "two");
    await leave(terminal);
    expect(asked(model.requests.at(-1)).at(-1)).toContain("second");
  });
});
