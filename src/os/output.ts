/** The output of one program: its last bytes in memory, and a capped file when memory can't hold all of it. */

import { type FileHandle, mkdir, open } from "node:fs/promises";
import { dirname } from "node:path";
import { messageOf } from "../lib/error-detail.ts";
import { SyscallError } from "../plugin/index.ts";
import { settles } from "./signal.ts";

export interface OutputLimits {
  /** Maximum bytes in memory: the last ones. */
  memoryBytes: number;
  /** Maximum bytes in the file: the first ones. */
  diskBytes: number;
  /** Time after which a reader that reads nothing counts as gone, while the program waits for it. */
  readerMs: number;
}

/** Replaces secrets in a stream. It may hold back the last bytes until more bytes or the end arrive. */
export interface Redactor {
  push(data: Uint8Array): Uint8Array;
  end(): Uint8Array;
}

/**
 * A reader gets every byte in order, from memory or from the file. The program waits for the reader only when bytes
 * would be lost otherwise. Without a reader it never waits.
 */
export class Output {
  readonly #path: string;
  readonly #limits: OutputLimits;
  readonly #onFault: (error: SyscallError) => void;
  readonly #ring: OutputRing;
  readonly #redactors: Record<1 | 2, Redactor> | undefined;

  #file: FileHandle | undefined;
  #spilling = false;
  /** Nothing more is written to the file: it is full, failed or finished. */
  #fileClosed = false;
  /** Bytes queued for the file, and bytes written. */
  #queued = 0;
  #onDisk = 0;
  /** Settles when all queued bytes are written or have failed. Never rejects. */
  #writing: Promise<void> = Promise.resolve();
  /** Signed lengths of the file's parts: positive from stdout, negative from stderr. */
  readonly #runs: number[] = [];

  #reader: "expected" | "reading" | "none" = "expected";
  #readAt = 0;
  /** Index in `#runs` of the part that was read last, and the offset where it begins. */
  #run = 0;
  #runStart = 0;
  #reading = false;
  #onData: (() => void) | undefined;
  #onReaderProgress: (() => void)[] = [];
  /** Bytes that memory may hold over its limit after the program has ended. */
  #drainBytes = 0;
  #finished = false;
  /** Takes all output in place of the reader. */
  #sink: ((data: Uint8Array) => void) | undefined;

  constructor(
    path: string,
    limits: OutputLimits,
    onFault: (error: SyscallError) => void,
    redactor?: () => Redactor,
  ) {
    this.#redactors = redactor && { 1: redactor(), 2: redactor() };
    this.#path = path;
    this.#limits = limits;
    this.#onFault = onFault;
    this.#ring = new OutputRing(limits.memoryBytes);
  }

