/** `rnix sh`: runs a line, a script or a session of the agent shell. */

import { basename, join } from "node:path";
import type { Receipt, StreamEvent } from "../../protocol/methods.ts";
import type { SessionState } from "../../shell/shell.ts";
import { defineCommand } from "../command.ts";
import { EXIT } from "../exit.ts";
import { absoluteFolder, textOf } from "../files/paths.ts";
import { type FlagValues, text } from "../flags.ts";
import { type Io, refuseInsideRun } from "../io.ts";
import { printable } from "../output/format.ts";
import { QuietView } from "../output/quiet-view.ts";
import { printRefused } from "../run/run.ts";
import { readAttached, readIntent, STDIN_FLAGS } from "../run/stdin.ts";
import { runWorkflow, WORKFLOW_FLAGS } from "./workflow.ts";

const FLAGS = {
  command: text("run this line; arguments after it are $0, $1 and so on", "LINE", { short: "c" }),
  ...STDIN_FLAGS,
  ...WORKFLOW_FLAGS,
};

/** A script with what its parameters are. */
interface Script {
  name: string;
  source: string;
  args: string[];
  /** How lists show it; absent: by its name. */
  line?: string;
  /** It came from stdin, which has no more to give. */
  isStdin?: true;
  session?: SessionState | null;
  detach?: boolean;
  ended?(receipt: Receipt): Promise<void>;
}

export default defineCommand({
  about: "Run a line, a script or a session of the agent shell: pipelines of agents and programs",
  args: [
    {
      name: "FILE",
      about: "a script; without one and -c, a session at a terminal, else stdin is the script",
      optional: true,
      file: true,
    },
    { name: "ARG", about: "what the script has as $1, $2 and so on", optional: true, many: true },
  ],
  passes: true,
  flags: FLAGS,
  examples: {
    'rnix sh -c \'spawn "find flaky tests" | spawn "fix each"\'':
      "the answer of one agent is the input of the next",
    "rnix sh ./nightly.sh src": "a script; #!/usr/bin/env -S rnix sh makes it a command",
    "rnix sh": "a session with history and completion",
  },
  notes: [
    "Commands of the kernel: spawn, wait, send, recall, call, ps, kill, cat of /proc and /dev. Any other word is a program, run by Bash under the rights of the run.",
    "Ctrl-C suspends the script; after that, or a kill -9, rnix resume PID runs no finished command twice.",
    "Exit codes: that of the last command; 2 for a line that can't be read, 126 for a refused command, 127 for an unknown one.",
  ],
  // Its lines are shown where they are refused.
  files: (_io, [file], { command }) => (command === undefined && file !== undefined ? { read: [file] } : {}),
  refused: printRefused,
  async run(io, flags, args) {
    if (flags.command === undefined && args.length === 0 && io.stdin.kind === "tty") return talk(io, flags);
    return runScript(io, flags, await scriptOf(io, flags, args));
  },
});

/** A session: each line is a run, which begins with the variables and the folder of the one before. */
async function talk(io: Io, flags: FlagValues<typeof FLAGS>): Promise<number> {
  await refuseInsideRun(io, "sh without a script");
  const [{ session }, { userPaths }] = await Promise.all([
    import("../shell/session.ts"),
    import("../../server/offline-commands.ts"),
  ]);
  return session(io, {
    cwd: absoluteFolder(io, "--cwd", flags.cwd ?? "."),
    history: join(userPaths(io.env).dataDir, "history", "sh.jsonl"),
    run: ({ line, state = null, background, ended }) =>
      runScript(io, flags, {
        name: "sh",
        source: line,
        args: [],
        line,
        isStdin: true,
        ended,
        session: state,
        detach: background || undefined,
      }),
  });
}

/** `-c LINE [NAME ARG…]` as in other shells, a file, or stdin. */
async function scriptOf(io: Io, flags: FlagValues<typeof FLAGS>, args: string[]): Promise<Script> {
  const [first, ...rest] = args;
  if (flags.command !== undefined)
    return { name: first ?? "sh", source: flags.command, args: rest, line: flags.command };
  if (first !== undefined)
    return { name: basename(first), source: await textOf(io, "FILE", first), args: rest };
  const source = await readIntent(io, { ...flags, asked: false, what: "script" });
  return { name: "sh", source, args: [], isStdin: true };
}

function runScript(io: Io, flags: FlagValues<typeof FLAGS>, script: Script): Promise<number> {
  const { name, source, args, line, isStdin, session, detach, ended } = script;
  return runWorkflow(io, flags, async () => ({
    workflow: { name, source, shell: true },
    intent: (line ?? `sh ${[name, ...args].join(" ")}`).slice(0, 500),
    shell: {
      args,
      session,
      detach,
      ended,
      stdin: async (of) => (isStdin ? { text: undefined, notices: [] } : readAttached(of, flags)),
      view: (of) => new ShellView(of),
    },
  }));
}

export class ShellView extends QuietView {
  #printed = "";

  constructor(io: Io) {
    super(io, { answer: true });
  }

  override show(event: StreamEvent): void {
    if (event.type === "text_delta") this.#print(event.payload.text);
    else if (event.type === "progress" && event.payload.event === "notice") this.say(event.payload.text);
    else if (event.type === "complete") {
      const { result, exit_code } = event.payload;
      // Of much output, a slow reader may have missed some.
      if (result?.startsWith(this.#printed)) this.#print(result.slice(this.#printed.length));
      // With a result the script has chosen its exit code itself.
      if (result === null && exit_code !== EXIT.ok) this.end(event.payload, { isQuiet: true, isShown: true });
    }
  }

  override say(text: string): void {
    const { stderr } = this.io;
    stderr.write(`${stderr.isTTY ? printable(text) : text}\n`);
  }

  #print(text: string): void {
    const { stdout } = this.io;
    this.#printed += text;
    stdout.write(stdout.isTTY ? printable(text) : text);
  }
}
