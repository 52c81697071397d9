import { type FileHandle, mkdir, open } from "node:fs/promises";
import { dirname } from "node:path";
import { SyscallError } from "../plugin/index.ts";
import { OutputRing, type Piece } from "./output-ring.ts";

export interface OutputLimits {
  /** Kept in memory: the last so many bytes. */
  memoryBytes: number;
  /** Kept in the file: the first so many bytes. */
  diskBytes: number;
  /** A reader that takes nothing for so long, while the program waits for it, counts as gone. */
  readerMs: number;
}

/** Passes bytes on without what nobody is to see; the last ones may be held back until more come, or the end. */
export interface Redactor {
  push(data: Uint8Array): Uint8Array;
  end(): Uint8Array;
}

/**
 * What one program prints. The last bytes are in memory; as soon as there are more than fit there, the whole
 * output is in a file too, up to a cap. A reader gets every byte in the order it came, from wherever it is.
 * It is waited for only when bytes would be lost otherwise, and not at all when nobody reads.
 */
export class Output {
  readonly #path: string;
  readonly #limits: OutputLimits;
  readonly #onFault: (error: SyscallError) => void;
  readonly #ring: OutputRing;
  readonly #redactors: Record<1 | 2, Redactor> | undefined;

  #file: FileHandle | undefined;
  #spilling = false;
  /** No more goes to the file: full, failed or finished. */
  #fileClosed = false;
  /** Bytes handed to the file, and of these the ones that are there. */
  #queued = 0;
  #onDisk = 0;
  /** Settles when everything handed to the file is there, or has failed. Never rejects. */
  #writing: Promise<void> = Promise.resolve();
  /** Signed lengths of what is in the file: positive from stdout, negative from stderr. */
  readonly #runs: number[] = [];

  #reader: "expected" | "reading" | "none" = "expected";
  #readAt = 0;
  /** The run in `#runs` that was read from last, and the place where it begins. */
  #run = 0;
  #runStart = 0;
  #reading = false;
  #onData: (() => void) | undefined;
  #onRoom: (() => void)[] = [];
  /** Bytes that memory may hold over its limit, once the program has ended. */
  #slack = 0;
  #finished = false;

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

