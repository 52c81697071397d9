import { afterEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ScreenOptions } from "../../support/screen-model.ts";
import { TerminalSession } from "../../support/terminal.ts";

const PROGRAM = join(import.meta.dir, "programs/live.ts");
const folder = mkdtempSync(join(tmpdir(), "rnix-terminal-"));
const open: TerminalSession[] = [];

afterEach(async () => {
  for (const terminal of open.splice(0)) await terminal[Symbol.asyncDispose]();
});
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

function start(argv: string[], options?: ScreenOptions): TerminalSession {
  const env = { PATH: process.env.PATH ?? "", HOME: folder, PS1: "$ ", HISTFILE: "" };
  const terminal = new TerminalSession({ argv, cwd: folder, env }, options);
  open.push(terminal);
  return terminal;
}

/** The program in a shell with job control, which shows what it finds after the program. */
async function inShell(options?: ScreenOptions, ...flags: string[]): Promise<TerminalSession> {
  const shell = start(["bash", "--norc", "--noediting", "-i"], options);
  await shell.until(/\$$/m);
  shell.type(`printf 'earlier %s\\n' 1 2 3; ${process.execPath} ${PROGRAM} ${flags.join(" ")}\r`);
  await shell.until(/^live /m);
  return shell;
}

/** What `stty` says after the program: the terminal is as a shell needs it. */
async function isUsable(shell: TerminalSession): Promise<void> {
  shell.type("stty -a | tr ' ' '\\n' | grep -xE -- '-?(icanon|echo|isig);?' | xargs; echo checked\r");
  expect(await shell.until(/^checked/m)).toContain("isig icanon echo");
  expect(shell.screen.modes).toEqual({
    bracketedPaste: false,
    autowrap: true,
    mouse: false,
    alternateScreen: false,
  });
  expect(shell.screen.cursor.visible).toBe(true);
}

describe("the terminal is given back", () => {
  test("at the normal end: the live region is gone, what was committed stays", async () => {
    const shell = await inShell();
    shell.type("ccq");
    const text = await shell.until(/the end\n.*\$/);
    expect(text).toContain("earlier 3");
    expect(text).toContain("committed 1\ncommitted 2\nthe end");
    expect(text).not.toMatch(/^live /m);
    await isUsable(shell);
  });

  const ends: [string, string, RegExp][] = [
    ["process.exit", "ce", /committed 1/],
    ["an uncaught error", "cx", /a crash/],
    ["an unhandled rejection", "cu", /a rejection/],
    ["Ctrl-C without a handler", "c\u0003", /committed 1/],
    ["Ctrl-\\", "c\u001c", /committed 1/],
  ];
  for (const [name, keys, seen] of ends) {
    test(`at ${name}`, async () => {
      const shell = await inShell();
      shell.type(keys);
      const text = await shell.until(
        (shown) => seen.test(shown) && !/^live /m.test(shown) && /\$$/.test(shown),
      );
      expect(text).toContain("earlier 3");
      expect(text).toContain("committed 1");
      await isUsable(shell);
    });
  }

  for (const name of ["SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"]) {
    test(`at ${name} from outside`, async () => {
      const shell = await inShell();
      shell.type("c");
      await shell.until(/committed 1/);
      Bun.spawnSync(["pkill", `-${name.slice(3)}`, "-P", String(shell.pid)]);
      await shell.until((shown) => !/^live /m.test(shown) && /\$$/.test(shown));
      await isUsable(shell);
    });
  }

  test("at Ctrl-Z, and drawn again at fg", async () => {
    const shell = await inShell();
    shell.type("c\u001a");
    expect(await shell.until(/Stopped/)).not.toMatch(/^live /m);
    await isUsable(shell);
    shell.type("fg\r");
    await shell.until(/^live /m);
    shell.type("cq");
    expect(await shell.until(/the end/)).toContain("committed 2\nthe end");
    await isUsable(shell);
  });

  test("continued by bg it draws nothing, and again at fg", async () => {
    const shell = await inShell();
    shell.type("\u001a");
    await shell.until(/Stopped/);
    shell.type("bg\r");
    shell.type("sleep 0.7; echo slept\r");
    expect(await shell.until(/^\$ slept/m)).not.toMatch(/^live /m);
    shell.type("fg\r");
    await shell.until(/^live /m);
    shell.type("q");
    await shell.until(/the end/);
  });

  test("to an editor while it runs", async () => {
    const shell = await inShell();
    shell.type("s");
    expect(await shell.until(/^editor/m)).not.toMatch(/^live /m);
    shell.type("words\r");
    const text = await shell.until(/^live /m);
    expect(text).toContain("got words");
    shell.type("q");
    await shell.until(/the end/);
    await isUsable(shell);
  });
});

