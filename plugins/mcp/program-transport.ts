/** The transport to an MCP server that is a program. */

import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { deserializeMessage } from "@modelcontextprotocol/client";
import { type Child, type OpenContext, SyscallError } from "rnix/plugin";
import { JsonDepth } from "../_lib/json.ts";
import { LineSplitter, type LongLine } from "../_lib/line-splitter.ts";
import { settledWithin } from "../_lib/within.ts";
import { tooLarge } from "./failure.ts";
import { limitedLog } from "./limited-log.ts";
import type { ProgramSettings } from "./settings.ts";

/** Between the end of its input and SIGTERM: a server that follows the protocol ends by itself. */
const EXIT_MS = 500;
/** Characters of its last output that the message about its end quotes. */
const LAST_OUTPUT = 2_000;
const LOGGED_CHARS = 2_000;

/** Servers write the id as the first or the last field, some of them with spaces. */
const ID_FIRST = /^\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)/;
const ID_LAST = /"id"\s*:\s*(\d+)\s*\}\s*$/;

/**
 * A server on the stdin and stdout of a program that `exec` has started. The library's own transport starts
 * programs without a process group, so their children could not be ended.
 */
export class ProgramTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: <T extends JSONRPCMessage>(message: T) => void;
  /** By `stderr` and `pid` the library takes this for stdio: silence then means an older server, not an outage. */
  readonly stderr = null;

  readonly #settings: ProgramSettings;
  readonly #context: OpenContext;
  readonly #log: (text: string) => void;
  #child: Child | undefined;
  #closing: Promise<void> | undefined;
  #following: Promise<void> = Promise.resolve();
  /** It took no more input before it was closed. */
  #endedItself = false;
  #lastOutput = "";
  #end: string | undefined;

  constructor(settings: ProgramSettings, context: OpenContext) {
    this.#settings = settings;
    this.#context = context;
    this.#log = limitedLog((text) => context.log("info", text));
  }

  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /** How the program ended by itself, with its last output; undefined while it runs or when it was closed. */
  get end(): string | undefined {
    return this.#end;
  }

  async start(): Promise<void> {
    const { exec } = this.#context;
    if (!exec) throw new SyscallError("UNAVAILABLE", "No programs can be started here (no exec service).");
    const { command, args, env, cwd } = this.#settings;
    const child = await exec({ argv: [command, ...args], env, cwd, stdin: "pipe", life: "process" });
    this.#child = child;
    if (this.#closing) return child.kill();
    this.#following = this.#follow(child);
  }

  async send(message: JSONRPCMessage): Promise<void> {
    if (!this.#child || this.#closing || this.#end !== undefined) {
      throw new SyscallError("UNAVAILABLE", `${this.#settings.name} ${this.#end ?? "is not running."}`);
    }
    try {
      await this.#child.write(`${JSON.stringify(message)}\n`);
    } catch (thrown) {
      this.#endedItself = true;
      throw thrown;
    }
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Waits a moment for the end of a program that takes no more input: how it ended says more. */
  followed(): Promise<void> {
    return settledWithin(this.#following, EXIT_MS);
  }

  /** Ends the program without waiting for it to leave by itself: it has not answered. */
  abandon(): Promise<void> {
    this.#closing ??= this.#child?.kill() ?? Promise.resolve();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const child = this.#child;
    if (!child) return;
    await child.end().catch(() => undefined); // Its input may be gone with it.
    await settledWithin(child.exited(), EXIT_MS);
    await child.kill();
  }

  async #follow(child: Child): Promise<void> {
    try {
      const out = new LineSplitter(this.#settings.maxOutputBytes);
      const err = new LineSplitter(LOGGED_CHARS);
      for (let piece = await child.read(); piece !== null; piece = await child.read()) {
        if (piece.fd === 1) for (const line of out.push(piece.data)) this.#received(line);
        else for (const line of err.push(piece.data)) this.#logLine(line);
      }
      this.#logLine(err.rest());
      const { code, signal } = await child.exited();
      if (!this.#closing || this.#endedItself)
        this.#end = `ended ${signal === null ? `with exit code ${code}` : `by ${signal}`}.${this.lastOutput}`;
    } catch (thrown) {
      this.#end = `can't be read: ${thrown instanceof Error ? thrown.message : String(thrown)}`;
      // A program whose output can't be read is of no use.
      await child.kill().catch((fault) => this.onerror?.(errorOf(fault)));
    }
    this.onclose?.();
  }

  /** One line of its output: a message, or text that is logged. */
  #received(line: string | LongLine): void {
    if (line === "") return;
    if (typeof line !== "string") {
      this.#tooLarge(line);
      return;
    }
    const message = messageOf(line);
    if (message) this.onmessage?.(message);
    else this.#logLine(line);
  }

  /** The request that this line answers fails; the connection stays. */
  #tooLarge({ bytes, head, tail }: LongLine): void {
    const id = (ID_FIRST.exec(head) ?? ID_LAST.exec(tail))?.[1];
    if (id !== undefined) this.onmessage?.(tooLarge(this.#settings, Number(id), bytes));
    else this.onerror?.(new Error(`A message of ${bytes} bytes was dropped.`));
  }

  #logLine(line: string | LongLine): void {
    if (line === "") return;
    const text = typeof line === "string" ? line : `${line.head}…`;
    this.#lastOutput = `${this.#lastOutput}${text}\n`.slice(-LAST_OUTPUT);
    this.#log(text.slice(0, LOGGED_CHARS));
  }

  /** What it printed last outside the protocol, as a sentence; "" for nothing. */
  get lastOutput(): string {
    return this.#lastOutput === "" ? "" : ` It said: ${this.#lastOutput.trimEnd()}`;
  }
}

/** null for a line that is not a message: many servers print text before their first one. */
function messageOf(line: string): JSONRPCMessage | null {
  if (new JsonDepth("one").exceeds(Buffer.from(line))) return null;
  try {
    return deserializeMessage(line);
  } catch {
    return null;
  }
}

function errorOf(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}
