/** The walk and the search of a Grep, in its Worker. */

import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { basename } from "node:path";
import { SyscallError } from "rnix/plugin";
import { binaryKind } from "../content/read-chunks.ts";
import { cutText, shownPath, sizeText } from "../display.ts";
import { errnoOf } from "../errors.ts";
import type { GrepInput } from "../tools.ts";
import { pathFilter } from "./glob-pattern.ts";
import { LinePattern } from "./line-pattern.ts";
import { type Allows, permittedBatches, refusedLine } from "./permitted-files.ts";
import { type FoundFile, inFolder, leftOut, pathIn, type WalkGaps, walk } from "./walk.ts";

const DEFAULT_LINES = 250;
const DEFAULT_FILES = 100;
/** Of all files together. */
const MAX_BYTES = 2 * 1024 * 1024 * 1024;
const ANSWER_CHARS = 60_000;

export interface GrepRequest {
  op: "grep";
  cwd: string;
  input: GrepInput;
  /** Real: a folder, or the file that is open as `fd`. */
  start: string;
  fd?: number;
}

/** Searches the lines of one file, or of all below a folder, in the order of their names. */
export async function grepSearch(request: GrepRequest, allows: Allows): Promise<string> {
  const search = new GrepSearch(request);
  if (request.fd !== undefined) return search.file(request.fd);
  const gaps: WalkGaps = { unreadable: 0, stopped: false };
  const { glob } = request.input;
  const fits = glob === undefined ? () => true : pathFilter(glob);
  const isWanted = ({ relative }: FoundFile): boolean => fits(relative);
  const candidates = walk(request.start, gaps).filter(({ isLink }) => !isLink);
  for await (const { allowed, refused } of permittedBatches(candidates, allows, isWanted)) {
    search.refused += refused;
    for (const [folder, files] of byFolder(allowed)) search.inFolder(folder, files);
    if (search.full) break;
  }
  return search.answer(gaps);
}

/** Consecutive files of one folder together. */
function* byFolder(files: readonly FoundFile[]): Generator<[folder: string, files: FoundFile[]]> {
  let from = 0;
  for (const [index, { folder }] of files.entries()) {
    if (files[index + 1]?.folder === folder) continue;
    yield [folder, files.slice(from, index + 1)];
    from = index + 1;
  }
}

/** One search: what it found, what it left out, and when it stops. */
class GrepSearch {
  refused = 0;
  readonly #request: GrepRequest;
  readonly #files: FileSearch;
  readonly #lines: string[] = [];
  readonly #limit: number;
  readonly #skipped = { binary: 0, large: 0, unreadable: 0 };
  #chars = 0;
  /** Files or lines towards the limit. */
  #counted = 0;
  #bytes = 0;
  #stopped: string | undefined;

  constructor(request: GrepRequest) {
    const { pattern, case_insensitive: ignoreCase = false, head_limit, output_mode } = request.input;
    this.#request = request;
    this.#files = new FileSearch(new LinePattern(pattern, { ignoreCase }));
    this.#limit = head_limit ?? (output_mode === "content" ? DEFAULT_LINES : DEFAULT_FILES);
  }

  get full(): boolean {
    return this.#stopped !== undefined;
  }

  /** Searches a file given by name; fails if it can't be searched. */
  file(fd: number): string {
    const { start } = this.#request;
    const searched = this.#search(start, (take) => this.#files.open(fd, take));
    const shown = this.#shown(start);
    if ("binary" in searched)
      throw new SyscallError("INVALID", `${shown} is a binary file (${searched.binary}): it has no lines.`);
    if ("large" in searched) {
      const message = `${shown} has ${sizeText(searched.large)}; Grep takes files up to ${sizeText(MAX_FILE_BYTES)}. Read it in parts, or search it with a command.`;
      throw new SyscallError("INVALID", message);
    }
    return this.answer({ unreadable: 0, stopped: false });
  }

  /**
   * Searches files of one folder that a walk has found, and counts those that can't be searched. They are opened in the
   * open folder, so they are the checked files, even if its path now leads elsewhere.
   */
  inFolder(folder: string, files: readonly FoundFile[]): void {
    let done = 0;
    try {
      inFolder(folder, (at) => {
        for (const { name } of files) {
          if (this.full) return;
          this.#found(pathIn(folder, name), pathIn(at, name));
          done++;
        }
      });
    } catch (thrown) {
      if (errnoOf(thrown) === "") throw thrown;
    }
    // The folder was deleted or replaced since it was listed.
    if (!this.full) this.#skipped.unreadable += files.length - done;
  }

