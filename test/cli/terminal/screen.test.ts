import { afterEach, describe, expect, test } from "bun:test";
import { Keyboard } from "../../../src/cli/terminal/keyboard.ts";
import { link, safeLine } from "../../../src/cli/terminal/safe-text.ts";
import { type Frame, Screen } from "../../../src/cli/terminal/screen.ts";
import { FakeClock } from "../../support/fake-clock.ts";
import { ModelTerminal } from "../../support/model-terminal.ts";
import type { ScreenOptions } from "../../support/screen-model.ts";
import { seeded } from "../../support/seeded.ts";

const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const one of open.splice(0)) await one.close();
});

interface Options extends ScreenOptions {
  env?: Record<string, string>;
  keys?: boolean;
}

/** A screen on a model, and the parts to move it by. */
class Scene {
  readonly clock = new FakeClock();
  readonly terminal: ModelTerminal;
  readonly screen: Screen;
  readonly typed: string[] = [];

  constructor(o: Options = {}) {
    this.terminal = new ModelTerminal(o);
    const io = { env: o.env ?? {}, terminal: () => this.terminal };
    this.screen = Screen.open(io, { clock: this.clock });
    if (o.keys) {
      const keyboard = Keyboard.open(io, { key: (data) => this.typed.push(data), paste: () => undefined });
      if (keyboard) open.push(keyboard);
    }
    open.push(this.screen);
  }

  show(lines: string[], cursor?: Frame["cursor"]): void {
    this.screen.show(() => ({ lines, cursor }));
  }

  /** Time for a frame, and for the terminal's answers. */
  async frame(): Promise<void> {
    await this.clock.advance(100);
    await this.terminal.settled();
    await this.clock.advance(50);
    await this.terminal.settled();
  }

  get text(): string {
    return this.terminal.screen.text;
  }
}

describe("random commits, frames and resizes leave the user's lines, the committed lines and one live region", () => {
  const kinds: [string, Options][] = [
    ["a terminal that wraps lines again and says which it is", { keys: true }],
    ["one that is known by its environment", { env: { TERM_PROGRAM: "vscode" } }],
    ["one that cuts lines", { env: { TERM: "linux" }, reflow: false }],
    ["one that is not known and cuts lines", { reflow: false }],
  ];
  for (const [name, options] of kinds) {
    test(name, async () => {
      for (let seed = 0; seed < 12; seed++) {
        const random = seeded(seed);
        const upTo = (n: number) => Math.floor(random() * n);
        const scene = new Scene({ ...options, columns: 110, rows: 30 });
        const above = Array.from({ length: 40 }, (_, at) => `user ${at}`);
        scene.terminal.write(above.map((line) => `${line}\r\n`).join(""));
        await scene.terminal.settled();
        let live: string[] = [];
        for (let step = 0; step < 40; step++) {
          const { columns } = scene.terminal.size();
          const action = upTo(4);
          if (action === 0) {
            const lines = Array.from(
              { length: 1 + upTo(4) },
              () => `done ${step} ${"x".repeat(1 + upTo(8))}`,
            );
            above.push(...lines);
            scene.screen.commit(lines);
          }
          if (action === 1 || action === 0) {
            live = Array.from({ length: upTo(5) }, (_, at) => `${at}`.repeat(1 + upTo(columns)));
            const row = upTo(live.length);
            const cursor = { row, column: upTo(columns) };
            scene.show(live, random() < 0.5 && live.length > 0 ? cursor : undefined);
          }
          const { rows } = scene.terminal.size();
          // A model that cuts keeps what it cut, and would show it again.
          const to = options.reflow === false ? Math.max(20, columns - upTo(15)) : 20 + upTo(90);
          if (action === 2) scene.terminal.resize(to, rows);
          if (action === 3) scene.terminal.resize(columns, 26 + upTo(14));
          await scene.frame();
          live = live.map((line) => cutTo(line, scene.terminal.size().columns));
          const shown = wholeLines(scene, options);
          expect([seed, step, ...shown]).toEqual([seed, step, ...above, ...live]);
          // The view draws what it had: a cut line stays cut only on the screen.
          scene.show(live, undefined);
          await scene.frame();
        }
        await scene.screen.close(["the end"]);
        await scene.terminal.settled();
        expect(wholeLines(scene, options)).toEqual([...above, "the end"]);
        expect(scene.typed).toEqual([]);
      }
    });
  }
});