  /** Takes what came. Resolves when more may come: at once, or when the file or the reader has caught up. */
  async push(fd: 1 | 2, data: Uint8Array): Promise<void> {
    if (data.length === 0) return;
    while (this.#mustWait(data.length)) await this.#room();
    this.#take(fd, data);
    this.#ring.trim(this.#floor());
    if (this.#queued > this.#onDisk) await this.#writing;
  }

  /** As `push`, where the program can't be made to wait: a reader that is too slow misses bytes. */
  pushNow(fd: 1 | 2, data: Uint8Array): void {
    this.#take(fd, data);
    this.#ring.trim(this.#ring.end);
  }

  /**
   * The next piece; null when no more comes. EXHAUSTED, once, where bytes are missing: they were beyond the
   * cap, and nobody read them in time.
   */
  async read(): Promise<Piece | null> {
    if (this.#reading) {
      throw new SyscallError(
        "INVALID",
        "This program's output is being read already. Wait for that read first.",
      );
    }
    this.#reading = true;
    this.#reader = "reading";
    try {
      while (this.#readAt >= this.#ring.end) {
        if (this.#finished) return null;
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

  /** Nobody will read, as it seems, so the program is not kept waiting. A read changes that. */
  readerNotExpected(): void {
    if (this.#reader === "expected") this.#loseReader();
  }

  /** Something is on its way to the file. */
  get writing(): boolean {
    return this.#queued > this.#onDisk;
  }

  /** The program has ended: what is left in its pipes is taken even when the reader is behind. */
  drain(): void {
    this.#slack = PIPE_BYTES;
    this.#wakeWriters();
  }

  /** No more comes. Closes the file; what was kept stays readable. */
  async finish(): Promise<void> {
    for (const fd of [1, 2] as const) this.#keep(fd, this.#redactors?.[fd].end() ?? NOTHING);
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
    return this.#onDisk > 0
      ? { outputFile: this.#path, outputBytes, droppedBytes }
      : { outputBytes, droppedBytes };
  }

  #take(fd: 1 | 2, data: Uint8Array): void {
    this.#keep(fd, this.#redactors?.[fd].push(data) ?? data);
  }

  #keep(fd: 1 | 2, data: Uint8Array): void {
    if (this.#finished || data.length === 0) return;
    this.#spill(fd, data);
    this.#ring.push(fd, data);
    this.#onData?.();
  }

  /** True while these bytes would make memory hold more unread ones than it may. One piece always fits. */
  #mustWait(bytes: number): boolean {
    if (this.#finished || this.#reader === "none") return false;
    const unread = this.#ring.end - this.#floor();
    if (unread <= 0) return false;
    if (this.#slack > 0) return unread + bytes > this.#limits.memoryBytes + this.#slack;
    return unread + bytes > this.#limits.memoryBytes || this.#ring.crowded;
  }

  /** Up to here, bytes in memory are needed by nobody: read, or in the file, or without a reader. */
  #floor(): number {
    if (this.#reader === "none") return this.#ring.end;
    return Math.min(this.#ring.end, Math.max(this.#readAt, this.#fileEnd()));
  }

  /** So many bytes the file holds, or will hold when as many come. */
  #fileEnd(): number {
    return this.#fileClosed ? this.#queued : this.#limits.diskBytes;
  }

  async #room(): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    await new Promise<void>((resolve) => {
      this.#onRoom.push(resolve);
      timer = setTimeout(() => this.#loseReader(), this.#limits.readerMs);
    });
    clearTimeout(timer);
  }

  #loseReader(): void {
    this.#reader = "none";
    this.#wakeWriters();
  }

  #wakeWriters(): void {
    for (const wake of this.#onRoom.splice(0)) wake();
  }

  /** Begins the file when memory can't hold everything any more; in order and without a hole, up to the cap. */
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
    // A terminal can't be made to wait: rather than grow without a bound, the file ends here.
    const tooFar = this.#queued - this.#onDisk > MAX_UNWRITTEN;
    const room = tooFar ? 0 : Math.min(data.length, this.#limits.diskBytes - this.#queued);
    if (room < data.length) this.#fileClosed = true;
    if (room <= 0) return;
    this.#queued += room;
    this.#noteRun(fd, room);
    this.#writing = this.#writing.then(() => this.#write(data.subarray(0, room)));
  }

  /** Beyond a bound, stdout and stderr are no longer told apart in the file. */
  #noteRun(fd: 1 | 2, length: number): void {
    const last = this.#runs.at(-1) ?? 0;
    const sameStream = fd === 1 ? last > 0 : last < 0;
    if (sameStream || this.#runs.length >= MAX_RUNS)
      this.#runs[this.#runs.length - 1] = last + Math.sign(last) * length;
    else this.#runs.push(fd === 1 ? length : -length);
  }

  async #write(part: Uint8Array): Promise<void> {
    if (this.#queued < this.#onDisk + part.length) return; // An earlier part failed: no hole is made.
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
      this.#onFault(fault("cannot be written; the rest of this output is dropped", this.#path, cause));
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
      `${missing} bytes of output are missing here: they were not read in time, and only the first ${this.#onDisk} bytes are kept on disk. Reading goes on behind them; read faster or allow a larger maxOutput.`,
    );
  }
}

/** The most a pipe holds unless an administrator allows more (pipe(7)). */
const NOTHING = new Uint8Array(0);
const PIPE_BYTES = 1024 * 1024;
const READ_BYTES = 64 * 1024;
const MAX_UNWRITTEN = 4 * 1024 * 1024;
const MAX_RUNS = 100_000;

async function readBack(path: string, from: number, length: number): Promise<Uint8Array> {
  let data: Uint8Array;
  try {
    data = await Bun.file(path)
      .slice(from, from + length)
      .bytes();
  } catch (cause) {
    throw fault("cannot be read back", path, cause);
  }
  if (data.length === 0)
    throw fault("cannot be read back", path, new Error("it is shorter than what was written"));
  return data;
}

function fault(what: string, path: string, cause: unknown): SyscallError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new SyscallError("INTERNAL", `The file of a program's output, ${path}, ${what}: ${reason}`, {
    cause,
  });
}

/** The file of one program's output, in its owner's folder. `id`: the kernel's and a number, no other's ever. */
export function outputName(id: string): string {
  return `output-${id}.log`;
}

/** The same text whichever program's file it names: two that print the same are told apart by that alone. */
export function withoutOutputNames(text: string): string {
  return text.replace(OUTPUT_NAME, "output.log");
}

const OUTPUT_NAME = /\boutput-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.\d+\.log\b/g;
