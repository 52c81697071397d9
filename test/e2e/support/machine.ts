import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { failAtTheEnd } from "../../support/at-the-end.ts";
import { isAlive } from "../../support/is-alive.ts";
import type { Script, Turn } from "../../support/model-server/script.ts";
import { ModelServer, type TurnFunction } from "../../support/model-server/server.ts";
import type { ScreenOptions } from "../../support/screen-model.ts";
import { TerminalSession } from "../../support/terminal.ts";
import { until } from "../../support/until.ts";
import { binary } from "./binary.ts";
import { filesBelow, isGone, processesOf, strayFiles, textOf } from "./leftovers.ts";
import { AtTerminal, type Command, type Result, Running } from "./running.ts";
import { type Book, scenes } from "./scenes.ts";

interface MachineOptions {
  /** The project is a git repository with one commit. */
  git?: boolean;
}

export interface RunOptions extends Pick<Command, "stdin"> {
  /** Added to the machine's; undefined removes a variable. */
  env?: Record<string, string | undefined>;
  /** The project by default. */
  cwd?: string;
  /** Another rnix than the one that is tested. */
  rnix?: string;
}

export interface TerminalOptions extends Omit<RunOptions, "stdin">, ScreenOptions {}

/** A temporary file of a document's replacement is one of them: it stays when its writer was killed. */
const DAEMONS_OWN =
  /^file (run\/rnix\/rnix\.(sock|pid|lock)|data\/rnix\/(kernels\/[^/]+|children\/[^/]+\.jsonl|(recovery\.|gc\/)lock)|(.*\/)?~[^/]*\.tmp)$/;

const UNTIL_MS = 50_000;
const BETWEEN_COMMANDS_MS = 50;

/**
 * Short deadlines where something hangs, so that a test ends in seconds; long ones where a busy machine is slow.
 * Timers of the daemon that no test needs are long.
 */
const FOR_TESTS = {
  grace: "1s",
  drain: "none",
  daemon_idle_stop: "60s",
  socket_wait: "20s",
  mcp_mount_timeout: "20s",
  retention_every: "unlimited",
  model_retries: 2,
  // Conversations ask by default; most tests are about something else.
  ask: "off",
  // Commands of tests have no terminal, and many tests look at programs, their PIDs and their files from outside.
  sandbox: "off",
};

/**
 * A computer of its own for one test: home, runtime, configuration, data, temporary and project folders in
 * one temporary folder, and an environment without the variables of the tests' own shell. Disposing it stops the
 * daemon and fails the test when anything is left: a process, a socket, a lock, a ledger, a temporary file.
 */
export class Machine implements AsyncDisposable {
  readonly root = realpathSync(mkdtempSync(join(tmpdir(), "rnix-e2e-")));
  readonly project = join(this.root, "project");
  /** A folder outside the project. */
  readonly elsewhere = join(this.root, "elsewhere");
  readonly home = join(this.root, "home");
  readonly configDir = join(this.root, "config", "rnix");
  readonly dataDir = join(this.root, "data", "rnix");
  readonly temp = join(this.root, "tmp");
  readonly socket = join(this.root, "run", "rnix", "rnix.sock");
  /** What every command here gets. */
  readonly env: Record<string, string> = {
    PATH: pathWithoutModels(process.env.PATH ?? "/usr/bin:/bin"),
    HOME: this.home,
    TMPDIR: this.temp,
    XDG_RUNTIME_DIR: join(this.root, "run"),
    XDG_CONFIG_HOME: dirname(this.configDir),
    XDG_DATA_HOME: dirname(this.dataDir),
    // No server listens there: a model server of the developer's machine is not found.
    OLLAMA_HOST: "127.0.0.1:1",
  };
  /** Starts every command, such as a program that gives it its own mounts. */
  wrapper: string[] = [];
  readonly #models: ModelServer[] = [];

  constructor({ git = false }: MachineOptions = {}) {
    for (const folder of [
      this.project,
      this.elsewhere,
      this.home,
      this.temp,
      this.configDir,
      dirname(this.dataDir),
    ]) {
      mkdirSync(folder, { recursive: true });
    }
    mkdirSync(join(this.root, "run"), { mode: 0o700 });
    chmodSync(this.root, 0o700);
    this.config({});
    if (git) this.#makeRepository();
  }

  /** A machine with a scripted model, whose requests the test does not look at. */
  static async playing(book: Book, options: MachineOptions = {}): Promise<Machine> {
    const machine = new Machine(options);
    await machine.play(book);
    return machine;
  }

