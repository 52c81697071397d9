import { expect, test } from "bun:test";
import type { RecordedRequest } from "../../support/model-server/server.ts";
import { Machine } from "../support/machine.ts";
import { toolResults } from "../support/requests.ts";
import { asked, chat, DOWN, EMPTY_LINE, ENTER, leave } from "./support.ts";

const CTRL_T = "\x14";

/** A command in the background, which ends when the file is there. */
function background(file: string): { name: string; input: Record<string, unknown> } {
  const command = `echo begun ${file}; while [ ! -e ${file} ]; do sleep 0.05; done; echo ended`;
  return { name: "Bash", input: { command, description: `wait for ${file}`, run_in_background: true } };
}

test("a conversation counts its units, lists them with one key, and a signal begins a turn by itself", async () => {
  await using machine = new Machine();
  const model = await machine.model([
    { tool_calls: [background("go"), background("never")] },
    { text: "both run" },
    { text: "one has ended" },
    { text: "the other was stopped" },
  ]);
  await using terminal = await chat(machine);
  terminal.type(`start them${ENTER}`);
  await terminal.until(
    (text) => text.includes("both run") && /· 2 units/.test(text) && EMPTY_LINE.test(text),
  );
  expect(terminal.screen.text).toMatch(/unit b\w{8} \[local_bash\] started: wait for go/);
  expect(terminal.screen.text).toContain("ctrl-t: units");

  terminal.type(CTRL_T);
  await terminal.until(/Background units: 2 live, 0 ended/);
  terminal.type(ENTER);
  await terminal.until(/show its output/);
  terminal.type(ENTER);
  await terminal.until(/output of unit b\w{8}\s+begun never/);

  machine.write("go", "");
  await terminal.until((text) => text.includes("one has ended") && EMPTY_LINE.test(text));
  expect(terminal.screen.text).toMatch(/unit b\w{8} \[local_bash\] completed, exit code 0: wait for go/);
  await terminal.until(/· 1 unit ·/);
  expect(asked(model.requests[2]).at(-1)).toContain("completed, exit code 0: wait for go");

  terminal.type(`/units${ENTER}`);
  await terminal.until(/Background units: 1 live, 1 ended/);
  terminal.type(ENTER);
  await terminal.until(/show its output/);
  terminal.type(`${DOWN}${ENTER}`);
  await terminal.until((text) => text.includes("the other was stopped") && EMPTY_LINE.test(text));
  expect(terminal.screen.text).not.toMatch(/\d+ units? ·/);
  await leave(terminal);

  // The end of a past conversation shows the user's messages only.
  await using again = await chat(machine, ["--continue"]);
  await again.until(/the other was stopped/);
  expect(again.screen.text).toContain("start them");
  expect(again.screen.text).not.toContain("system-reminder");
  await leave(again);
});

const CTRL_B = "\x02";

test("Ctrl+B moves a running command to the background: its call returns, and its end begins a turn", async () => {
  await using machine = new Machine();
  const command = "echo first; while [ ! -e go ]; do sleep 0.05; done; echo last; exit 3";
  const model = await machine.model([
    { tool_calls: [{ name: "Bash", input: { command, description: "wait for go" } }] },
    { text: "I go on" },
    { text: "it has ended" },
  ]);
  await using terminal = await chat(machine);
  terminal.type(`start it${ENTER}`);
  await terminal.until((text) => /^\W*first$/m.test(text) && text.includes("ctrl-b: to the background"));
  terminal.type(CTRL_B);
  await terminal.until((text) => text.includes("I go on") && /· 1 unit/.test(text) && EMPTY_LINE.test(text));
  expect(terminal.screen.text).toMatch(/unit b\w{8} \[local_bash\] started: wait for go/);
  expect(terminal.screen.text).not.toContain("ctrl-b: to the background");
  const [result = ""] = toolResults(model.requests[1] as RecordedRequest);
  expect(result).toMatch(
    /^first\n\[moved to the background by the user as unit (b\w{8})\. A message follows/,
  );
  const id = /unit (b\w{8})/.exec(result)?.[1] ?? "";
  expect((await machine.ok(["units", "output", id])).stdout).toBe("first\n");

  machine.write("go", "");
  await terminal.until((text) => text.includes("it has ended") && EMPTY_LINE.test(text));
  expect(asked(model.requests[2]).at(-1)).toMatch(/failed, exit code 3: wait for go\s+first\s+last/);
  expect((await machine.ok(["units", "output", id])).stdout).toBe("first\nlast\n");
  await leave(terminal);
});
