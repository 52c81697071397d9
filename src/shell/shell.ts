/** Runs the jobs of an agent shell script: it owns variables, folders and jobs; commands are the host's. */

import { z } from "zod";
import { SyscallError } from "../plugin/errors.ts";
import { type Field, fieldsOf, quoted, type Scope, textOf } from "./expand.ts";
import { type Job, type Pipeline, parseScript, RESERVED, type Redirect, type Stage } from "./parse.ts";

/** Where a command writes. `err`: its notes. */
export interface Streams {
  /** null: it has no input. */
  stdin: string | null;
  out(text: string): Promise<void>;
  err(text: string): Promise<void>;
}

/** A pipe between two commands: the reader waits for the end of the writer. */
export interface ShellPipe {
  write(text: string): Promise<void>;
  end(): Promise<void>;
  read(): Promise<string>;
}

/** What a shell reaches outside of it. An `id` names the place of a command: with the same one it runs once. */
export interface ShellHost {
  /** Runs a line of programs; returns its exit code. */
  programs(id: string, line: string, streams: Streams): Promise<number>;
  /** Runs a command of the kernel. */
  command(id: string, argv: readonly string[], streams: Streams): Promise<number>;
  isCommand(argv: readonly string[]): boolean;
  isDevice(path: string): boolean;
  /** Writes a text to a device. */
  write(id: string, path: string, text: string, streams: Streams): Promise<number>;
  pipe(): Promise<ShellPipe>;
  /** How a refused or failed command ends; rethrows what ends the script. */
  failure(thrown: unknown): { status: number; message: string };
}

/** What a session takes from one line to the next. `folder` is absolute, or "" for that of the run. */
export const SessionState = z.object({
  variables: z.array(z.tuple([z.string(), z.string()])),
  exported: z.array(z.string()),
  status: z.number(),
  folder: z.string(),
  exitsOnError: z.boolean(),
  /** The last line has called `exit`. */
  exited: z.boolean(),
});

export type SessionState = z.infer<typeof SessionState>;

interface State extends Omit<SessionState, "variables" | "exported"> {
  variables: Map<string, string>;
  exported: Set<string>;
  /** The exit code of the last substitution of a command. */
  substituted: number;
  jobs: Promise<number>[];
}

class Exit extends Error {
  readonly status: number;

  constructor(status: number) {
    super();
    this.status = status;
  }
}

/** A part of a pipeline that runs as one: a command of the kernel, or programs that bash connects. */
interface Segment {
  run(id: string, streams: Streams): Promise<number>;
  redirects: Opened[];
  state: State;
}

/** A redirection with its file. */
type Opened = Omit<Redirect, "target"> & { path: string; isDevice: boolean };

const NOTHING = "/dev/null";

const FRESH: SessionState = {
  variables: [],
  exported: [],
  status: 0,
  folder: "",
  exitsOnError: false,
  exited: false,
};

interface Script {
  name: string;
  args: readonly string[];
  env: Readonly<Record<string, string>>;
  pid: number;
}

/** One script with its arguments. */
export class Shell {
  readonly #host: ShellHost;
  readonly #script: Script;

  constructor(host: ShellHost, script: Script) {
    this.#host = host;
    this.#script = script;
  }

  /** Runs the script to the end of its last job; returns its exit code and what the next line of a session begins with. */
  async run(jobs: Job[], streams: Streams, before: SessionState = FRESH): Promise<SessionState> {
    const state: State = {
      ...before,
      variables: new Map(before.variables),
      exported: new Set(before.exported),
      substituted: 0,
      jobs: [],
    };
    const status = await this.#whole(jobs, state, "sh", streams);
    const { folder, exitsOnError, exited } = state;
    const [variables, exported] = [[...state.variables], [...state.exported]];
    return { variables, exported, status, folder, exitsOnError, exited };
  }