  /** The user's config.yaml: deadlines set to seconds, and whatever a test wants. */
  config(settings: Record<string, unknown>): void {
    const lines = Object.entries({ ...FOR_TESTS, ...settings });
    this.write(
      join(this.configDir, "config.yaml"),
      lines.map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`).join(""),
    );
  }

  /** A scripted model for the following commands, with OpenAI's protocol, or another by a flag. */
  async model(script: Script | Turn[] | TurnFunction): Promise<ModelServer> {
    const model = await ModelServer.start(script);
    this.#models.push(model);
    Object.assign(this.env, {
      OPENAI_BASE_URL: model.openaiUrl,
      OPENAI_API_KEY: OPENAI_KEY,
      ANTHROPIC_BASE_URL: model.url,
      ANTHROPIC_API_KEY: ANTHROPIC_KEY,
      GOOGLE_GEMINI_BASE_URL: model.url,
      GEMINI_API_KEY: GOOGLE_KEY,
      RNIX_PROVIDER: "openai",
      RNIX_MODEL: "m",
    });
    return model;
  }

  /** A scripted model that plays a scene for each request. */
  play(book: Book): Promise<ModelServer> {
    return this.model(scenes(book));
  }

  /** Runs `rnix` to its end. */
  async run(args: string[], options: RunOptions = {}): Promise<Result> {
    return this.start(args, options).done;
  }

  /** Runs `rnix` to its end, which is 0: otherwise fails with what it printed. */
  async ok(args: string[], options: RunOptions = {}): Promise<Result> {
    const result = await this.run(args, options);
    if (result.code === 0) return result;
    throw new Error(`rnix ${args.join(" ")} ended with ${result.code}:\n${result.stdout}${result.stderr}`);
  }

  /** Runs `rnix` to its end; what it prints is JSON. */
  async json(args: string[], options: RunOptions = {}): Promise<ReturnType<typeof JSON.parse>> {
    return JSON.parse((await this.run(args, options)).stdout);
  }

  /** Runs `rnix` repeatedly, until its output matches. */
  async until(args: string[], pattern: RegExp): Promise<string> {
    const giveUp = performance.now() + UNTIL_MS;
    for (;;) {
      const { stdout, stderr } = await this.run(args);
      if (pattern.test(stdout)) return stdout;
      if (performance.now() > giveUp)
        throw new Error(`rnix ${args.join(" ")} never said ${pattern}:\n${stdout}${stderr}`);
      // What it waits for needs the processor, too.
      await Bun.sleep(BETWEEN_COMMANDS_MS);
    }
  }

  /** Runs `rnix` and reads along. */
  start(args: string[], options: RunOptions = {}): Running {
    return new Running({ ...this.#command(args, options), stdin: options.stdin });
  }

  /** Runs `rnix` at a terminal. */
  startAtTerminal(args: string[], options: Omit<RunOptions, "stdin"> = {}): AtTerminal {
    return new AtTerminal(this.#command(args, options));
  }

  /** Runs `rnix` at a terminal whose screen is modelled. */
  terminal(args: string[], { columns, rows, reflow, ...options }: TerminalOptions = {}): TerminalSession {
    return new TerminalSession(this.#command(args, options), { columns, rows, reflow });
  }

  /** Writes a file of the project, or one with an absolute path; returns its path. */
  write(path: string, text: string): string {
    const file = path.startsWith("/") ? path : join(this.project, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    return file;
  }

  /** Defines an agent of the project. */
  agent(name: string, yaml: string, instructions: string): void {
    this.write(`agents/${name}/agent.yaml`, yaml);
    this.write(`agents/${name}/instructions.md`, instructions);
  }

  /** Reads a file of the project, or one with an absolute path. */
  read(path: string): string {
    return readFileSync(path.startsWith("/") ? path : join(this.project, path), "utf8");
  }

  has(path: string): boolean {
    return existsSync(path.startsWith("/") ? path : join(this.project, path));
  }

  /** Waits until a program of a run has made the file `held`. */
  held(): Promise<void> {
    return until(() => this.has("held"), "the held call");
  }

  remove(path: string): void {
    rmSync(path.startsWith("/") ? path : join(this.project, path), { recursive: true });
  }

  /** Files anywhere on the machine that hold the text, relative to its folder. */
  search(text: string): string[] {
    const files = filesBelow(this.root).filter((path) =>
      lstatSync(path, { throwIfNoEntry: false })?.isFile(),
    );
    return files.filter((path) => textOf(path)?.includes(text)).map((path) => relative(this.root, path));
  }

  git(...args: string[]): string {
    const identity = [
      "-c",
      "user.name=test",
      "-c",
      "user.email=test@localhost",
      "-c",
      "commit.gpgsign=false",
    ];
    const done = Bun.spawnSync(["git", ...identity, ...args], { cwd: this.project, env: this.env });
    if (!done.success) throw new Error(`git ${args.join(" ")}: ${done.stderr}`);
    return done.stdout.toString();
  }

  /** Commits everything in the project. */
  commit(message: string): void {
    this.git("add", "--all");
    this.git("commit", "--quiet", "--message", message);
  }

  /** null while no daemon runs. */
  get daemonPid(): number | null {
    const written = textOf(this.socket.replace(/\.sock$/, ".pid")) ?? "";
    // It is made before it is written.
    return written.endsWith("\n") ? Number(written) : null;
  }

  /** `kill -9`; its end is not waited for. Returns its PID. */
  killDaemon(): number {
    const pid = this.daemonPid;
    if (pid === null) throw new Error("no daemon runs");
    process.kill(pid, "SIGKILL");
    return pid;
  }

  /** `kill -9`, and its end. */
  async endDaemon(): Promise<void> {
    const pid = this.killDaemon();
    await until(() => !isAlive(pid), "the daemon's end");
  }

  /** Everything that is there and should not be, once no rnix is to run any more. */
  leftovers(): string[] {
    const processes = processesOf(this.root).map(({ pid, command }) => `process ${pid}: ${command}`);
    return [...processes, ...strayFiles(this.root).map((path) => `file ${path}`)];
  }

  /** The same while the daemon may run: it has a socket, a lock and a ledger, and keeps MCP servers for a minute. */
  strays(): string[] {
    const daemon = this.daemonPid;
    const own = (one: string): boolean =>
      one.startsWith(`process ${daemon}:`) || one.includes("/mcp-server/main.ts");
    return this.leftovers().filter((one) => !DAEMONS_OWN.test(one) && !own(one));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const problems = await this.close();
    if (problems.length === 0) return;
    failAtTheEnd(`left behind:\n${problems.join("\n")}`);
  }

  /** Ends everything; returns what was left. */
  async close(): Promise<string[]> {
    const problems: string[] = [];
    problems.push(...(await this.#stopDaemons()));
    for (const model of this.#models) await model.stop();
    problems.push(...this.leftovers());
    if (problems.length > 0) problems.push(`the daemon's log:\n${this.#daemonLog()}`);
    for (const { pid } of processesOf(this.root)) killed(pid);
    rmSync(this.root, { recursive: true, force: true });
    return problems;
  }

  /** A second daemon may still be starting, and would replace the first when that has stopped. */
  async #stopDaemons(): Promise<string[]> {
    const giveUp = performance.now() + UNTIL_MS;
    for (;;) {
      const { code, stderr } = await this.run(["daemon", "stop"], { env: { RNIX_UNIT: undefined } });
      if (code !== 0) return [`daemon stop ended with ${code}: ${stderr}`];
      const isLeft = processesOf(this.root).some(({ command }) => command === "rnix daemon --internal");
      if (!isLeft || performance.now() > giveUp) return [];
    }
  }

