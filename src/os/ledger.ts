import { closeSync, mkdirSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { SyscallError } from "../plugin/index.ts";
import type { Identity } from "./process-table.ts";
import type { ProcessTag } from "./process-tag.ts";

/** In its first line: a newer one is not read. */
export const LEDGER_VERSION = 1;

interface IntentLine {
  t: "intent";
  id: string;
  uuid: string;
  call?: string;
  mark: ProcessTag;
  argv: string[];
  cwd: string;
  /** RFC 3339. */
  at: string;
}
interface StartLine extends Identity {
  t: "start";
  id: string;
}
interface EndLine {
  t: "end";
  id: string;
}
type Line = IntentLine | StartLine | EndLine;

function ledgerPath(ledgerDir: string, kernelId: string): string {
  return join(ledgerDir, `${kernelId}${LEDGER_SUFFIX}`);
}

export const LEDGER_SUFFIX = ".jsonl";

/** Rewritten with what still runs when it has grown by so much. */
const COMPACT_BYTES = 256 * 1024;

/** Characters of a command line kept, for people to read. */
const ARGV_CHARS = 1000;

/**
 * The programs one kernel started, on disk before each of them runs, so that whoever comes after a kernel
 * that was killed can end them. One file per kernel, JSON lines, the same three for every program: `intent`
 * before it starts, `start` with its identity right after, `end` when nothing of it is left.
 */
export class Ledger {
  readonly #dir: string;
  readonly #path: string;
  readonly #open = new Map<string, (IntentLine | StartLine)[]>();
  #fd: number | undefined;
  #bytes = 0;

  constructor(ledgerDir: string, kernelId: string) {
    this.#dir = ledgerDir;
    this.#path = ledgerPath(ledgerDir, kernelId);
  }

  /** Throws UNAVAILABLE when it can't be written: then the program must not start. */
  intent(line: Omit<IntentLine, "t">): void {
    const intent: IntentLine = { t: "intent", ...line, argv: shortened(line.argv) };
    try {
      if (this.#fd === undefined) this.#start();
      this.#write(intent);
    } catch (cause) {
      throw new SyscallError(
        "UNAVAILABLE",
        `No program can be started: the list of running programs ${this.#path} cannot be written (${reason(cause)}). Make room there, or make it writable.`,
        { cause },
      );
    }
    this.#open.set(line.id, [intent]);
  }

  /** Throws what the disk answers; the program runs already, and its intent still finds it by its cookies. */
  started(id: string, identity: Identity): void {
    const start: StartLine = { t: "start", id, ...identity };
    this.#open.get(id)?.push(start);
    this.#write(start);
  }

  /** Nothing of it is left. Throws what the disk answers: the worst that follows is a search for nothing. */
  ended(id: string): void {
    if (!this.#open.delete(id)) return;
    this.#write({ t: "end", id });
    if (this.#bytes > COMPACT_BYTES) this.#compact();
  }

  /** Removes the file, unless something could not be ended: then the next sweep tries again. */
  close(): void {
    if (this.#fd === undefined) return;
    closeSync(this.#fd);
    this.#fd = undefined;
    if (this.#open.size === 0) rmSync(this.#path, { force: true });
  }

  #start(): void {
    mkdirSync(this.#dir, { recursive: true, mode: 0o700 });
    this.#fd = openSync(this.#path, "a", 0o600);
    this.#writeText(header());
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

  #write(line: Line): void {
    this.#writeText(asText(line));
  }

  /** One write per line: a kill leaves whole lines, and at most the last one torn when the disk is full. */
  #writeText(text: string): void {
    if (this.#fd === undefined) throw new SyscallError("CLOSED", `The ledger ${this.#path} is closed.`);
    this.#bytes += writeSync(this.#fd, text);
  }
}

function header(): string {
  return `${JSON.stringify({ t: "ledger", v: LEDGER_VERSION })}\n`;
}

function asText(line: Line): string {
  return `${JSON.stringify(line)}\n`;
}

function shortened(argv: string[]): string[] {
  let left = ARGV_CHARS;
  const kept: string[] = [];
  for (const argument of argv) {
    if (left <= 0) break;
    kept.push(argument.slice(0, left));
    left -= argument.length;
  }
  return kept;
}

function reason(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