test("a terminal that becomes narrower and lower at once loses no line above the live region", async () => {
  for (let seed = 0; seed < 40; seed++) {
    const random = seeded(seed);
    const upTo = (n: number) => Math.floor(random() * n);
    const scene = new Scene({ keys: true, columns: 100, rows: 40 });
    const above = Array.from({ length: 60 }, (_, at) => `user ${at}`);
    scene.terminal.write(above.map((line) => `${line}\r\n`).join(""));
    await scene.terminal.settled();
    const live = Array.from({ length: 6 }, (_, at) => `${at}`.repeat(1 + upTo(100)));
    for (let step = 0; step < 6; step++) {
      scene.show(live, random() < 0.5 ? { row: upTo(6), column: upTo(100) } : undefined);
      await scene.frame();
      scene.terminal.resize(20 + upTo(80), 10 + upTo(30));
      await scene.frame();
    }
    await scene.screen.close(["the end"]);
    await scene.terminal.settled();
    const lines = scene.terminal.screen.unwrapped.split("\n");
    expect(lines.filter((line) => /^user|^the end/.test(line))).toEqual([...above, "the end"]);
  }
});

test("frames between a resize and its report lose no line above the live region", async () => {
  for (let seed = 0; seed < 60; seed++) {
    const random = seeded(seed);
    const upTo = (n: number) => Math.floor(random() * n);
    const late: Record<string, string> = seed % 2 === 0 ? { TERM_PROGRAM: "vscode" } : {};
    const scene = new Scene({ keys: true, env: late, columns: 100, rows: 40 });
    const above = Array.from({ length: 60 }, (_, at) => `user ${at}`);
    scene.terminal.write(above.map((line) => `${line}\r\n`).join(""));
    await scene.terminal.settled();
    for (let step = 0; step < 8; step++) {
      for (let frames = 1 + upTo(3); frames > 0; frames--) {
        const live = Array.from({ length: 2 + upTo(5) }, (_, at) => `${at}`.repeat(1 + upTo(100)));
        scene.show(live, random() < 0.5 ? { row: upTo(2), column: upTo(100) } : undefined);
        if (random() < 0.4) {
          above.push(`committed ${step}.${frames}`);
          scene.screen.commit(above.slice(-1));
        }
        await scene.clock.advance(50);
        await scene.terminal.settled();
        if (frames === 2) scene.terminal.resizeLate(20 + upTo(80), 12 + upTo(28));
      }
      scene.terminal.report();
      await scene.frame();
    }
    await scene.screen.close(["the end"]);
    await scene.terminal.settled();
    const lines = scene.terminal.screen.unwrapped.split("\n");
    expect([seed, ...lines.filter((line) => /^user|^committed|^the end/.test(line))]).toEqual([
      seed,
      ...above,
      "the end",
    ]);
  }
});

/** Where lines are cut, the model joins those that fill their row: there each row is a line. */
function wholeLines({ terminal: { screen } }: Scene, { reflow }: Options): string[] {
  return (reflow === false ? screen.transcript : screen.unwrapped).split("\n");
}

function cutTo(line: string, columns: number): string {
  return line.length <= columns ? line : `${line.slice(0, columns - 1)}…`;
}

