/** Runs a script of the agent shell: the process whose commands are those of the kernel and programs. */

import { z } from "zod";
import { messageOf } from "../../lib/error-detail.ts";
import { Semaphore } from "../../lib/semaphore.ts";
import { O_WRONLY, SyscallError } from "../../plugin/index.ts";
import type { OpenStep } from "../../run/open-step.ts";
import { parseScript } from "../../shell/parse.ts";
import { SessionState, Shell, type ShellHost, type ShellPipe, type Streams } from "../../shell/shell.ts";
import type { ToolCallRecord } from "../../store/runs/schema.ts";
import { AGENT_PATH } from "../../vfs/kernel-paths.ts";
import type { WorkflowScript } from "../../workflows/script.ts";
import { namedError } from "../errors/kernel-errors.ts";
import { onlyReads } from "../permission/harmless-commands.ts";
import type { Process } from "../process/process.ts";
import type { RunOutcome } from "../process/verdict.ts";
import { hasEnded } from "../resume/saved-run.ts";
import { exchange, stateOf } from "../tools/device-call.ts";
import { toolNamed } from "../tools/tool-catalog.ts";
import { beginStep, mayAct, recordStep } from "./script-step.ts";
import { isKernelCommand, type ShellParts, shellCommand } from "./shell-commands.ts";

/** Commands that run at the same time. */
const MAX_LIVE = 16;
/** Commands of one script. */
const MAX_COMMANDS = 10_000;
/** Maximum characters of one command's output, and of all commands' output together. */
const MAX_OUTPUT = 1024 ** 2;
const MAX_TOTAL = 16 * MAX_OUTPUT;
/** A program without a limit of its run ends after a day. */
const MAX_MS = 86_400_000;
const PIECE = 64 * 1024;

/** What `rnix sh` gives a script beside its text. */
const ScriptArgs = z.object({
  args: z.array(z.string()),
  stdin: z.string().optional(),
  /** The state that earlier lines of a session have set; null for its first line, absent outside of a session. */
  session: SessionState.nullable().optional(),
});

/** What a streamed command of /dev/shell gives. */
const Piece = z.union([
  z.object({ fd: z.union([z.literal(1), z.literal(2)]), text: z.string() }),
  z.object({ exit: z.number(), by: z.string().nullable() }),
]);

/** A command of the script as a call of its step: its id is its place in the script. */
type Command = Pick<ToolCallRecord, "id" | "name" | "input"> & { path: string };

/** Runs a command over these streams, and returns its exit code. */
type RunCommand = (streams: Streams) => Promise<number>;

/** The exit codes of a shell for commands that could not run; 1 for all others. */
const STATUSES: Readonly<Record<string, number>> = {
  PERMISSION: 126,
  NOT_FOUND: 127,
  INVALID: 2,
  EXHAUSTED: 2,
};

/**
 * The task of a script. Its one step stays open while it runs: the journal has each command by its place in the script,
 * with what it has printed and its exit code. After a suspension or a crash the script runs again from its beginning,
 * and a command that has ended gives what the journal has. One that was cut off runs again; an agent is resumed.
 */
export async function runShell(
  parts: ShellParts,
  proc: Process,
  script: WorkflowScript,
): Promise<RunOutcome> {
  // No message would be read.
  parts.inboxes.of(proc).close();
  try {
    return await new ShellRun(parts, proc, script).run();
  } catch (thrown) {
    if (proc.stopped) return { kind: "stopped", status: proc.stopped };
    return { kind: "broken", reason: "failed", error: namedError(thrown, "sh", proc.pid) };
  }
}

class ShellRun implements ShellHost {
  readonly #parts: ShellParts;
  readonly #proc: Process;
  readonly #script: WorkflowScript;
  readonly #live = new Semaphore(MAX_LIVE);
  /** Commands that ended before the script was cut off, by their ids. */
  #settled: ReadonlyMap<string, ToolCallRecord> = new Map();
  /** Commands that have ended in this process, or were found settled. */
  readonly #calls: ToolCallRecord[] = [];
  /** Characters that all commands have printed. */
  #total = 0;
  /** The output of the script itself. */
  #printed = "";
  /** The last line of its error output, while it is not complete. */
  #errorLine = "";

  constructor(parts: ShellParts, proc: Process, script: WorkflowScript) {
    this.#parts = parts;
    this.#proc = proc;
    this.#script = script;
  }