describe("a screen of its own", () => {
  const ends: [string, RegExp][] = [
    ["e", /\$$/],
    ["x", /a crash/],
    ["u", /a rejection/],
    ["\u0003", /\$$/],
  ];
  test("is left at any end, and what was there before is shown again", async () => {
    for (const [key, seen] of ends) {
      const shell = await inShell({}, "--full");
      expect(shell.screen.modes.alternateScreen).toBe(true);
      expect(shell.screen.text).not.toContain("earlier");
      shell.type(key);
      await shell.until((shown) => seen.test(shown) && shown.includes("earlier 3") && !/^live /m.test(shown));
      await isUsable(shell);
    }
  });

  test("is left for an editor and by Ctrl-Z, and drawn again after them and after a stop", async () => {
    const shell = await inShell({}, "--full");
    shell.type("s");
    expect(await shell.until(/^editor/m)).toContain("earlier 3");
    shell.type("words\r");
    expect(await shell.until(/^live /m)).not.toContain("earlier 3");
    shell.type("\u001a");
    expect(await shell.until(/Stopped/)).toContain("earlier 3");
    await isUsable(shell);
    shell.type("fg\r");
    await shell.until(/^live /m);
    Bun.spawnSync(["pkill", "-STOP", "-P", String(shell.pid)]);
    await shell.until(/Stopped/);
    shell.type("clear; fg\r");
    await shell.until((shown) => /^live /m.test(shown) && !shown.includes("Stopped"));
    shell.resize(90, 40);
    await shell.until((shown) => shown.startsWith("=".repeat(90)) && shown.includes("live 90x40"));
    shell.type("q");
    await shell.until((shown) => shown.includes("got words") && /\$$/.test(shown));
    await isUsable(shell);
  });
});

describe("keys", () => {
  test("arrive one by one, a paste in one piece, and characters of several bytes whole", async () => {
    const shell = await inShell();
    shell.type("aé👍");
    await shell.until(/typed "a""é""👍"/);
    shell.type("\u001b[A");
    await shell.until(/👍""\\u001b\[A"/);
    shell.paste("one\ntwo");
    await shell.until(/paste "one\\ntwo"/);
  });

  test("Ctrl-C is the signal, also as a sequence of kitty's and xterm's", async () => {
    const shell = await inShell({}, "--handle-int");
    for (const [at, keys] of ["\u0003", "\u001b[99;5u", "\u001b[27;5;99~", "\u001b[99;133u"].entries()) {
      shell.type(keys);
      await shell.until((text) => text.split("interrupted").length === at + 2);
    }
  });

  test("what was typed and not read is not left for the shell", async () => {
    const shell = await inShell();
    shell.type("B");
    // While the program is busy.
    shell.type("q");
    shell.type("touch executed\r");
    await shell.until(/the end\n/);
    await isUsable(shell);
    expect(shell.screen.transcript).not.toContain("executed");
  });

  test("after kill -9 the shell has its terminal back, and none of the keys", async () => {
    const shell = await inShell();
    shell.type("abc");
    await shell.until(/typed "a"/);
    shell.type("K");
    await shell.until(/Killed/);
    shell.type("stty -a | tr ' ' '\\n' | grep -xE -- '-?(icanon|echo|isig);?' | xargs; echo checked\r");
    expect(await shell.until(/^checked/m)).toContain("isig icanon echo");
    expect(shell.screen.text).not.toContain("command not found");
  });
});

describe("the screen", () => {
  test("the title", async () => {
    const shell = await inShell();
    shell.type("t");
    await shell.until(() => shell.screen.title === "title 0");
  });

  test("begins on a line of its own when the shell's is unfinished", async () => {
    const shell = start(["bash", "--norc", "--noediting", "-i"]);
    await shell.until(/\$$/m);
    shell.type(`printf unfinished; ${process.execPath} ${PROGRAM}\r`);
    await shell.until(/^live /m);
    expect(shell.screen.text).toContain("\nunfinished\n====");
  });
});