describe("a frame", () => {
  test("is drawn at once, and the next one 50 ms later at the earliest", async () => {
    const { clock, terminal, screen } = new Scene();
    let views = 0;
    screen.show(() => ({ lines: [`view ${++views}`] }));
    await clock.advance(0);
    expect(views).toBe(1);
    for (let i = 0; i < 100; i++) screen.redraw();
    await clock.advance(49);
    expect(views).toBe(1);
    await clock.advance(1);
    expect(views).toBe(2);
    await terminal.settled();
    expect(terminal.screen.text).toBe("view 2");
  });

  test("writes only the lines that differ, in one synchronized update", async () => {
    const scene = new Scene();
    scene.show(["one", "two", "three"]);
    await scene.frame();
    const { length } = scene.terminal.written;
    scene.show(["one", "2", "three"]);
    await scene.frame();
    const written = scene.terminal.written.slice(length);
    expect(written).toMatch(/^\u001b\[\?2026h.*2.*\u001b\[\?2026l$/s);
    expect(written).not.toContain("one");
    expect(written).not.toContain("three");
    scene.screen.redraw();
    const before = scene.terminal.written;
    await scene.frame();
    expect(scene.terminal.written).toBe(before);
  });

  test("shows the newest lines of a view that is higher than the terminal, in a very small one too", async () => {
    const scene = new Scene({ columns: 20, rows: 5 });
    scene.show(
      Array.from({ length: 30 }, (_, at) => `line ${at} ${"wide".repeat(10)}`),
      { row: 29, column: 7 },
    );
    await scene.frame();
    expect(scene.text).toBe(
      ["line 26 widewidewid…", "line 27 widewidewid…", "line 28 widewidewid…", "line 29 widewidewid…"].join(
        "\n",
      ),
    );
    expect(scene.terminal.screen.cursor).toEqual({ row: 3, column: 7, visible: true });
    scene.screen.commit(Array.from({ length: 12 }, (_, at) => `committed ${at}`));
    await scene.frame();
    expect(scene.terminal.screen.scrollback.split("\n").slice(0, 3)).toEqual([
      "committed 0",
      "committed 1",
      "committed 2",
    ]);
    expect(scene.terminal.screen.transcript.match(/line 26/g)).toHaveLength(1);
  });

  test("stays in its rows with characters that are wider than the model of the terminal thinks", async () => {
    const scene = new Scene({ columns: 20, rows: 10 });
    // A family is one character of two columns, and four of two for this terminal.
    scene.show(["top", "👩‍👩‍👧‍👦".repeat(10), "bottom"]);
    await scene.frame();
    scene.show(["top!", "👩‍👩‍👧‍👦".repeat(10), "bottom!"]);
    await scene.frame();
    const rows = scene.text.split("\n");
    expect([rows[0], rows[2], rows.length]).toEqual(["top!", "bottom!", 3]);
  });

  test("leaves nothing of itself below a committed line that takes more rows than we think", async () => {
    const scene = new Scene({ columns: 20, rows: 10 });
    scene.show(Array.from({ length: 3 }, () => "live ".repeat(4)));
    await scene.frame();
    scene.screen.commit(["👩‍👩‍👧‍👦".repeat(8)]);
    scene.show(["end"]);
    await scene.frame();
    expect(scene.text).not.toContain("live");
    expect(scene.text).toEndWith("\nend");
  });
});

test("while the window is dragged nothing is drawn, and then one frame at its last size", async () => {
  const scene = new Scene({ env: { KITTY_WINDOW_ID: "1" }, columns: 80, rows: 20 });
  scene.show(["the region"]);
  await scene.frame();
  const { length } = scene.terminal.written;
  for (let columns = 79; columns > 60; columns--) {
    scene.terminal.resize(columns, 20);
    scene.show([`the region at ${columns}`]);
    scene.screen.commit([`line ${columns}`]);
    await scene.clock.advance(16);
    await scene.terminal.settled();
    expect(scene.terminal.written.length).toBe(length);
  }
  await scene.frame();
  expect(scene.text.split("\n").at(-1)).toBe("the region at 61");
  expect(scene.terminal.screen.transcript.match(/^line \d+$/gm)).toHaveLength(19);
  // A size that never stays does not stop the view.
  const before = scene.terminal.written.length;
  for (let step = 0; step < 70; step++) {
    scene.terminal.resize(60 + (step % 2), 20);
    await scene.clock.advance(16);
  }
  await scene.terminal.settled();
  expect(scene.terminal.written.length).toBeGreaterThan(before);
});

test("where the size comes late, the region has a cursor of its own until nothing changes for a moment", async () => {
  const scene = new Scene({ env: { TMUX: "socket,1,0" } });
  scene.show(["> 字input", "foot"], { row: 0, column: 2 });
  await scene.frame();
  expect(scene.terminal.screen.styled).toBe("> <inverse>字</>input\nfoot");
  expect(scene.terminal.screen.cursor).toEqual({ row: 0, column: 0, visible: false });
  await scene.clock.advance(300);
  await scene.terminal.settled();
  expect(scene.terminal.screen.styled).toBe("> 字input\nfoot");
  expect(scene.terminal.screen.cursor).toEqual({ row: 0, column: 2, visible: true });
  const { length } = scene.terminal.written;
  scene.screen.redraw();
  await scene.frame();
  expect(scene.terminal.written.length).toBe(length);
  scene.show(["> 字input", "foot"], { row: 0, column: 9 });
  await scene.frame();
  expect(scene.terminal.screen.styled).toBe("> 字input<inverse> </>\nfoot");
});

describe("committed lines", () => {
  test("are wrapped at words, with their style", async () => {
    const scene = new Scene({ columns: 20, rows: 10 });
    scene.screen.commit(["\u001b[31mred words over more than one line\u001b[39m plain"]);
    await scene.frame();
    expect(scene.terminal.screen.styled).toBe(
      ["<red>red words over more</>", "<red>than one line</> plain"].join("\n"),
    );
  });

  test("of 1,000 at once are all in the scroll-back, once", async () => {
    const scene = new Scene({ columns: 40, rows: 10 });
    scene.show(["live"]);
    await scene.frame();
    const lines = Array.from({ length: 1000 }, (_, at) => `line ${at}`);
    scene.screen.commit(lines);
    await scene.frame();
    expect(scene.terminal.screen.transcript).toBe([...lines, "live"].join("\n"));
  });
});

describe("a terminal that takes nothing (Ctrl-S)", () => {
  test("gets no frames meanwhile, and the newest one afterwards", async () => {
    const scene = new Scene();
    let ticks = 0;
    scene.screen.show(() => ({ lines: [`tick ${ticks}`] }));
    await scene.frame();
    scene.terminal.stop();
    const { length } = scene.terminal.written;
    for (; ticks < 100; ticks++) {
      scene.screen.redraw();
      await scene.clock.advance(50);
    }
    expect(scene.terminal.written.length).toBe(length);
    scene.screen.commit(["committed"]);
    await scene.clock.advance(1000);
    scene.terminal.start();
    await scene.frame();
    expect(scene.text).toBe("committed\ntick 100");
  });
});

describe("text that would act on the terminal", () => {
  const hostile = [
    "\u001b[2J\u001b[1;1Hmoved",
    "\u001b]0;title\u0007named",
    "\u001b]52;c;eA==\u0007copied",
    "\u001b]8;;https://evil.example\u001b\\linked\u001b]8;;\u001b\\",
    "\u001b[?1049h\u001b[?2004l\u001b[?25lmodes",
    "\u001bPq#0~\u001b\\\u001b_Ga=T\u001b\\\u001b^x\u001b\\image",
    "\u009b2J\u009d0;x\u0007c1",
    "\u001bcreset",
    "bell\u0007 back\u0008\u0008 return\rover",
    "\u202ereversed\u202c",
    "half \u001b[",
    "half \u001b]0;never ended",
  ];
  test("is only text, also where a caller has not cleaned it", async () => {
    const scene = new Scene({ columns: 60, rows: 30 });
    scene.terminal.write("the user's line\r\n");
    scene.screen.commit(hostile);
    scene.show(["live", ...hostile]);
    await scene.frame();
    const { screen } = scene.terminal;
    expect(screen.text.split("\n")[0]).toBe("the user's line");
    expect(screen.text.split("\n")).toHaveLength(2 + 2 * hostile.length);
    expect([screen.titles, screen.clipboardWrites, screen.bells]).toEqual([[], 0, 0]);
    expect(screen.modes).toEqual({
      bracketedPaste: false,
      autowrap: true,
      mouse: false,
      alternateScreen: false,
    });
    expect(scene.terminal.written).not.toContain("evil.example");
  });

  test("our own links stay, also where a line is cut", () => {
    const line = `see ${link("the page", "https://example.org/?a=b c")} now`;
    expect(safeLine(line)).toContain("https://example.org/?a=b%20c");
    expect(Bun.stripANSI(safeLine(line))).toBe("see the page now");
    expect(safeLine(line.slice(0, line.indexOf("page")))).toEndWith("\u001b]8;;\u001b\\");
  });

  test("a title is one line without control characters", async () => {
    const scene = new Scene();
    scene.screen.title("a\u001b[31mb\nc\u0007d");
    await scene.frame();
    expect(scene.terminal.screen.title).toBe("ab cd");
  });
});

test("close is safe twice, and nothing is drawn after it", async () => {
  const scene = new Scene();
  scene.show(["live"]);
  await scene.frame();
  await Promise.all([scene.screen.close(["last"]), scene.screen.close(["again"])]);
  scene.screen.commit(["late"]);
  scene.screen.redraw();
  await scene.frame();
  expect(scene.text).toBe("last");
  expect(scene.clock.pending).toBe(0);
});

test("a screen needs a terminal", () => {
  expect(() => Screen.open({ env: {}, terminal: () => null }, { clock: new FakeClock() })).toThrow(
    "terminal",
  );
});
