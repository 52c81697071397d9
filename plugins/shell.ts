import { existsSync } from "node:fs";
import {
  type Child,
  type Data,
  definePlugin,
  type ExitInfo,
  type FileStat,
  O_RDONLY,
  O_WRONLY,
  type OpenContext,
  type OpenFlag,
  SyscallError,
  type ToolDef,
  type VFSFile,
} from "rnix/plugin";

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
      timeout_ms: {
        type: "integer",
        minimum: 1,
        description: "Default and maximum: the tool time limit, usually 120000.",
      },
      description: { type: "string" },
    },
    required: ["command"],
    additionalProperties: false,
  },
  // The driver itself cuts the output to about 30,000 characters.
  maxResult: 32_000,
  annotations: { destructiveHint: true, openWorldHint: true },
};

/** /dev/shell (seeds 2.4): one write is one command, what it printed is read. */
export default definePlugin({
  name: "shell",
  api: 1,
  needs: ["exec"],
  devices: {
    "/dev/shell": {
      tools: [BASH],
      factory: (_subpath, flags, context) => new ShellFile(flags, context),
    },
  },
});

/** Where neither the call nor the command says otherwise: a tool call's default. */
const DEFAULT_TIMEOUT_MS = 120_000;
/** Of its own deadline the call keeps this much for ending the command and answering: a tenth, at most. */
const MARGIN_MS = 1_000;
/** Characters of output that are shown, from its beginning and its end. */
const HEAD_CHARS = 10_000;
const TAIL_CHARS = 20_000;
/** An output up to this size is kept whole here; of a larger one `exec` keeps a file. */
const WHOLE_CHARS = 64 * 1024;

interface Command {
  command: string;
  timeoutMs?: number;
}

class ShellFile implements VFSFile {
  readonly #flags: OpenFlag;
  readonly #context: OpenContext;
  #child: Child | undefined;
  #timeoutMs = DEFAULT_TIMEOUT_MS;
  #answer: string | undefined;
  #at = 0;
  #closed = false;

  constructor(flags: OpenFlag, context: OpenContext) {
    this.#flags = flags;
    this.#context = context;
  }