  answer(gaps: WalkGaps): string {
    const { start, input } = this.#request;
    const lines = [...this.#lines];
    if (this.#counted === 0) lines.push(`Nothing in ${this.#shown(start)} matches ${input.pattern}.`);
    if (this.#stopped !== undefined) lines.push(`[${this.#stopped}]`);
    const { binary, large, unreadable } = this.#skipped;
    if (binary > 0) lines.push(`[Not searched: ${binary} binary ${binary === 1 ? "file" : "files"}.]`);
    if (large > 0) lines.push(`[Not searched: ${large} over ${sizeText(MAX_FILE_BYTES)}.]`);
    if (unreadable > 0) lines.push(`[Not searched: ${unreadable} that could not be read.]`);
    // A search that stopped has not counted all of them, and where it stopped depends on the pattern.
    const refused = this.full ? [] : refusedLine(this.refused);
    return [...lines, ...refused, ...leftOut(gaps)].join("\n");
  }

  #found(path: string, at: string): void {
    try {
      const searched = this.#search(path, (take) => this.#files.path(at, take));
      if ("binary" in searched) this.#skipped.binary++;
      else if ("large" in searched) this.#skipped.large++;
    } catch (thrown) {
      // Deleted or replaced since it was listed, or not readable for this user.
      if (errnoOf(thrown) === "") throw thrown;
      this.#skipped.unreadable++;
    }
  }

  #search(path: string, search: (take: (line: Line) => boolean) => FileOutcome): FileOutcome {
    const { output_mode: mode = "files_with_matches", context = 0 } = this.#request.input;
    let report: Report | undefined;
    let matches = 0;
    const searched = search((line) => {
      if (line.matched) matches++;
      if (mode === "content") {
        report ??= new Report(this.#shown(path), context);
        for (const text of report.add(line)) this.#addLine(text);
        if (line.matched) this.#count("lines");
      }
      return !this.full && !(mode === "files_with_matches" && matches > 0);
    });
    if (matches > 0 && mode !== "content") {
      const shown = this.#shown(path);
      this.#addLine(mode === "count" ? `${shown}:${matches}` : shown);
      this.#count("files");
    }
    if ("bytes" in searched) this.#spend(searched.bytes);
    return searched;
  }

  #shown(path: string): string {
    return shownPath(this.#request.cwd, path);
  }

  #addLine(text: string): void {
    this.#lines.push(text);
    this.#chars += text.length + 1;
    if (this.#chars > ANSWER_CHARS)
      this.#stopped ??= "The answer is long enough and stops here. Narrow the pattern, the path or the glob.";
  }

  #count(what: "lines" | "files"): void {
    if (++this.#counted < this.#limit) return;
    this.#stopped ??= `Stopped after ${this.#limit} ${what}; there may be more. Narrow the search or raise head_limit.`;
  }

  #spend(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > MAX_BYTES)
      this.#stopped ??= `Stopped after ${sizeText(MAX_BYTES)} of text. Search in a folder further down.`;
  }
}

/** The lines of one file as they are shown: `name:12:match`, `name-11-context`, `--` between groups. */
class Report {
  readonly #name: string;
  readonly #context: number;
  readonly #before: Line[] = [];
  #after = 0;
  #last = 0;

  constructor(name: string, context: number) {
    this.#name = name === "." ? basename(name) : name;
    this.#context = context;
  }