  async run(): Promise<RunOutcome> {
    const proc = this.#proc;
    const { name, source } = this.#script;
    const { openStep } = proc.run.takeCutOff();
    const { before } = proc.spec.progress ?? {};
    if (before && hasEnded(before) && !openStep)
      return usage("The script has ended: there is nothing to resume.", 64);
    const ts = await this.#begin(openStep);
    this.#parts.watchers.step(proc);
    let jobs: ReturnType<typeof parseScript>;
    try {
      jobs = parseScript(source, name);
    } catch (thrown) {
      return usage(messageOf(thrown), 2);
    }
    const { args, stdin = null, session } = ScriptArgs.parse(this.#script.args ?? { args: [] });
    const shell = new Shell(this, { name, args, env: proc.spec.opts.env, pid: proc.pid });
    const streams = { stdin, out: (text: string) => this.#out(text), err: (text: string) => this.#err(text) };
    const state = await shell.run(jobs, streams, session ?? undefined);
    if (this.#errorLine !== "") await this.#err("\n");
    proc.signal.throwIfAborted();
    if (ts !== null) recordStep(proc, ts, this.#printed, this.#calls);
    proc.result.answer(this.#printed);
    if (session !== undefined) proc.result.output = state;
    const { status } = state;
    if (status === 0) return { kind: "finished" };
    const error = new SyscallError("INVALID", `The script ended with ${status}.`);
    return { kind: "broken", reason: "failed", error, code: status };
  }

  /** Begins the step, or continues it. Returns when it began; null if it was cut off between its record and its end. */
  async #begin(openStep: OpenStep | null): Promise<string | null> {
    const proc = this.#proc;
    if (openStep) {
      proc.run.step = openStep.step;
      this.#settled = openStep.settled;
      this.#parts.waiting.restore(proc, openStep.waiting);
      return openStep.ts;
    }
    if (proc.run.recordedStep === 0) return beginStep(this.#parts, proc, { served: true });
    const { records } = await this.#parts.runs(proc.spec.opts.project.dataDir).steps(proc.uuid);
    this.#settled = new Map(records.flatMap(({ tool_calls }) => tool_calls.map((call) => [call.id, call])));
    return null;
  }

  async #out(text: string): Promise<void> {
    if (this.#printed.length + text.length > MAX_OUTPUT) throw tooLong("The script");
    this.#printed += text;
    if (text !== "")
      this.#parts.watchers.emit(this.#proc, { event: "text_delta", step: this.#proc.run.step, text });
  }

  async #err(text: string): Promise<void> {
    const lines = (this.#errorLine + text).split("\n");
    this.#errorLine = lines.pop() ?? "";
    if (lines.length > 0) this.#parts.watchers.notice(this.#proc, lines.join("\n"));
  }

  isCommand(argv: readonly string[]): boolean {
    return isKernelCommand(argv, (path) => this.isDevice(path));
  }

  isDevice(path: string): boolean {
    if (!/^\/(?:dev|proc)\//.test(path)) return false;
    try {
      this.#proc.spec.namespace.resolve(path);
      return true;
    } catch (thrown) {
      if (thrown instanceof SyscallError && thrown.code === "NOT_FOUND") return false;
      throw thrown;
    }
  }

  failure(thrown: unknown): { status: number; message: string } {
    if (this.#proc.stopped || !(thrown instanceof SyscallError)) throw thrown;
    return { status: STATUSES[thrown.code] ?? 1, message: `${this.#script.name}: ${thrown.message}` };
  }

  command(id: string, argv: readonly string[], streams: Streams): Promise<number> {
    const [name = "", ...args] = argv;
    const call =
      name === "spawn"
        ? { id, name: "Agent", path: AGENT_PATH, input: { intent: args.join(" ") } }
        : { id, name, path: "/dev/kernel/shell", input: { args } };
    return this.#once(call, streams, (to) =>
      shellCommand(this.#parts, this.#proc, { id, argv, script: this.#script.name }, to),
    );
  }

  programs(id: string, line: string, streams: Streams): Promise<number> {
    const target = toolNamed(this.#proc, "Bash");
    if (!target)
      throw new SyscallError("PERMISSION", `This run may not use Bash, which runs ${line.slice(0, 80)}.`);
    const { path } = target.entry;
    const call = { id, name: "Bash", path, input: { command: line } };
    return this.#once(call, streams, (to) => this.#bash(id, path, line, to));
  }

  /** Runs a line by /dev/shell under the rights of the run; its output comes as it is printed. */
  async #bash(id: string, path: string, command: string, { stdin, out, err }: Streams): Promise<number> {
    const { files, changes, children, networks } = this.#parts;
    const proc = this.#proc;
    await changes.begin(proc, onlyReads(command));
    const over = changes.call(proc);
    const ms = proc.spec.budget.limits.timeMs ?? MAX_MS;
    const input = { command };
    const by = { kind: "tool", tool: "Bash", callId: id, deadlineMs: ms, subject: command, input } as const;
    const text = JSON.stringify({ op: "stream", command, stdin: stdin ?? undefined });
    const hidden = { 1: proc.secrets.stream(), 2: proc.secrets.stream() };
    const late = `${command.slice(0, 80)} did not end within ${ms} ms.`;
    const request = { path, by, input: text, ms, late };
    try {
      return await exchange(files, proc, request, proc.work.signal, async (fd, signal) => {
        for (;;) {
          const piece = Piece.parse(JSON.parse(String(await files.readQuietly(proc, fd, PIECE, signal))));
          if ("exit" in piece) {
            await out(hidden[1].end());
            await err(hidden[2].end());
            return piece.exit;
          }
          await (piece.fd === 1 ? out : err)(hidden[piece.fd].push(piece.text));
        }
      });
    } finally {
      over();
      changes.settle(proc);
      networks.made?.takeRefused(proc);
      await children.endCall(proc.uuid, id);
    }
  }

  write(id: string, path: string, text: string, streams: Streams): Promise<number> {
    const call = { id, name: "write", path, input: { path } };
    return this.#once(call, streams, async () => {
      const { files } = this.#parts;
      const fd = await files.open(this.#proc, path, O_WRONLY);
      try {
        await files.write(this.#proc, fd, text);
      } finally {
        await files.close(this.#proc, fd);
      }
      return 0;
    });
  }

  /** A pipe of the kernel whose two ends this process has. */
  async pipe(): Promise<ShellPipe> {
    const { files, ipc } = this.#parts;
    const proc = this.#proc;
    const { readFd, writeFd } = await ipc().pipe(proc.pid, proc.pid);
    const decoder = new TextDecoder();
    return {
      write: (text) => (text === "" ? Promise.resolve() : files.write(proc, writeFd, text)),
      end: () => files.close(proc, writeFd),
      async read() {
        let text = "";
        for (;;) {
          const data = await files.readQuietly(proc, readFd, PIECE);
          if (data.length === 0) break;
          text += typeof data === "string" ? data : decoder.decode(data, { stream: true });
        }
        await files.close(proc, readFd);
        return text + decoder.decode();
      },
    };
  }

  /** Runs a command once. One that has ended prints what its record has. */
  async #once(command: Command, streams: Streams, run: RunCommand): Promise<number> {
    const settled = this.#settled.get(command.id);
    if (settled) {
      this.#calls.push(settled);
      await streams.out(settled.result ?? "");
      await streams.err(settled.error ?? "");
      return settled.exit_code ?? 1;
    }
    return this.#live.run(async () => {
      const record = await this.#run(command, streams, run);
      this.#calls.push(record);
      return record.exit_code ?? 1;
    });
  }

  /** Runs a command between its two lines in the journal. */
  async #run(call: Command, streams: Streams, run: RunCommand): Promise<ToolCallRecord> {
    const { clock, drain, waiting, watchers, asks } = this.#parts;
    const proc = this.#proc;
    if (this.#calls.length >= MAX_COMMANDS)
      throw new SyscallError("EXHAUSTED", `A script may run ${MAX_COMMANDS} commands.`);
    await mayAct(this.#parts, proc);
    const started = clock.now();
    const ts = new Date(started).toISOString();
    // `safe`: one that was cut off runs again.
    const n = proc.record.journal({ t: "call_start", step: proc.run.step, ts, ...call, safe: true });
    watchers.callBegun(proc, call, call.path, n);
    await proc.record.sync();
    waiting.count(proc, call.id);
    proc.run.acted = true;
    const printed = { result: "", error: "" };
    const into = (stream: "result" | "error", to: Streams["out"]) => async (text: string) => {
      this.#total += text.length;
      if (printed[stream].length + text.length > MAX_OUTPUT || this.#total > MAX_TOTAL)
        throw tooLong(call.name);
      printed[stream] += text;
      watchers.output(proc, call.id, text);
      await to(text);
    };
    const to = { stdin: streams.stdin, out: into("result", streams.out), err: into("error", streams.err) };
    let end: Pick<ToolCallRecord, "state" | "error_code" | "exit_code">;
    try {
      const exit_code = await drain.call(proc, call.id, () => run(to));
      end = { state: exit_code === 0 ? "done" : "failed", error_code: null, exit_code };
    } catch (thrown) {
      const { status, message } = this.failure(thrown);
      if (!(thrown instanceof SyscallError)) throw thrown;
      end = { state: stateOf(thrown), error_code: thrown.code, exit_code: status };
      printed.error += `${message}\n`;
      await streams.err(`${message}\n`);
    }
    // What was cut off runs again after a resume.
    proc.signal.throwIfAborted();
    const { asked } = asks.take(proc, call.id);
    const record: ToolCallRecord = {
      ...call,
      result: printed.result,
      error: printed.error || null,
      ...end,
      started_at: ts,
      duration_ms: clock.now() - started,
      ...(asked.length > 0 && { asked }),
    };
    const endedAt = new Date(clock.now()).toISOString();
    proc.record.journal({ t: "call_end", step: proc.run.step, ts: endedAt, call: record });
    watchers.callEnded(proc, record);
    return record;
  }
}

function usage(message: string, code: number): RunOutcome {
  return { kind: "broken", reason: "usage", error: new SyscallError("INVALID", message), code };
}

function tooLong(what: string): SyscallError {
  const text = `${what} printed more than ${MAX_OUTPUT} characters, or all together more than ${MAX_TOTAL}: let a program write to a file.`;
  return new SyscallError("EXHAUSTED", text);
}