  /** Starts the command; its output is waited for by `read`. */
  async write(data: Data, signal: AbortSignal): Promise<void> {
    if (this.#flags === O_RDONLY) {
      throw new SyscallError(
        "PERMISSION",
        "/dev/shell is open for reading only: a command can't be written.",
      );
    }
    if (signal.aborted) throw cancelled(signal);
    if (this.#child) {
      throw new SyscallError(
        "INVALID",
        "/dev/shell: a command is running. Read its output to the end first.",
      );
    }
    const { command, timeoutMs } = parse(typeof data === "string" ? data : new TextDecoder().decode(data));
    const { exec, env, call } = this.#context;
    if (!exec)
      throw new SyscallError("UNAVAILABLE", "/dev/shell: no programs can be started here (no exec service).");
    const most = call
      ? call.deadlineMs - Math.min(MARGIN_MS, call.deadlineMs / 10)
      : Number.POSITIVE_INFINITY;
    this.#timeoutMs = Math.max(
      1,
      Math.floor(Math.min(timeoutMs ?? call?.deadlineMs ?? DEFAULT_TIMEOUT_MS, most)),
    );
    this.#answer = undefined;
    this.#at = 0;
    this.#child = await exec({
      // One pipe for both streams keeps their order; on the command's first line, so that its lines count right.
      argv: [shellOf(env), "-c", "--", `exec 2>&1; ${command}`],
      cwd: this.#context.cwd,
      timeoutMs: this.#timeoutMs,
      life: "call",
    });
    // Whoever gave up on this call meanwhile has closed the file already.
    if (this.#closed) await this.close();
  }

  async read(max: number, signal: AbortSignal): Promise<Data> {
    if (this.#flags === O_WRONLY) {
      throw new SyscallError("PERMISSION", "/dev/shell is open for writing only: the output can't be read.");
    }
    if (this.#answer === undefined) {
      if (!this.#child) throw new SyscallError("INVALID", "/dev/shell: write a command first.");
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

  /** Collects the output until the command has ended, or the signal says that nobody waits any longer. */
  async #finish(child: Child, signal: AbortSignal): Promise<string> {
    const output = new Output();
    const aborted = Promise.withResolvers<"aborted">();
    const onAbort = (): void => aborted.resolve("aborted");
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    try {
      const exit = await Promise.race([collect(child, output), aborted.promise]);
      if (exit !== "aborted") {
        // What it has left in the background is ended by its life, "call", without us waiting for that.
        this.#child = undefined;
        return await this.#describe(output, exit);
      }
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
    // It is being ended from now on, and `close` waits for that; what it printed is told before.
    void this.#end();
    const reason = cancelled(signal);
    if (reason.code !== "TIMEOUT") throw reason;
    return this.#text(output, undefined, timedOut(this.#context.call?.deadlineMs ?? this.#timeoutMs));
  }

  async #end(): Promise<void> {
    try {
      await this.#child?.kill();
    } catch (thrown) {
      this.#context.log("warn", `The command ${this.#child?.pid} could not be ended: ${String(thrown)}`);
    }
  }

  async #describe(output: Output, exit: ExitInfo): Promise<string> {
    const file = exit.outputFile ?? (await this.#keep(output));
    if (exit.timedOut) return this.#text(output, file, timedOut(this.#timeoutMs), exit.droppedBytes);
    if (exit.signal !== null) {
      return this.#text(output, file, `[ended by signal ${exit.signal}]`, exit.droppedBytes);
    }
    const code = exit.code === null ? "[it is not known how the command ended]" : `[exit code ${exit.code}]`;
    return this.#text(output, file, exit.code === 0 ? "" : code, exit.droppedBytes);
  }

  /** An output that is cut here but was small enough for `exec` to keep no file. */
  async #keep(output: Output): Promise<string | undefined> {
    if (!output.cut || output.whole === undefined) return undefined;
    try {
      return await this.#context.spill(
        `shell-${this.#context.call?.id ?? crypto.randomUUID()}.txt`,
        output.whole,
      );
    } catch (thrown) {
      // The command has run; its answer is worth more than the part that is left out of it.
      this.#context.log("warn", `The output of a command could not be kept: ${String(thrown)}`);
      return undefined;
    }
  }

  #text(output: Output, file: string | undefined, end: string, dropped = 0): string {
    const lines = [output.shown(file, dropped === 0)];
    if (dropped > 0) lines.push(`[The output was too long even for the file: ${dropped} bytes are lost.]`);
    if (end !== "") lines.push(end);
    const text = lines.filter((line) => line !== "").join("\n");
    return text === "" ? "[no output]" : text;
  }
}

/** What a command has printed: whole while that is little, then its beginning and its end. */
class Output {
  readonly #decoders = { 1: new TextDecoder(), 2: new TextDecoder() };
  #head = "";
  #tail = "";
  #length = 0;

  /** The streams are decoded apart: a piece of one may come in the middle of the other's character. */
  add(fd: 1 | 2, data: Uint8Array): void {
    this.#add(this.#decoders[fd].decode(data, { stream: true }));
  }

  note(text: string): void {
    this.#add(`\n[${text}]\n`);
  }

  end(): void {
    this.#add(this.#decoders[1].decode());
    this.#add(this.#decoders[2].decode());
  }

  /** More was printed than is shown. */
  get cut(): boolean {
    return this.#length > HEAD_CHARS + TAIL_CHARS;
  }

  get whole(): string | undefined {
    return this.#length <= WHOLE_CHARS ? this.#head + this.#tail : undefined;
  }