  add(line: Line): string[] {
    if (!line.matched) {
      if (this.#after-- > 0) return [this.#shown(line, "-")];
      this.#before.push(line);
      if (this.#before.length > this.#context) this.#before.shift();
      return [];
    }
    const before = this.#before.splice(0);
    const first = before[0]?.number ?? line.number;
    const gap = this.#context > 0 && this.#last > 0 && first > this.#last + 1 ? ["--"] : [];
    const shown = [...gap, ...before.map((each) => this.#shown(each, "-")), this.#shown(line, ":")];
    this.#after = this.#context;
    return shown;
  }

  #shown(line: Line, mark: string): string {
    this.#last = line.number;
    return `${this.#name}${mark}${line.number}${mark}${line.text}`;
  }
}

const MAX_FILE_BYTES = 50 * 1024 * 1024;
const CHUNK_BYTES = 1024 * 1024;
const OPEN_READ = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;

/** The outcome for one file: bytes searched, the kind of a binary file, or the size of one too large. */
type FileOutcome = { bytes: number } | { binary: string } | { large: number };

/** Searches files one after the other with one buffer. It is synchronous, so it runs in a Worker. */
class FileSearch {
  readonly #pattern: LinePattern;
  readonly #decoder = new TextDecoder();
  readonly #buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);

  constructor(pattern: LinePattern) {
    this.#pattern = pattern;
  }

  /** Searches the file at a path that is not a symlink. */
  path(path: string, take: (line: Line) => boolean): FileOutcome {
    const fd = openSync(path, OPEN_READ);
    try {
      return this.open(fd, take);
    } finally {
      closeSync(fd);
    }
  }

  /** Searches an open file. `take` gets every line until it returns false. */
  open(fd: number, take: (line: Line) => boolean): FileOutcome {
    const stat = fstatSync(fd);
    if (!stat.isFile()) return { binary: "no regular file" };
    if (stat.size > MAX_FILE_BYTES) return { large: stat.size };
    const buffer = this.#buffer;
    const length = readSync(fd, buffer, 0, CHUNK_BYTES, 0);
    const first = buffer.subarray(0, length);
    const binary = binaryKind(first);
    if (binary !== undefined) return { binary };
    const isWhole = length < CHUNK_BYTES;
    if (isWhole && !this.#pattern.mayMatchIn(this.#decoder.decode(first))) return { bytes: length };
    return { bytes: this.#lines(fd, first, take) };
  }

  #lines(fd: number, first: Buffer, take: (line: Line) => boolean): number {
    const lines = new LineReader(this.#pattern);
    let chunk = first;
    let position = 0;
    while (chunk.length > 0) {
      position += chunk.length;
      if (!lines.add(chunk, take)) return position;
      chunk = this.#buffer.subarray(0, readSync(fd, this.#buffer, 0, CHUNK_BYTES, position));
    }
    lines.end(take);
    return position;
  }
}

interface Line {
  /** Counted from 1. */
  number: number;
  matched: boolean;
  /** The text to show: all of it, or a part around the match. */
  text: string;
}

/** Characters that are shown of a long line. */
const SHOWN_CHARS = 500;
/** Of these, characters before the match. */
const BEFORE_MATCH = 200;

/** Splits the bytes of a file into lines and matches each one. */
class LineReader {
  readonly #pattern: LinePattern;
  /** Drops a byte order mark and makes invalid UTF-8 visible. */
  readonly #decoder = new TextDecoder();
  #number = 0;
  #rest = "";

  constructor(pattern: LinePattern) {
    this.#pattern = pattern;
  }

  /** Calls `take` for each complete line. Returns false once `take` has returned false. */
  add(chunk: Uint8Array, take: (line: Line) => boolean): boolean {
    const text = this.#decoder.decode(chunk, { stream: true });
    let start = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", start)) {
      const line = this.#rest + text.slice(start, end);
      this.#rest = "";
      start = end + 1;
      if (!take(this.#lineOf(line))) return false;
    }
    this.#rest += text.slice(start);
    return true;
  }

  /** Passes the last line, if no newline ended it. */
  end(take: (line: Line) => boolean): void {
    const line = this.#rest + this.#decoder.decode();
    if (line !== "" && line !== "\r") take(this.#lineOf(line));
  }

  #lineOf(line: string): Line {
    const text = line.endsWith("\r") ? line.slice(0, -1) : line;
    const matched = this.#pattern.matches(text);
    return { number: ++this.#number, matched, text: this.#shown(text, matched) };
  }

  #shown(text: string, matched: boolean): string {
    if (text.length <= SHOWN_CHARS) return text;
    const wanted = matched ? this.#pattern.positionIn(text) - BEFORE_MATCH : 0;
    const start = Math.max(0, Math.min(wanted, text.length - SHOWN_CHARS));
    const part = cutText(text.slice(start).replace(/^[\uDC00-\uDFFF]/, ""), SHOWN_CHARS);
    return `${start > 0 ? "…" : ""}${part}… [line of ${text.length} characters, cut]`;
  }
}
