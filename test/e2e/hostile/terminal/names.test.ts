import { expect, test } from "bun:test";
import { Machine } from "../../support/machine.ts";
import { bash, says } from "../../support/scenes.ts";

/** Sets the window's title, clears the screen, in one byte too, goes back in the line, and turns the text around. */
const EVIL = "\u001b]0;PWN\u0007\u001b[2J\u009b2J\rX\u202e\u001b[8mhidden\u001b[37;47mtoo\u001b[38:5:0m";
/** Whatever is no text, newline or style. */
const MOVES = /(?!\n|\p{Cc}\[[0-9;]*m)\p{Cc}|[\u202a-\u202e\u2066-\u2069]/u;
/** Concealed, blinking, or in another colour than those that Rnix itself writes. */
const HIDES = /\p{Cc}\[(?:[0-9:]*[;:][0-9;:]*|[568]|30|37|38|4[0-9]|9[0-7]|10[0-7])m/u;

test("names in an untrusted folder, errors and a model's text do not move the cursor of a terminal, and hide nothing", async () => {
  await using machine = await Machine.playing({
    do: [bash(`printf '${EVIL}'`), says(EVIL)],
  });
  machine.write(`agents/bad${EVIL}/agent.yaml`, "name: x\n");
  machine.write(`agents/own${EVIL}/agent.yaml`, `name: ${JSON.stringify(`own${EVIL}`)}\ndescription: d\n`);
  machine.write(`plugins/evil${EVIL}.ts`, "throw 1;\n");
  machine.write("skills/bad/SKILL.md", `---\n${JSON.stringify(EVIL)}: 1\n---\n`);
  const commands = [
    ["agents"],
    ["skills"],
    ["plugins"],
    ["trust", "--show"],
    ["spawn", "do it"],
    ["ps", "-a"],
    ["show", "1"],
    ["log", "1"],
    ["steps", "1"],
    ["attach", "1"],
    ["spawn", "do it", "--agent", `bad${EVIL}`],
    ["show", EVIL],
    ["steps", "1", "1"],
    ["doctor"],
    ["tools", "--agent", `own${EVIL}`],
    ["call", `No${EVIL}`],
    ["cron", "add", `x${EVIL}`, "do it"],
  ];
  const moved: string[] = [];
  for (const args of commands) {
    // The live view moves the cursor itself: test/e2e/terminal/ has it with the same texts.
    const { screen } = await machine.startAtTerminal(args, { env: { NO_COLOR: "1" } }).done;
    expect(screen).not.toBe("");
    const text = screen.replaceAll("\r\n", "\n");
    const found = MOVES.exec(text) ?? HIDES.exec(text);
    if (found)
      moved.push(`${args.join(" ")}: ${JSON.stringify(screen.slice(found.index - 20).slice(0, 60))}`);
  }
  expect(moved).toEqual([]);
});
