/** The driver of /dev/shell, which runs commands. */

import { existsSync } from "node:fs";
import {
  type Child,
  type Data,
  definePlugin,
  type ExitInfo,
  type FileStat,
  type OpenContext,
  SyscallError,
  type ToolDef,
  type UnitRequest,
  type VFSFile,
} from "rnix/plugin";
import { CommandOutput, collect } from "./_lib/command-output.ts";
import { isObject } from "./_lib/json.ts";

const BASH: ToolDef = {
  name: "Bash",
  op: "bash",
  subject: "command",
  description:
    "Run a shell command in the working folder; returns stdout and stderr. Each call is a new shell without input. When it ends or times out, its background processes end too.",
  input: {
    type: "object",
    properties: {
      command: { type: "string", minLength: 1 },
      timeout_ms: { type: "integer", minimum: 1, description: "Default and maximum: usually 120000." },
      description: { type: "string" },
      run_in_background: { type: "boolean", description: "Its end is a message." },
    },
    required: ["command"],
    additionalProperties: false,
  },
  // The driver itself cuts the output to about 30,000 characters.
  maxResult: 32_000,
  annotations: { destructiveHint: true, openWorldHint: true },
};

const MONITOR: ToolDef = {
  name: "Monitor",
  op: "monitor",
  subject: "command",
  description:
    "Watch a command in the background, such as `tail -f log` or a loop: each line that it prints is an event for you. Lines that come together are one event. It lives as long as you, unless you give timeout_ms.",
  input: {
    type: "object",
    properties: {
      command: { type: "string", minLength: 1 },
      description: { type: "string" },
      persistent: { type: "boolean", description: "It has no time limit." },
      timeout_ms: { type: "integer", minimum: 1 },
    },
    required: ["command"],
    additionalProperties: false,
  },
  defer: true,
  annotations: { destructiveHint: true, openWorldHint: true },
};

/** A monitor that prints nothing for this long reports that, once. */
const STALL_MS = 600_000;

/** /dev/shell (seeds 2.4): a write runs one command, and reads return its output. */
export default definePlugin({
  name: "shell",
  api: 1,
  needs: ["exec", "units"],
  devices: {
    "/dev/shell": { tools: [BASH, MONITOR], factory: (_subpath, _flags, context) => new ShellFile(context) },
  },
});

/** The default when neither the call nor the command sets a limit, the same as of a tool call. */
const DEFAULT_TIMEOUT_MS = 120_000;
/** The part of the call's deadline for ending the command and answering: at most a tenth of it. */
const MARGIN_MS = 1_000;
interface Command {
  command: string;
  description: string;
  timeoutMs?: number;
  /** It becomes a background unit. */
  unit?: Pick<UnitRequest, "kind" | "description" | "persistent">;
  /** Of the agent shell: its input. `read` then gives its output as it comes, in lines of JSON. */
  stream?: { stdin: string | undefined };
}

class ShellFile implements VFSFile {
  readonly #context: OpenContext;
  #child: Child | undefined;
  #about: Pick<UnitRequest, "command" | "description"> = { command: "", description: "" };
  #timeoutMs = DEFAULT_TIMEOUT_MS;
  #answer: string | undefined;
  /** Of a streamed command: the decoders of its outputs. */
  #decoders: Record<1 | 2, TextDecoder> | undefined;
  #at = 0;
  #closed = false;

  constructor(context: OpenContext) {
    this.#context = context;
  }