  #command(args: string[], { env, cwd, rnix }: RunOptions): Omit<Command, "stdin"> {
    const merged = Object.entries({ ...this.env, ...env });
    return {
      argv: [...this.wrapper, rnix ?? binary(), ...args],
      cwd: cwd ?? this.project,
      env: Object.fromEntries(
        merged.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
      ),
    };
  }

  #makeRepository(): void {
    this.git("init", "--quiet", "--initial-branch", "main");
    this.write("README.md", "A project.\n");
    this.commit("begin");
  }

  #daemonLog(): string {
    const file = join(this.dataDir, "daemon.log");
    return existsSync(file) ? readFileSync(file, "utf8").slice(-4000) : "(none)";
  }
}

/** A process that has ended meanwhile is no error. */
function killed(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (thrown) {
    if (!isGone(thrown)) throw thrown;
  }
}

/** Without the folders of programs that would be found as a model. */
function pathWithoutModels(path: string): string {
  const folders = path.split(":");
  const holds = (folder: string): boolean =>
    ["claude", "cursor-agent"].some((name) => existsSync(join(folder, name)));
  return folders.filter((folder) => !holds(folder)).join(":");
}

/** Long enough to be found in any file or output. */
export const OPENAI_KEY = "sk-scripted-openai-key";
export const ANTHROPIC_KEY = "sk-scripted-anthropic-key";
export const GOOGLE_KEY = "scripted-google-key";