  /** Its background jobs end before it does. */
  async #whole(jobs: Job[], state: State, id: string, streams: Streams): Promise<number> {
    try {
      const status = await this.#inside(jobs, state, id, streams);
      await Promise.all(state.jobs);
      return status;
    } finally {
      await Promise.allSettled(state.jobs);
    }
  }

  /** The end of `exit` is that of these jobs. */
  async #inside(jobs: Job[], state: State, id: string, streams: Streams): Promise<number> {
    try {
      for (const [index, job] of jobs.entries()) await this.#job(job, state, `${id}.${index}`, streams);
      return state.status;
    } catch (thrown) {
      if (!(thrown instanceof Exit)) throw thrown;
      state.exited = true;
      return thrown.status;
    }
  }

  async #job({ pipelines, background }: Job, state: State, id: string, streams: Streams): Promise<void> {
    if (!background) return this.#list(pipelines, state, id, streams);
    const own = copyOf(state);
    const run = async (): Promise<number> => {
      try {
        await this.#list(pipelines, own, id, { ...streams, stdin: null });
        return own.status;
      } catch (thrown) {
        if (thrown instanceof Exit) return thrown.status;
        throw thrown;
      }
    };
    const job = run();
    // The script waits for it at its end.
    job.catch(() => undefined);
    state.jobs.push(job);
    state.status = 0;
  }

  async #list(pipelines: Pipeline[], state: State, id: string, streams: Streams): Promise<void> {
    for (const [index, pipeline] of pipelines.entries()) {
      if (pipeline.after === "&&" && state.status !== 0) continue;
      if (pipeline.after === "||" && state.status === 0) continue;
      const status = await this.#pipeline(pipeline, state, `${id}.${index}`, streams);
      state.status = pipeline.negated ? Number(status === 0) : status;
      const isLast = index === pipelines.length - 1 && !pipeline.negated;
      if (state.exitsOnError && isLast && state.status !== 0) throw new Exit(state.status);
    }
  }

  async #pipeline({ stages }: Pipeline, state: State, id: string, streams: Streams): Promise<number> {
    // A command in a pipe has variables of its own.
    const own = stages.length === 1 ? state : copyOf(state);
    return this.#orFailure(streams, async () => {
      const segments: Segment[] = [];
      let lines: string[] = [];
      const endLines = (): void => {
        if (lines.length > 0) segments.push(this.#programs(lines.join(" | "), own));
        lines = [];
      };
      for (const [index, stage] of stages.entries()) {
        const read = await this.#stage(stage, own, this.#scope(own, `${id}.${index}`, streams));
        if (typeof read === "string") lines.push(read);
        else {
          endLines();
          segments.push(read);
        }
      }
      endLines();
      return await this.#connected(segments, id, streams);
    });
  }

  /** Runs the segments at the same time, each behind a pipe from the one before; the last exit code counts. */
  async #connected(segments: Segment[], id: string, streams: Streams): Promise<number> {
    const pipes = await Promise.all(segments.slice(1).map(() => this.#host.pipe()));
    const ends = segments.map(async (segment, index) => {
      const [from, to] = [pipes[index - 1], pipes[index]];
      const stdin = from ? await from.read() : streams.stdin;
      const out = to ? (text: string) => to.write(text) : streams.out;
      const inner = { ...streams, stdin, out };
      try {
        return await this.#orFailure(inner, () => this.#redirected(segment, `${id}.${index}`, inner));
      } catch (thrown) {
        if (thrown instanceof Exit && segments.length > 1) return thrown.status;
        throw thrown;
      } finally {
        await to?.end();
      }
    });
    const settled = await Promise.allSettled(ends);
    for (const one of settled) if (one.status === "rejected") throw one.reason;
    return ends.at(-1) ?? 0;
  }

  async #orFailure({ err }: Streams, run: () => Promise<number>): Promise<number> {
    try {
      return await run();
    } catch (thrown) {
      if (thrown instanceof Exit) throw thrown;
      const { status, message } = this.#host.failure(thrown);
      await err(`${message}\n`);
      return status;
    }
  }

  /** What the command becomes: a line for bash, or a command of the shell or the kernel. */
  async #stage({ assigns, words, redirects }: Stage, state: State, scope: Scope): Promise<string | Segment> {
    state.substituted = 0;
    const fields: Field[] = [];
    for (const word of words) fields.push(...(await fieldsOf(word, scope)));
    const values: [string, string][] = [];
    for (const { name, value } of assigns) values.push([name, await textOf(value, scope)]);
    const opened: Opened[] = [];
    for (const { target, ...redirect } of redirects) {
      const path = await textOf(target, scope);
      opened.push({ ...redirect, path, isDevice: redirect.operator !== ">&" && this.#host.isDevice(path) });
    }
    const argv = fields.map(({ text }) => text);
    const [name = ""] = argv;
    const own = OWN.get(name);
    const run = own
      ? () => own(argv.slice(1), state)
      : this.#host.isCommand(argv)
        ? (id: string, streams: Streams) => this.#host.command(id, argv, streams)
        : undefined;
    if (name === "cd" || name === "wait")
      return { run: this.#place(argv, fields, state), redirects: opened, state };
    if (run) return { run, redirects: opened, state };
    if (fields.length === 0 && opened.length === 0) {
      for (const [variable, value] of values) state.variables.set(variable, value);
      return { run: async () => state.substituted, redirects: [], state };
    }
    const line = lineOf(fields, [...exportedOf(state), ...values], opened);
    const devices = opened.filter(({ isDevice }) => isDevice);
    return devices.length > 0 ? { ...this.#programs(line, state), redirects: devices } : line;
  }

  #programs(line: string, state: State): Segment {
    const { folder } = state;
    const there = folder === "" ? line : `cd ${quoted(folder)} && ${line}`;
    return { run: (id, streams) => this.#host.programs(id, there, streams), redirects: [], state };
  }

  /** `cd`, which bash resolves, and `wait`, for jobs of this script and processes. */
  #place(argv: string[], [, to]: Field[], state: State): Segment["run"] {
    if (argv[0] === "cd") {
      return async (id, streams) => {
        const printed = new Collected();
        const isBack = to?.text === "-";
        const last = state.variables.get("OLDPWD");
        if (isBack && !last) throw new SyscallError("DRIVER", "cd: there is no folder before this one");
        const target = isBack && last ? quoted(last) : (to?.line ?? '"$HOME"');
        const segment = this.#programs(`pwd && cd ${target} && pwd`, state);
        const status = await segment.run(id, { ...streams, out: printed.add });
        if (status !== 0) return status;
        const [before = "", after = ""] = printed.text.split("\n");
        state.variables.set("OLDPWD", before).set("PWD", after);
        state.folder = after;
        if (isBack) await streams.out(`${after}\n`);
        return status;
      };
    }
    return async (id, streams) => {
      const [, ...names] = argv;
      if (names.length === 0) await Promise.all(state.jobs);
      let status = 0;
      for (const name of names) {
        const job = /^%\d+$/.test(name) ? state.jobs[Number(name.slice(1)) - 1] : undefined;
        status = await (job ??
          this.#host.command(`${id}.${name.replace(/\W/g, "")}`, ["wait", name], streams));
      }
      return status;
    };
  }

  async #redirected({ run, redirects, state }: Segment, id: string, streams: Streams): Promise<number> {
    let { stdin, out, err } = streams;
    const files: { to: Opened; printed: Collected }[] = [];
    for (const to of redirects) {
      if (to.operator === "<") stdin = await this.#read(to, `${id}.r`, state, streams);
      else if (to.operator === ">&") {
        if (to.fd === 2 && to.path === "1") err = out;
        else if (to.fd === 1 && to.path === "2") out = err;
      } else {
        const printed = new Collected();
        files.push({ to, printed });
        if (to.fd === 1) out = printed.add;
        else err = printed.add;
      }
    }
    const status = await run(id, { stdin, out, err });
    let written = 0;
    for (const [index, { to, printed }] of files.entries())
      written ||= await this.#write(to, printed.text, `${id}.w${index}`, state, streams);
    return status || written;
  }

  async #read({ path, isDevice }: Opened, id: string, state: State, streams: Streams): Promise<string> {
    const printed = new Collected();
    const to = { ...streams, stdin: null, out: printed.add };
    const status = isDevice
      ? await this.#host.command(id, ["cat", path], to)
      : await this.#programs(`cat < ${quoted(path)}`, state).run(id, to);
    if (status !== 0) throw new SyscallError("DRIVER", `${path} can't be read.`);
    return printed.text;
  }

  async #write(
    { operator, path, isDevice }: Opened,
    text: string,
    id: string,
    state: State,
    streams: Streams,
  ): Promise<number> {
    if (path === NOTHING) return 0;
    if (!isDevice)
      return this.#programs(`cat ${operator} ${quoted(path)}`, state).run(id, { ...streams, stdin: text });
    return this.#host.write(id, path, text, streams);
  }

  #scope(state: State, id: string, streams: Streams): Scope {
    const { name: script, args, env, pid } = this.#script;
    let count = 0;
    return {
      args,
      parameter: (name) => {
        if (/^\d+$/.test(name)) return name === "0" ? script : args[Number(name) - 1];
        if (name === "?") return String(state.status);
        if (name === "#") return String(args.length);
        if (name === "@" || name === "*") return args.join(" ");
        if (name === "$") return String(pid);
        if (name === "!") return state.jobs.length > 0 ? `%${state.jobs.length}` : undefined;
        return state.variables.get(name) ?? env[name];
      },
      substitute: async (commands) => {
        const printed = new Collected();
        const jobs = parseScript(commands, "$(…)");
        const inner = { ...streams, stdin: null, out: printed.add };
        const own = { ...copyOf(state), jobs: [] };
        state.substituted = await this.#whole(jobs, own, `${id}.s${count++}`, inner);
        return printed.text;
      },
    };
  }
}

