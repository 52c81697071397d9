import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isAlive } from "../test/support/is-alive.ts";
import { ModelServer, type RecordedRequest, type Turn } from "../test/support/model-server/server.ts";
import { until } from "../test/support/until.ts";
import { type Command, cpuOf, rest, type Timing, timed } from "./measure.ts";

/** Tool calls of the long run. */
export const TURNS = 50;

/** What all figures stand on: the binary, the floors, two scripted models and folders of their own. */
export interface Place {
  rounds: number;
  floors: { hello: string; client: string };
  /** Answers at once, without a tool call. */
  oneTurn: ModelServer;
  /** Asks for 50 shell commands, one after the other, before it answers. */
  toolCalls: ModelServer;
  /** The same with commands that append to one of 30 files. */
  changingCalls: ModelServer;
  /** When the answer to each request of `toolCalls` was sent whole, by the request's index. */
  answeredAt: Map<number, number>;
  /** A user of its own, with a project. Its daemon is stopped at the end, whatever happens. */
  user(name: string): User;
}

export async function withPlace(
  o: { rnix: string; rounds: number },
  use: (place: Place) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "rnix-bench-"));
  const users = new Map<string, User>();
  const servers: ModelServer[] = [];
  try {
    const answeredAt = new Map<number, number>();
    const server = async (turn: (request: RecordedRequest) => Turn): Promise<ModelServer> => {
      const started = await ModelServer.start(turn);
      servers.push(started);
      return started;
    };
    const user = (name: string): User => {
      const user = users.get(name) ?? new User(o.rnix, join(folder, name));
      users.set(name, user);
      return user;
    };
    const oneTurn = await server(() => ({ text: "done" }));
    await timed(user("floor").spawn(oneTurn, "--no-daemon"));
    await use({
      rounds: o.rounds,
      floors: await compileFloors(folder, oneTurn.requests[0]?.text ?? ""),
      oneTurn,
      toolCalls: await server((request) => {
        void request.closed.then(() => answeredAt.set(request.index, performance.now()));
        const turn = request.assistantMessages;
        if (turn >= TURNS) return { text: "done" };
        return { tool_calls: [{ name: "Bash", input: { command: `echo ${turn}` } }] };
      }),
      changingCalls: await server(({ assistantMessages: turn }) =>
        turn >= TURNS
          ? { text: "done" }
          : { tool_calls: [{ name: "Bash", input: { command: `echo ${turn} >> f${turn % 30}` } }] },
      ),
      answeredAt,
      user,
    });
  } finally {
    for (const user of users.values()) await user.stopDaemon();
    for (const server of servers) await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

export class User {
  readonly #rnix: string;
  readonly #home: string;
  readonly #runtime: string;
  readonly #project: string;
  #daemonPid: number | undefined;

  constructor(rnix: string, folder: string) {
    this.#rnix = rnix;
    this.#home = join(folder, "home");
    this.#runtime = join(folder, "run");
    this.#project = join(folder, "project");
    for (const one of [this.#home, this.#runtime, join(this.#project, ".rnix")])
      mkdirSync(one, { recursive: true, mode: 0o700 });
    this.configure("");
  }

  /** Writes the user's own settings: those of a project that was not asked about raise no limit. */
  configure(yaml: string): void {
    const folder = join(this.#home, ".config/rnix");
    mkdirSync(folder, { recursive: true });
    // Measured without: a figure names its sandbox by a flag.
    writeFileSync(join(folder, "config.yaml"), `sandbox: off\n${yaml}`);
  }

  /** Makes the project a git work tree of this number of files, in folders of 50, older than its index. */
  makeWorkTree(files: number): void {
    const old = Date.now() / 1000 - 60;
    for (let i = 0; i < files; i++) {
      const folder = join(this.#project, i < 30 ? "." : `src/d${Math.floor(i / 50)}`);
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, `f${i}`), "export const value = 1;\n".repeat(40));
      utimesSync(join(folder, `f${i}`), old, old);
    }
    const identity = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
    for (const args of [
      ["init", "-q"],
      ["add", "-A"],
      [...identity, "commit", "-q", "-m", "all"],
    ]) {
      const { success, stderr } = Bun.spawnSync(["git", ...args], {
        cwd: this.#project,
        env: this.command([]).env,
      });
      if (!success) throw new Error(stderr.toString());
    }
  }

  /** A command line of rnix. */
  rnix(...args: string[]): Command {
    return this.command([this.#rnix, ...args]);
  }

  /** One run against this model. */
  spawn(server: ModelServer, ...flags: string[]): Command {
    const command = this.rnix("spawn", "--provider", "openai", "--model", "m", "-q", ...flags, "go");
    return { ...command, env: { ...command.env, OPENAI_BASE_URL: server.openaiUrl, OPENAI_API_KEY: "none" } };
  }

  command(argv: string[]): Command {
    return {
      argv,
      cwd: this.#project,
      env: {
        PATH: process.env.PATH ?? "/usr/bin:/bin",
        HOME: this.#home,
        XDG_RUNTIME_DIR: this.#runtime,
        XDG_CONFIG_HOME: join(this.#home, ".config"),
        XDG_DATA_HOME: join(this.#home, ".local/share"),
      },
    };
  }

  /** The daemon's PID; it is started when it does not run. */
  async daemon(): Promise<number> {
    if (this.#daemonPid !== undefined) return this.#daemonPid;
    await timed(this.rnix("daemon", "start"));
    const status: { pid: number } = JSON.parse((await timed(this.rnix("daemon", "status", "--json"))).stdout);
    this.#daemonPid = status.pid;
    return status.pid;
  }

  /** A command, with the CPU that it costs the daemon counted in. */
  async timedWithDaemon(command: Command): Promise<Timing> {
    const pid = await this.daemon();
    const before = cpuOf(pid);
    const timing = await timed(command);
    const cpuMs = timing.cpuMs + cpuOf(pid) - before;
    await rest(pid);
    return { ...timing, cpuMs };
  }

  async stopDaemon(): Promise<void> {
    this.#daemonPid = undefined;
    await timed(this.rnix("daemon", "stop"));
  }

  /** By kill -9: the next one sees to what it has left. */
  async killDaemon(): Promise<void> {
    const pid = await this.daemon();
    this.#daemonPid = undefined;
    process.kill(pid, "SIGKILL");
    await until(() => !isAlive(pid), "the daemon's end");
  }
}

/** `firstRequest`: as JSON, what Rnix asks a model at first. */
async function compileFloors(
  folder: string,
  firstRequest: string,
): Promise<{ hello: string; client: string }> {
  const compile = async (name: string): Promise<string> => {
    const outfile = join(folder, name);
    // As build.ts does it: a floor that reads more files at its start would be none.
    const built = await Bun.build({
      entrypoints: [join(import.meta.dir, "floor", `${name}.ts`)],
      target: "bun",
      format: "esm",
      minify: true,
      bytecode: true,
      define: { FIRST_REQUEST: firstRequest },
      compile: {
        outfile,
        autoloadDotenv: false,
        autoloadBunfig: false,
        autoloadTsconfig: false,
        autoloadPackageJson: false,
      },
    });
    if (!built.success) throw new AggregateError(built.logs, `the floor ${name} did not compile`);
    return outfile;
  };
  return { hello: await compile("hello"), client: await compile("client") };
}
