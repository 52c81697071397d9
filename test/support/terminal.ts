import { ScreenModel, type ScreenOptions } from "./screen-model.ts";

interface AtTerminalCommand {
  argv: string[];
  cwd: string;
  env: Record<string, string>;
}

/** Longer than any command of the tests takes: then it hangs, and is killed. */
const COMMAND_MS = 60_000;
const UNTIL_MS = 30_000;

/**
 * A program at a terminal of its own, with a model of its screen (xterm.js), which also answers the program's questions.
 *
 *     await using machine = new Machine();
 *     await using terminal = machine.terminal(["spawn", "count the files"], { columns: 80, rows: 24 });
 *     await terminal.until((text) => text.includes("Bash ls"));   // what is visible, as text
 *     terminal.type("also the hidden ones\r");                    // keys; "\x03" is Ctrl-C, "\x1b" is Esc
 *     terminal.paste("two\nlines");
 *     terminal.resize(60, 20);
 *     expect(terminal.screen.styled).toContain("<red>failed</>");
 *     const { code } = await terminal.done;
 *     expect(terminal.screen.transcript).toContain("the answer"); // scroll-back and screen
 *     await Bun.write("picture.svg", terminal.screen.svg());
 *
 * `screen` has the text, the scroll-back, the styles, the cursor, the title and the modes. `written` is everything that
 * the program wrote, for what no screen shows. Disposing kills the program.
 */
export class TerminalSession implements AsyncDisposable {
  readonly pid: number;
  readonly screen: ScreenModel;
  /** Resolves when the program has ended and all it wrote is on the screen. As a shell has it: 128 and the signal's number. */
  readonly done: Promise<{ code: number }>;
  /** When the program was started, and when its first byte came: performance.now(). */
  readonly startedAt: number;
  firstByteAt: number | undefined;
  readonly #process: Bun.Subprocess;
  readonly #decoder = new TextDecoder();
  readonly #waiting = new Set<() => void>();
  #ended = false;
  #shown: Promise<void> = Promise.resolve();
  written = "";

  constructor({ argv, cwd, env }: AtTerminalCommand, options: ScreenOptions = {}) {
    this.screen = new ScreenModel(options);
    const closed = Promise.withResolvers<void>();
    this.startedAt = performance.now();
    this.#process = Bun.spawn(argv, {
      cwd,
      env: { TERM: "xterm-256color", ...env },
      terminal: {
        cols: this.screen.columns,
        rows: this.screen.rows,
        data: (_, bytes) => this.#took(bytes),
        exit: () => closed.resolve(),
      },
      timeout: COMMAND_MS,
      killSignal: "SIGKILL",
    });
    this.pid = this.#process.pid;
    this.screen.onReply((text) => this.#send(text));
    this.screen.onChange(() => this.#wake());
    this.done = this.#process.exited.then(async (code) => {
      await closed.promise;
      this.#process.terminal?.close();
      await this.#shown;
      this.#ended = true;
      this.#wake();
      return { code };
    });
  }

  /** Keys as the terminal sends them. */
  type(keys: string): void {
    this.#send(keys);
  }

  /** Pastes as a terminal does: in brackets if the program asked for them. */
  paste(text: string): void {
    const { bracketedPaste } = this.screen.modes;
    const sent = text.replaceAll("\n", "\r");
    this.#send(bracketedPaste ? `\u001b[200~${sent}\u001b[201~` : sent);
  }

  resize(columns: number, rows: number): void {
    this.screen.resize(columns, rows);
    this.#process.terminal?.resize(columns, rows);
  }

  /** To the program alone. */
  signal(name: NodeJS.Signals): void {
    this.#process.kill(name);
  }

  /** Closes the terminal's window. */
  hangUp(): void {
    this.#process.terminal?.close();
  }

  /** Resolves with the screen's text as soon as the condition holds; rejects when it no longer can. */
  async until(
    condition: ((text: string) => boolean) | RegExp,
    { ms = UNTIL_MS }: { ms?: number } = {},
  ): Promise<string> {
    const holds = typeof condition === "function" ? condition : (text: string) => condition.test(text);
    const giveUp = Date.now() + ms;
    for (;;) {
      const { text } = this.screen;
      if (holds(text)) return text;
      if (this.#ended) throw new Error(`the program ended without ${condition}:\n${this.screen.transcript}`);
      if (Date.now() > giveUp)
        throw new Error(`the screen never had ${condition}:\n${this.screen.transcript}`);
      await this.#change(giveUp - Date.now());
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#ended) {
      this.#process.kill("SIGKILL");
      // Programs that it started may hold the terminal open.
      this.hangUp();
    }
    await this.#process.exited;
    await this.#shown;
    this.#ended = true;
    this.screen.dispose();
  }

  #took(bytes: Uint8Array): void {
    this.firstByteAt ??= performance.now();
    const text = this.#decoder.decode(bytes, { stream: true });
    this.written += text;
    this.#shown = this.screen.write(text);
  }

  #send(text: string): void {
    if (!this.#ended) this.#process.terminal?.write(text);
  }

  #change(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      const wake = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      this.#waiting.add(wake);
    });
  }

  #wake(): void {
    for (const wake of this.#waiting) wake();
  }
}