/** The commands that change the shell itself. */
const OWN_COMMANDS: Record<string, (args: string[], state: State) => Promise<number>> = {
  ":": async () => 0,
  true: async () => 0,
  false: async () => 1,
  async exit([code], { status }) {
    if (code !== undefined && !/^\d+$/.test(code)) throw wrong(`exit: expected a number, got ${code}`);
    throw new Exit(code === undefined ? status : Number(code) % 256);
  },
  async export(args, { variables, exported }) {
    for (const arg of args) {
      const [, name, value] = /^([A-Za-z_]\w*)(?:=(.*))?$/s.exec(arg) ?? [];
      if (name === undefined) throw wrong(`export: expected NAME or NAME=value, got ${arg}`);
      if (value !== undefined) variables.set(name, value);
      exported.add(name);
    }
    return 0;
  },
  async unset(args, { variables }) {
    for (const name of args) variables.delete(name);
    return 0;
  },
  async set([flag, ...more], state) {
    if (!/^[-+]e$/.test(flag ?? "") || more.length > 0) throw wrong("set: expected -e or +e");
    state.exitsOnError = flag === "-e";
    return 0;
  },
};
const OWN = new Map(Object.entries(OWN_COMMANDS));

/** What a command prints, for a file or a word. */
class Collected {
  text = "";
  readonly add = async (piece: string): Promise<void> => {
    this.text += piece;
  };
}

function wrong(message: string): SyscallError {
  return new SyscallError("INVALID", message);
}

function copyOf(state: State): State {
  const { variables, exported, jobs } = state;
  return { ...state, variables: new Map(variables), exported: new Set(exported), jobs: [...jobs] };
}

function exportedOf({ variables, exported }: State): [string, string][] {
  return [...exported].flatMap((name) => {
    const value = variables.get(name);
    return value === undefined ? [] : [[name, value] as [string, string]];
  });
}

/** The command as bash reads it; a device is connected outside of it. */
function lineOf(fields: Field[], values: [string, string][], opened: Opened[]): string {
  const [first, ...rest] = fields;
  const name = first && (RESERVED.has(first.line) ? `'${first.line}'` : first.line);
  const files = opened.flatMap(({ fd, operator, path, isDevice }) =>
    isDevice ? [] : `${fd}${operator}${operator === ">&" ? path : ` ${quoted(path)}`}`,
  );
  return [
    ...values.map(([variable, value]) => `${variable}=${quoted(value)}`),
    ...(name === undefined ? [] : [name]),
    ...rest.map(({ line }) => line),
    ...files,
  ].join(" ");
}
