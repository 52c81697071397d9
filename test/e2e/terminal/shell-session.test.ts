import { describe, expect, test } from "bun:test";
import type { RecordedRequest } from "../../support/model-server/server.ts";
import { until } from "../../support/until.ts";
import { Machine } from "../support/machine.ts";
import { firstUserMessage } from "../support/requests.ts";
import { CTRL_C, CTRL_D, ENTER } from "./support.ts";

const UP = "\x1b[A";
const TAB = "\t";
const PROMPT = /project \$\s*$/;

describe("rnix sh at a terminal", () => {
  test("variables, folders and the exit code go from line to line; history and completion", async () => {
    await using machine = new Machine();
    await machine.model((request: RecordedRequest) => ({ text: firstUserMessage(request).toUpperCase() }));
    machine.write("sub/inner file.txt", "inside\n");
    const terminal = machine.terminal(["sh"]);
    const line = async (typed: string, shows: RegExp | string, prompt = PROMPT): Promise<void> => {
      terminal.type(typed);
      await terminal.until(
        (text) => (typeof shows === "string" ? text.includes(shows) : shows.test(text)) && prompt.test(text),
      );
    };
    await terminal.until(PROMPT);
    await line(`X="a  b"; false${ENTER}`, "false");
    await line(`echo "<$X> $?"${ENTER}`, "<a  b> 1");
    await line(`cd sub${ENTER}`, "cd sub", /sub \$\s*$/);
    await line(`cat i${TAB}`, "inner\\ file.txt", /file\.txt\s*$/);
    await line(ENTER, /^inside/m, /sub \$\s*$/);
    await line(`cd ..; if${ENTER}`, '"if" is not read', /sub \$\s*$/);
    await line(`cd ..${ENTER}`, "cd ..");
    await line(`spa${TAB}`, "$ spawn", /spawn\s*$/);
    await line(`"hello there" --max-st${TAB}`, "--max-steps", /--max-steps\s*$/);
    await line(`3 |${ENTER}`, /^>\s*$/m, />\s*$/);
    await line(`tr A-Z a-z${ENTER}`, /^hello there/m);
    await line(`echo again and${ENTER}`, /^again and$/m);
    await line(`${UP} again${ENTER}`, /^again and again$/m);
    await line(
      `echo first${ENTER}echo second${ENTER}echo thi`,
      /first\n[^\n]*\$ echo second\nsecond\n/m,
      /echo thi$/,
    );
    await line(`rd${ENTER}`, /^third$/m);
    await line(`typed and left${CTRL_C}`, "^C");
    await line(`exit 4${ENTER}`, "exit 4", /exit 4\s*$/);
    expect((await terminal.done).code).toBe(4);
    await using next = machine.terminal(["sh"]);
    await next.until(PROMPT);
    next.type(`${UP}${UP}`);
    await next.until(/\$ echo third$/);
    next.type(`${CTRL_C}${CTRL_D}`);
    expect((await next.done).code).toBe(0);
  }, 30_000);

  test("Ctrl-C suspends the line that runs, and the session stays; & leaves a line in the daemon", async () => {
    await using machine = new Machine();
    const hold = Promise.withResolvers<void>();
    const model = await machine.model(async (request) => {
      await hold.promise;
      return { text: firstUserMessage(request).toUpperCase() };
    });
    await using terminal = machine.terminal(["sh"]);
    await terminal.until(PROMPT);
    terminal.type(`spawn slow${ENTER}`);
    await until(() => model.requests.length === 1);
    terminal.type(CTRL_C);
    await terminal.until((text) => text.includes("suspend") && PROMPT.test(text));
    terminal.type(`spawn behind > made.txt &${ENTER}`);
    await until(() => model.requests.length === 2);
    terminal.type(`echo still here${ENTER}`);
    await terminal.until((text) => /^still here/m.test(text) && PROMPT.test(text));
    hold.resolve();
    await until(() => Bun.file(`${machine.project}/made.txt`).size > 0);
    expect(machine.read("made.txt")).toBe("BEHIND\n");
    terminal.type(CTRL_D);
    expect((await terminal.done).code).toBe(0);
  }, 30_000);
});
