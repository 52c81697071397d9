/** The ledger: a file with the running programs of a kernel, so that they can be ended after its crash. */

import { closeSync, mkdirSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { messageOf } from "../lib/error-detail.ts";
import { SyscallError } from "../plugin/index.ts";
import type { Identity } from "./process-table.ts";

/** Written in the first line. A newer version is not read. */
export const LEDGER_VERSION = 1;

export const LedgerHeader = z.object({ t: z.literal("ledger"), v: z.number() });
export const LedgerLine = z.lazy(() =>
  z.discriminatedUnion("t", [
    z.object({
      t: z.literal("intent"),
      id: z.string(),
      uuid: z.string(),
      call: z.string().optional(),
      // A background unit, which a resumed run may adopt.
      unit: z.string().optional(),
      mark: z.string(),
      argv: z.array(z.string()),
    }),
    z.object({
      t: z.literal("start"),
      id: z.string(),
      pid: z.number().int().min(2),
      start: z.string(),
      boot: z.string(),
    }),
    z.object({ t: z.literal("unit"), id: z.string(), unit: z.string() }),
    z.object({ t: z.literal("end"), id: z.string() }),
  ]),
);
export type LedgerLine = z.infer<typeof LedgerLine>;

/** `cwd` and `at`, the time of the start (RFC 3339), are for who reads the file. */
type IntentLine = Extract<LedgerLine, { t: "intent" }> & { cwd: string; at: string };
type OpenLine = IntentLine | Exclude<LedgerLine, { t: "intent" | "end" }>;

export const LEDGER_SUFFIX = ".jsonl";

/** Growth after which the file is rewritten with the running programs only. */
const COMPACT_BYTES = 256 * 1024;

/** Maximum characters of a command line, which is for display only. */
const ARGV_CHARS = 1000;

/**
 * One file per kernel, of JSON lines. Each program has three: `intent` before it starts, `start` with its identity
 * right after, `end` when it and its descendants have ended; and `unit` if it becomes one of a background unit. The next kernel ends the programs without an `end`.
 */
export class Ledger {
  readonly #dir: string;
  readonly #path: string;
  readonly #open = new Map<string, OpenLine[]>();
  #fd: number | undefined;
  #bytes = 0;

  constructor(ledgerDir: string, kernelId: string) {
    this.#dir = ledgerDir;
    this.#path = join(ledgerDir, `${kernelId}${LEDGER_SUFFIX}`);
  }

  /** Fails with UNAVAILABLE when the line can't be written: then the program must not start. */
  intent(line: Omit<IntentLine, "t">): void {
    const intent: IntentLine = { t: "intent", ...line, argv: truncated(line.argv) };
    try {
      if (this.#fd === undefined) this.#start();
      this.#write(asText(intent));
    } catch (cause) {
      const message = `No program can be started: the list of running programs ${this.#path} cannot be written (${messageOf(cause)}). Free disk space there, or make it writable.`;
      throw new SyscallError("UNAVAILABLE", message, { cause });
    }
    this.#open.set(line.id, [intent]);
  }

  /** Throws a write error as it is: the program runs already, and its intent finds it by its cookies. */
  started(id: string, identity: Identity): void {
    this.#add({ t: "start", id, ...identity });
  }

  /** Throws a write error as it is: without the line, the next kernel ends the program. */
  moved(id: string, unit: string): void {
    this.#add({ t: "unit", id, unit });
  }

  /** Throws a write error as it is: without the line, the next kernel only searches for an ended program. */
  ended(id: string): void {
    if (!this.#open.delete(id)) return;
    this.#write(asText({ t: "end", id }));
    if (this.#bytes > COMPACT_BYTES) this.#compact();
  }

  /** Removes the file, unless a program could not be ended: then the next sweep tries again. */
  close(): void {
    if (this.#fd === undefined) return;
    closeSync(this.#fd);
    this.#fd = undefined;
    if (this.#open.size === 0) rmSync(this.#path, { force: true });
  }

  #add(line: OpenLine): void {
    this.#open.get(line.id)?.push(line);
    this.#write(asText(line));
  }

  #start(): void {
    mkdirSync(this.#dir, { recursive: true, mode: 0o700 });
    this.#fd = openSync(this.#path, "a", 0o600);
    this.#write(header());
  }

  #compact(): void {
    const lines = [...this.#open.values()].flat();
    const temporary = `${this.#path}.tmp`;
    const fd = openSync(temporary, "w", 0o600);
    const text = header() + lines.map(asText).join("");
    writeSync(fd, text);
    renameSync(temporary, this.#path);
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = fd;
    this.#bytes = 0;
  }

  /** One write per line: a kill leaves whole lines. Only a full disk can tear the last one. */
  #write(text: string): void {
    if (this.#fd === undefined) throw new SyscallError("CLOSED", `The ledger ${this.#path} is closed.`);
    this.#bytes += writeSync(this.#fd, text);
  }
}

function header(): string {
  return `${JSON.stringify({ t: "ledger", v: LEDGER_VERSION })}\n`;
}

function asText(line: LedgerLine): string {
  return `${JSON.stringify(line)}\n`;
}

function truncated(argv: string[]): string[] {
  let left = ARGV_CHARS;
  const shown: string[] = [];
  for (const argument of argv) {
    if (left <= 0) break;
    shown.push(argument.slice(0, left));
    left -= argument.length;
  }
  return shown;
}