  /** Adds output. Resolves when more can be added: at once, or when the file or the reader has caught up. */
  async push(fd: 1 | 2, data: Uint8Array): Promise<void> {
    if (data.length === 0) return;
    while (this.#mustWait(data.length)) await this.#waitForReader();
    this.#take(fd, data);
    this.#ring.trim(this.#floor());
    if (this.#queued > this.#onDisk) await this.#writing;
  }

  /** Like `push`, for a program that can't be made to wait: a slow reader misses bytes. */
  pushNow(fd: 1 | 2, data: Uint8Array): void {
    this.#take(fd, data);
    this.#ring.trim(this.#ring.end);
  }

  /**
   * Returns the next piece; null at the end. Fails once with EXHAUSTED where bytes are missing: the file was full, and
   * they were not read in time.
   */
  async read(): Promise<Piece | null> {
    if (this.#reading) {
      const message = "This program's output is being read already. Wait for that read first.";
      throw new SyscallError("INVALID", message);
    }
    this.#reading = true;
    this.#reader = "reading";
    try {
      while (this.#readAt >= this.#ring.end) {
        if (this.#finished || this.#sink) return null;
        await new Promise<void>((resolve) => {
          this.#onData = resolve;
        });
      }
      const inMemory = this.#readAt >= this.#ring.start;
      const piece = inMemory ? this.#ring.at(this.#readAt) : await this.#fromFile();
      this.#readAt += piece.data.length;
      return piece;
    } finally {
      this.#reading = false;
      this.#onData = undefined;
      this.#ring.trim(this.#floor());
      this.#wakeWriters();
    }
  }

  /** Gives all further output to `sink`, after what memory holds. A reader gets the end. */
  divert(sink: (data: Uint8Array) => void): void {
    for (const { data } of this.#ring.pieces()) sink(data);
    this.#sink = sink;
    this.#dropReader();
    this.#onData?.();
  }

  /** No reader is expected, so the program does not wait for one, until the first read. */
  readerNotExpected(): void {
    if (this.#reader === "expected") this.#dropReader();
  }

  get writing(): boolean {
    return this.#queued > this.#onDisk;
  }

  /** The program has ended: accepts what is left in its pipes even when the reader is behind. */
  drain(): void {
    this.#drainBytes = PIPE_BYTES;
    this.#wakeWriters();
  }

  /** The output is complete. Closes the file; stored output stays readable. */
  async finish(): Promise<void> {
    for (const fd of [1, 2] as const) this.#append(fd, this.#redactors?.[fd].end() ?? NOTHING);
    this.#finished = true;
    this.#fileClosed = true;
    this.#wakeWriters();
    await this.#writing;
    await this.#closeFile();
    this.#onData?.();
  }

  summary(): { outputFile?: string; outputBytes: number; droppedBytes: number } {
    const outputBytes = this.#ring.end;
    if (!this.#spilling) return { outputBytes, droppedBytes: 0 };
    const droppedBytes = outputBytes - this.#onDisk;
    return { ...(this.#onDisk > 0 && { outputFile: this.#path }), outputBytes, droppedBytes };
  }

  #take(fd: 1 | 2, data: Uint8Array): void {
    this.#append(fd, this.#redactors?.[fd].push(data) ?? data);
  }

  #append(fd: 1 | 2, data: Uint8Array): void {
    if (this.#finished || data.length === 0) return;
    if (this.#sink) {
      this.#sink(data);
      return;
    }
    this.#spill(fd, data);
    this.#ring.push(fd, data);
    this.#onData?.();
  }

  /** True while these bytes would exceed the limit of unread bytes in memory. One piece always fits. */
  #mustWait(bytes: number): boolean {
    if (this.#finished || this.#reader === "none") return false;
    const unread = this.#ring.end - this.#floor();
    if (unread <= 0) return false;
    if (this.#drainBytes > 0) return unread + bytes > this.#limits.memoryBytes + this.#drainBytes;
    return unread + bytes > this.#limits.memoryBytes || this.#ring.isFull;
  }

  /** Bytes before this offset can leave memory: they were read, are in the file, or have no reader. */
  #floor(): number {
    if (this.#reader === "none") return this.#ring.end;
    return Math.min(this.#ring.end, Math.max(this.#readAt, this.#fileEnd()));
  }

  /** Returns how many bytes the file holds, or can hold. */
  #fileEnd(): number {
    return this.#fileClosed ? this.#queued : this.#limits.diskBytes;
  }

  async #waitForReader(): Promise<void> {
    const progress = Promise.withResolvers<void>();
    this.#onReaderProgress.push(progress.resolve);
    if (!(await settles(progress.promise, this.#limits.readerMs))) this.#dropReader();
  }

  #dropReader(): void {
    this.#reader = "none";
    this.#wakeWriters();
  }

  #wakeWriters(): void {
    for (const wake of this.#onReaderProgress.splice(0)) wake();
  }

  /** Starts the file when memory can't hold everything; in order and without a gap, up to the cap. */
  #spill(fd: 1 | 2, data: Uint8Array): void {
    if (!this.#spilling) {
      if (!this.#ring.overflows(data.length)) return;
      this.#spilling = true;
      for (const piece of this.#ring.pieces()) this.#queue(piece.fd, piece.data);
    }
    this.#queue(fd, data);
  }

  #queue(fd: 1 | 2, data: Uint8Array): void {
    if (this.#fileClosed) return;
    // A terminal can't be made to wait: end the file here instead of growing without a bound.
    const isBehind = this.#queued - this.#onDisk > MAX_UNWRITTEN;
    const length = isBehind ? 0 : Math.min(data.length, this.#limits.diskBytes - this.#queued);
    if (length < data.length) this.#fileClosed = true;
    if (length <= 0) return;
    this.#queued += length;
    this.#countRun(fd, length);
    this.#writing = this.#writing.then(() => this.#write(data.subarray(0, length)));
  }

  /** After MAX_RUNS changes, stdout and stderr are no longer distinguished in the file. */
  #countRun(fd: 1 | 2, length: number): void {
    const last = this.#runs.at(-1) ?? 0;
    const sameStream = fd === 1 ? last > 0 : last < 0;
    if (sameStream || this.#runs.length >= MAX_RUNS)
      this.#runs[this.#runs.length - 1] = last + Math.sign(last) * length;
    else this.#runs.push(fd === 1 ? length : -length);
  }

  async #write(part: Uint8Array): Promise<void> {
    if (this.#queued < this.#onDisk + part.length) return; // An earlier part failed: leave no gap.
    try {
      this.#file ??= await this.#openFile();
      for (let at = 0; at < part.length; ) {
        const { bytesWritten } = await this.#file.write(part, at);
        at += bytesWritten;
        this.#onDisk += bytesWritten;
      }
    } catch (cause) {
      this.#fileClosed = true;
      this.#queued = this.#onDisk;
      this.#onFault(fault("cannot be written, so the rest of this output is dropped", this.#path, cause));
    }
  }

  async #openFile(): Promise<FileHandle> {
    await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 });
    return open(this.#path, "wx", 0o600);
  }

  async #closeFile(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    try {
      await file?.close();
    } catch (cause) {
      this.#onFault(fault("cannot be closed", this.#path, cause));
    }
  }

  async #fromFile(): Promise<Piece> {
    await this.#writing;
    if (this.#readAt >= this.#onDisk) throw this.#gap();
    let run = this.#runs[this.#run] ?? 0;
    while (this.#runStart + Math.abs(run) <= this.#readAt) {
      this.#runStart += Math.abs(run);
      this.#run += 1;
      run = this.#runs[this.#run] ?? this.#onDisk;
    }
    const end = Math.min(this.#runStart + Math.abs(run), this.#onDisk, this.#readAt + READ_BYTES);
    const data = await readBack(this.#path, this.#readAt, end - this.#readAt);
    return { fd: run > 0 ? 1 : 2, data };
  }

  #gap(): SyscallError {
    const missing = this.#ring.start - this.#readAt;
    this.#readAt = this.#ring.start;
    return new SyscallError(
      "EXHAUSTED",
      `${missing} bytes of output are missing here: they were not read in time, and only the first ${this.#onDisk} bytes are on disk. The next read continues after them. Read faster, or set a larger maxOutput.`,
    );
  }
}

const NOTHING = new Uint8Array(0);
/** Maximum size of a pipe, unless an administrator allows more (pipe(7)). */
const PIPE_BYTES = 1024 * 1024;
const READ_BYTES = 64 * 1024;
const MAX_UNWRITTEN = 4 * 1024 * 1024;
const MAX_RUNS = 100_000;

async function readBack(path: string, from: number, length: number): Promise<Uint8Array> {
  const part = Bun.file(path).slice(from, from + length);
  const data = await part.bytes().catch((cause: unknown) => {
    throw fault("cannot be read back", path, cause);
  });
  if (data.length > 0) return data;
  throw fault("cannot be read back", path, new Error("it is shorter than what was written"));
}

function fault(what: string, path: string, cause: unknown): SyscallError {
  const message = `The file of a program's output, ${path}, ${what}: ${messageOf(cause)}`;
  return new SyscallError("INTERNAL", message, { cause });
}

/** Returns the name of a program's output file in its owner's folder. `id` is unique: kernel ID and number. */
export function outputName(id: string): string {
  return `output-${id}.log`;
}

/** Replaces names of output files, so that equal output of two programs compares equal. */
export function normalizeOutputNames(text: string): string {
  return text.replace(OUTPUT_NAME, "output.log");
}

const OUTPUT_NAME = /\boutput-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.\d+\.log\b/g;

export interface Piece {
  fd: 1 | 2;
  data: Uint8Array;
}

interface PositionedPiece extends Piece {
  /** Offset of its first byte in the whole output. */
  offset: number;
}

class OutputRing {
  /** Offset of the oldest byte in memory, and the offset after the newest. */
  start = 0;
  end = 0;
  readonly #bytes: number;
  #pieces: PositionedPiece[] = [];
  /** Pieces before this index are removed; the array is shortened in bulk. */
  #first = 0;

  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  /** True when one more piece of this size would exceed the limits. */
  overflows(bytes: number): boolean {
    return this.end - this.start + bytes > this.#bytes || this.isFull;
  }

  /** True at the maximum number of pieces. */
  get isFull(): boolean {
    return this.#count >= MAX_PIECES;
  }

  get #count(): number {
    return this.#pieces.length - this.#first;
  }

  push(fd: 1 | 2, data: Uint8Array): void {
    const last = this.#pieces.length > this.#first ? this.#pieces.at(-1) : undefined;
    if (last?.fd === fd && last.data.length + data.length <= MAX_MERGED_BYTES) {
      this.#pieces[this.#pieces.length - 1] = { ...last, data: Buffer.concat([last.data, data]) };
    } else {
      // A small view would hold its whole buffer in memory.
      const own = data.length * 2 < data.buffer.byteLength ? data.slice() : data;
      this.#pieces.push({ fd, data: own, offset: this.end });
    }
    this.end += data.length;
  }

  /** Removes the oldest bytes until the rest fits, but none at or after `floor`. */
  trim(floor: number): void {
    while (this.start < floor && (this.end - this.start > this.#bytes || this.#count > MAX_PIECES)) {
      const piece = this.#pieces[this.#first];
      if (!piece) return;
      const excess = this.end - this.start - this.#bytes;
      const cut = Math.min(excess > 0 ? excess : piece.data.length, floor - this.start);
      if (cut < piece.data.length) {
        this.#pieces[this.#first] = { ...piece, data: piece.data.slice(cut), offset: piece.offset + cut };
        this.start += cut;
      } else {
        this.start += piece.data.length;
        this.#first += 1;
      }
    }
    if (this.#first * 2 > this.#pieces.length) {
      this.#pieces = this.#pieces.slice(this.#first);
      this.#first = 0;
    }
  }

  /** Returns all pieces in memory, oldest first. */
  pieces(): readonly Piece[] {
    return this.#pieces.slice(this.#first);
  }

  /** Returns the bytes from `offset` to the end of its piece. `offset` must be at least `start` and below `end`. */
  at(offset: number): Piece {
    let low = this.#first;
    for (let high = this.#pieces.length - 1; low < high; ) {
      const middle = (low + high + 1) >> 1;
      if ((this.#pieces[middle]?.offset ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    const piece = this.#pieces[low];
    if (!piece) throw new RangeError(`byte ${offset} is not between ${this.start} and ${this.end}`);
    return { fd: piece.fd, data: piece.data.subarray(offset - piece.offset) };
  }
}

/** Small pieces of one stream are merged up to this size, because each piece has a cost. */
const MAX_MERGED_BYTES = 4096;
const MAX_PIECES = 4096;
