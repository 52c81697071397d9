/** How a command ended. */
export interface Result {
  stdout: string;
  stderr: string;
  /** As a shell has it: 128 and the signal's number for one that a signal ended. */
  code: number;
  ms: number;
}

export interface Command {
  argv: string[];
  cwd: string;
  env: Record<string, string>;
  /** A pipe that `text` is written to and closed, a file, or a pipe that stays open; by default none. */
  stdin?: { text: string } | { file: string } | "open";
}

/** Longer than any command of the tests takes: then it hangs, and is killed. */
const COMMAND_MS = 50_000;

/** A command that runs: its lines as they come, its stdin, signals to it, its end. */
export class Running {
  readonly pid: number;
  readonly stdout = new Lines();
  readonly stderr = new Lines();
  /** Rejects when it had to be killed because it did not end. */
  readonly done: Promise<Result>;
  readonly #process: Bun.Subprocess<Input, "pipe", "pipe">;

  constructor(command: Command) {
    const began = performance.now();
    const subprocess = Bun.spawn(command.argv, {
      cwd: command.cwd,
      env: command.env,
      stdin: inputOf(command.stdin),
      stdout: "pipe",
      stderr: "pipe",
      timeout: COMMAND_MS,
      killSignal: "SIGKILL",
    });
    this.#process = subprocess;
    this.pid = subprocess.pid;
    if (typeof command.stdin === "object" && "text" in command.stdin) {
      this.write(command.stdin.text);
      this.end();
    }
    const reads = [this.stdout.take(subprocess.stdout), this.stderr.take(subprocess.stderr)];
    this.done = Promise.all([subprocess.exited, ...reads]).then(([code]) => {
      const { stdout, stderr } = this;
      const result = { stdout: stdout.text, stderr: stderr.text, code, ms: performance.now() - began };
      if (subprocess.signalCode === "SIGKILL" && result.ms >= COMMAND_MS) throw hanging(command, result);
      return result;
    });
  }

  /** Processor time of the command that has ended. */
  get cpuMs(): number {
    return Number(this.#process.resourceUsage()?.cpuTime.total) / 1000;
  }

  /** To the command alone, not to what it started. */
  signal(name: NodeJS.Signals): void {
    this.#process.kill(name);
  }

  write(text: string): void {
    const stdin = this.#stdin();
    stdin.write(text);
    stdin.flush();
  }

  /** Closes stdin. */
  end(): void {
    this.#stdin().end();
  }

  #stdin(): Bun.FileSink {
    const { stdin } = this.#process;
    if (stdin === undefined || typeof stdin === "number") throw new Error("the command has no open stdin");
    return stdin;
  }
}

/** A command at a terminal of its own: what it shows, what is typed. */
export class AtTerminal {
  readonly pid: number;
  readonly done: Promise<{ screen: string; code: number }>;
  readonly #process: Bun.Subprocess;
  readonly #screen = new Waiting();
  readonly #decoder = new TextDecoder();

  constructor({ argv, cwd, env }: Omit<Command, "stdin">) {
    const closed = Promise.withResolvers<void>();
    this.#process = Bun.spawn(argv, {
      cwd,
      env: { ...env, TERM: "xterm-256color" },
      terminal: {
        cols: 100,
        rows: 40,
        data: (_, bytes) => this.#screen.add(this.#decoder.decode(bytes, { stream: true })),
        exit: () => closed.resolve(),
      },
      timeout: COMMAND_MS,
      killSignal: "SIGKILL",
    });
    this.pid = this.#process.pid;
    this.done = this.#process.exited.then(async (code) => {
      await closed.promise;
      this.#process.terminal?.close();
      this.#screen.end();
      return { screen: this.#screen.text, code };
    });
  }

  get screen(): string {
    return this.#screen.text;
  }

  /** Resolves with the match as soon as the screen has shown it. */
  shows(pattern: RegExp): Promise<string> {
    return this.#screen.match(pattern, "the terminal");
  }

  /** Keys as a person types them; "\x03" is Ctrl-C. */
  type(text: string): void {
    this.#process.terminal?.write(text);
  }

  signal(name: NodeJS.Signals): void {
    this.#process.kill(name);
  }

  /** Closes the terminal's window. */
  hangUp(): void {
    this.#process.terminal?.close();
  }
}

/** Text that arrives, and the waiting matches for parts of it. */
class Waiting {
  text = "";
  #ended = false;
  #waiting: (() => void)[] = [];

  add(piece: string): void {
    this.text += piece;
    this.#wake();
  }

  end(): void {
    this.#ended = true;
    this.#wake();
  }

  async match(pattern: RegExp, what: string): Promise<string> {
    for (;;) {
      const found = pattern.exec(this.text)?.[0];
      if (found !== undefined) return found;
      if (this.#ended) throw new Error(`${what} ended without ${pattern}:\n${this.text}`);
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

/** One stream of a running command. */
class Lines {
  readonly #waiting = new Waiting();

  get text(): string {
    return this.#waiting.text;
  }

  /** Resolves with the match as soon as the stream has brought it; rejects when it ends without. */
  has(pattern: RegExp): Promise<string> {
    return this.#waiting.match(pattern, "the output");
  }

  async take(stream: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    for await (const chunk of stream) this.#waiting.add(decoder.decode(chunk, { stream: true }));
    this.#waiting.end();
  }
}

type Input = "pipe" | "ignore" | Bun.BunFile;

function inputOf(stdin: Command["stdin"]): Input {
  if (stdin === undefined) return "ignore";
  return typeof stdin === "object" && "file" in stdin ? Bun.file(stdin.file) : "pipe";
}

function hanging({ argv }: Command, { stdout, stderr }: Result): Error {
  return new Error(
    `did not end within ${COMMAND_MS} ms and was killed: ${argv.join(" ")}\nstdout: ${stdout}\nstderr: ${stderr}`,
  );
}