  /** Starts the command; `read` waits for its output. */
  async write(data: Data, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#child) {
      const message = "/dev/shell: a command is running. Read its output to the end first.";
      throw new SyscallError("INVALID", message);
    }
    const text = typeof data === "string" ? data : new TextDecoder().decode(data);
    const { command, description, timeoutMs, unit, stream } = parse(text);
    this.#at = 0;
    this.#about = { command, description };
    if (unit !== undefined) {
      this.#answer = await this.#startUnit(command, unit, timeoutMs);
      return;
    }
    const { exec, env, call } = this.#context;
    if (!exec)
      throw new SyscallError("UNAVAILABLE", "/dev/shell: programs can't be started here (no exec service).");
    const longest = call?.deadlineMs ?? Number.POSITIVE_INFINITY;
    const most = longest - Math.min(MARGIN_MS, longest / 10);
    const wanted = timeoutMs ?? call?.deadlineMs ?? DEFAULT_TIMEOUT_MS;
    this.#timeoutMs = Math.max(1, Math.floor(Math.min(wanted, most)));
    this.#answer = undefined;
    this.#child = await exec({
      // One pipe for both streams keeps their order. On the same line, so that line numbers in errors are right.
      argv: [shellOf(env), "-c", "--", stream ? command : `exec 2>&1; ${command}`],
      cwd: this.#context.cwd,
      timeoutMs: this.#timeoutMs,
      life: "call",
      ...(stream?.stdin !== undefined && { stdin: stream.stdin }),
    });
    this.#decoders = stream && { 1: new TextDecoder(), 2: new TextDecoder() };
    // The call was cancelled while the command started.
    if (this.#closed) await this.close();
  }

  async #startUnit(
    command: string,
    unit: NonNullable<Command["unit"]>,
    timeoutMs: number | undefined,
  ): Promise<string> {
    const { units, env, cwd } = this.#context;
    if (!units) {
      const message = "/dev/shell: only a run can have background units. Leave run_in_background out.";
      throw new SyscallError("UNAVAILABLE", message);
    }
    const { id } = await units.start({
      ...unit,
      command,
      argv: [shellOf(env), "-c", "--", command],
      cwd,
      ...(timeoutMs !== undefined && { timeoutMs }),
      ...(unit.kind === "monitor" && { stallMs: STALL_MS }),
    });
    return `Started in the background as unit ${id}. ${reports(id, unit.kind)}`;
  }

  async read(max: number, signal: AbortSignal): Promise<Data> {
    if (this.#answer === undefined) {
      if (!this.#child) throw new SyscallError("INVALID", "/dev/shell: write a command first.");
      if (this.#decoders) return this.#next(this.#child, this.#decoders, signal);
      this.#answer = await this.#finish(this.#child, signal);
    }
    const piece = this.#answer.slice(this.#at, this.#at + max);
    this.#at += piece.length;
    return piece;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#answer = undefined;
    await this.#end();
  }

  async stat(): Promise<FileStat> {
    return { name: "shell", size: this.#answer?.length ?? 0, isDevice: true, devicePath: "/dev/shell" };
  }

  /** The next output of a streamed command; its end comes last. */
  async #next(child: Child, decoders: Record<1 | 2, TextDecoder>, signal: AbortSignal): Promise<string> {
    const aborted = Promise.withResolvers<never>();
    const onAbort = (): void => aborted.reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    try {
      const piece = await Promise.race([child.read(), aborted.promise]);
      if (piece) {
        const text = decoders[piece.fd].decode(piece.data, { stream: true });
        return `${JSON.stringify({ fd: piece.fd, text })}\n`;
      }
      const { code, signal: by, timedOut: isLate } = await child.exited();
      this.#child = undefined;
      this.#answer = "";
      return `${JSON.stringify({ exit: isLate ? 124 : (code ?? 128), by })}\n`;
    } catch (thrown) {
      await this.#end();
      throw thrown;
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** Collects the output until the command ends or the signal fires. */
  async #finish(child: Child, signal: AbortSignal): Promise<string> {
    const output = new CommandOutput((text) => this.#context.output(text));
    const aborted = Promise.withResolvers<"aborted">();
    const onAbort = (): void => aborted.resolve("aborted");
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    const collected = collect(child, output);
    const moved = this.#moved(child, signal);
    try {
      const exit = await Promise.race([collected, aborted.promise, moved]);
      if (exit !== "aborted" && "unit" in exit) {
        this.#child = undefined;
        const moved = `[moved to the background by the user as unit ${exit.unit}. ${reports(exit.unit)}]`;
        return this.#text(output, undefined, moved);
      }
      if (exit !== "aborted") {
        // Its background processes end by its life, "call"; this does not wait for that.
        this.#child = undefined;
        return await this.#describe(output, exit);
      }
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
    const reason: unknown = signal.reason;
    const ended = this.#end();
    // It ends in the background; `close` waits for that. The output so far is returned first.
    if (reason instanceof SyscallError && reason.code === "TIMEOUT")
      return this.#text(output, undefined, timedOut(this.#context.call?.deadlineMs ?? this.#timeoutMs));
    // What it has printed may still be in its pipe.
    await ended;
    await collected.catch(() => undefined);
    throw this.#withOutput(reason, output);
  }

  /** Resolves only when the user has moved the command to the background, with its unit. */
  async #moved(child: Child, signal: AbortSignal): Promise<{ unit: string }> {
    const { units, progress } = this.#context;
    if (units && (await child.toBackground?.()) && !signal.aborted) {
      try {
        const { id } = await units.move({ pid: child.pid, ...this.#about });
        return { unit: id };
      } catch (thrown) {
        progress(`The command stays in the foreground: ${String(thrown)}`);
      }
    }
    return new Promise(() => {});
  }

  /** A cancelled call tells what the command had printed. */
  #withOutput(reason: unknown, output: CommandOutput): unknown {
    const shown = output.shown(undefined, false);
    if (shown === "" || !(reason instanceof SyscallError)) return reason;
    return new SyscallError(reason.code, reason.message, { cause: reason, output: shown });
  }

  async #end(): Promise<void> {
    try {
      await this.#child?.kill();
    } catch (thrown) {
      this.#context.log("warn", `Command ${this.#child?.pid} could not be ended: ${String(thrown)}`);
    }
  }

  async #describe(output: CommandOutput, exit: ExitInfo): Promise<string> {
    const file = exit.outputFile ?? (await this.#save(output));
    return this.#text(output, file, this.#endOf(exit), exit.droppedBytes);
  }

  #endOf({ timedOut: isLate, signal, code }: ExitInfo): string {
    if (isLate) return timedOut(this.#timeoutMs);
    if (signal !== null) return `[ended by signal ${signal}]`;
    if (code === null) return "[the exit code is unknown]";
    return code === 0 ? "" : `[exit code ${code}]`;
  }

  /** Saves an output that is truncated here but was too small for a file of `exec`. */
  async #save(output: CommandOutput): Promise<string | undefined> {
    if (!output.truncated || output.inMemory === undefined) return undefined;
    try {
      const name = `shell-${this.#context.call?.id ?? crypto.randomUUID()}.txt`;
      return await this.#context.spill(name, output.inMemory);
    } catch (thrown) {
      // The command has run: a truncated answer is better than an error.
      this.#context.log("warn", `The output of a command could not be saved: ${String(thrown)}`);
      return undefined;
    }
  }

  #text(output: CommandOutput, file: string | undefined, end: string, dropped = 0): string {
    const lines = [output.shown(file, dropped === 0)];
    if (dropped > 0) lines.push(`[The output was too large for the file: ${dropped} bytes are lost.]`);
    if (end !== "") lines.push(end);
    const text = lines.filter((line) => line !== "").join("\n");
    return text === "" ? "[no output]" : text;
  }
}

/** How the model learns of a unit, and acts on it. */
function reports(id: string, kind: UnitRequest["kind"] = "local_bash"): string {
  const report = kind === "monitor" ? "Its lines come to you as events" : "A message follows when it ends";
  return `${report}; DaemonOutput ${id} reads its output, DaemonStop ${id} ends it.`;
}

/** `{op, command, …}` of the tool, or the command itself if the text is not a JSON object. */
function parse(text: string): Command {
  const value = objectOf(text);
  if (value === undefined) return { command: checked(text), description: firstOf(text) };
  const { command, timeout_ms: timeoutMs } = value;
  if (typeof command !== "string") {
    const message = '/dev/shell expects {"command": "…", "timeout_ms"?: …} or the command itself.';
    throw new SyscallError("INVALID", message);
  }
  const description = textOf(value.description) ?? firstOf(command);
  if (value.op === "stream") {
    const stdin = typeof value.stdin === "string" ? value.stdin : undefined;
    return { command: checked(command), description, stream: { stdin } };
  }
  const unit = unitOf(value, description);
  if (timeoutMs === undefined) return { command: checked(command), description, unit };
  if (typeof timeoutMs !== "number" || !(timeoutMs >= 1)) {
    const message = `/dev/shell: timeout_ms must be a number of at least 1, not ${JSON.stringify(timeoutMs)}.`;
    throw new SyscallError("INVALID", message);
  }
  const both = "/dev/shell: a persistent monitor has no timeout_ms. Leave one of them out.";
  if (unit?.persistent) throw new SyscallError("INVALID", both);
  return { command: checked(command), description, timeoutMs, unit };
}

function unitOf(value: Record<string, unknown>, description: string): Command["unit"] {
  if (value.op === MONITOR.op) return { kind: "monitor", description, persistent: value.persistent === true };
  return value.run_in_background === true ? { kind: "local_bash", description } : undefined;
}

/** Characters of a command that describe its unit where nothing else does. */
const MAX_DESCRIPTION = 80;

function firstOf(command: string): string {
  return command.slice(0, MAX_DESCRIPTION);
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
}

function objectOf(text: string): Record<string, unknown> | undefined {
  if (!text.trimStart().startsWith("{")) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch (thrown) {
    // `{ echo a; echo b; }` is a command.
    if (thrown instanceof SyntaxError) return undefined;
    throw thrown;
  }
}

function checked(command: string): string {
  if (command.trim() === "") throw new SyscallError("INVALID", "/dev/shell: the command is empty.");
  if (command.includes("\0"))
    throw new SyscallError("INVALID", "/dev/shell: the command contains a NUL byte.");
  return command;
}

/** The path of bash, cached: with a long PATH the search takes as long as starting it. */
function shellOf({ PATH = "" }: Readonly<Record<string, string>>): string {
  if (cachedShell?.path !== PATH || !existsSync(cachedShell.shell))
    cachedShell = { path: PATH, shell: Bun.which("bash", { PATH, cwd: "/" }) ?? "/bin/sh" };
  return cachedShell.shell;
}

let cachedShell: { path: string; shell: string } | undefined;

function timedOut(ms: number): string {
  return `[timed out after ${ms} ms: the command and its child processes were ended; the output until then is above]`;
}