  /** `whole`: the file holds all of it. */
  shown(file: string | undefined, whole: boolean): string {
    const text = this.#head + this.#tail;
    if (!this.cut) return text.replace(/\n$/, "");
    const head = trimPair(text.slice(0, HEAD_CHARS));
    const tail = text.slice(-TAIL_CHARS).replace(/\n$/, "");
    const where =
      file === undefined
        ? "The whole output was not kept."
        : `${whole ? "The whole output" : "What was kept of it"} is in ${file}`;
    return `${head}\n[… ${this.#length - HEAD_CHARS - TAIL_CHARS} of ${this.#length} characters left out here. ${where} …]\n${tail}`;
  }

  #add(text: string): void {
    this.#length += text.length;
    const room = HEAD_CHARS - this.#head.length;
    this.#head += text.slice(0, Math.max(0, room));
    this.#tail += text.slice(Math.max(0, room));
    // Cut now and then, not at each piece.
    if (this.#tail.length > 2 * WHOLE_CHARS) this.#tail = this.#tail.slice(-WHOLE_CHARS);
  }
}

async function collect(child: Child, output: Output): Promise<ExitInfo> {
  for (;;) {
    try {
      const piece = await child.read();
      if (piece === null) break;
      output.add(piece.fd, piece.data);
    } catch (thrown) {
      // A part of the output is lost; what comes behind it can be read.
      if (!(thrown instanceof SyscallError) || thrown.code !== "EXHAUSTED") throw thrown;
      output.note(thrown.message);
    }
  }
  output.end();
  return child.exited();
}

/** `{op, command, …}` of the tool, or the command itself. Only an object is taken for the former. */
function parse(text: string): Command {
  const value = objectOf(text);
  if (value === undefined) return { command: checked(text) };
  const { command, timeout_ms: timeoutMs } = value;
  if (typeof command !== "string") {
    throw new SyscallError(
      "INVALID",
      '/dev/shell expects {"command": "…", "timeout_ms"?: …} or the command itself.',
    );
  }
  if (timeoutMs === undefined) return { command: checked(command) };
  if (typeof timeoutMs !== "number" || !(timeoutMs >= 1)) {
    throw new SyscallError(
      "INVALID",
      `/dev/shell: timeout_ms must be a number from 1 on, not ${JSON.stringify(timeoutMs)}.`,
    );
  }
  return { command: checked(command), timeoutMs };
}

function objectOf(text: string): Record<string, unknown> | undefined {
  if (!text.trimStart().startsWith("{")) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? { ...value } : undefined;
  } catch (thrown) {
    // `{ echo a; echo b; }` is a command.
    if (thrown instanceof SyntaxError) return undefined;
    throw thrown;
  }
}

function checked(command: string): string {
  if (command.trim() === "") throw new SyscallError("INVALID", "/dev/shell: the command is empty.");
  if (command.includes("\0")) throw new SyscallError("INVALID", "/dev/shell: the command holds a NUL byte.");
  return command;
}

/** Searched for once as long as it stays: with a long PATH that takes as long as starting it. */
function shellOf({ PATH = "" }: Readonly<Record<string, string>>): string {
  if (found?.path !== PATH || !existsSync(found.shell))
    found = { path: PATH, shell: Bun.which("bash", { PATH, cwd: "/" }) ?? "/bin/sh" };
  return found.shell;
}

let found: { path: string; shell: string } | undefined;

function timedOut(ms: number): string {
  return `[timed out after ${ms} ms: the command and everything it had started were ended; what is above was printed until then]`;
}

function cancelled(signal: AbortSignal): SyscallError {
  const reason: unknown = signal.reason;
  if (reason instanceof SyscallError) return reason;
  return new SyscallError("CANCELLED", "The command was cancelled.", { cause: reason });
}

/** Without half a character at the end. */
function trimPair(text: string): string {
  return /[\uD800-\uDBFF]$/.test(text) ? text.slice(0, -1) : text;
}
