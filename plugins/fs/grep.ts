import { lstat } from "node:fs/promises";
import { basename } from "node:path";
import { type OpenContext, SyscallError } from "rnix/plugin";
import { chunks } from "./chunks.ts";
import type { Confinement, OpenedFile } from "./confinement.ts";
import { errnoOf, systemError } from "./errors.ts";
import { pathFilter } from "./glob.ts";
import type { Input } from "./inputs.ts";
import { binaryKind, sizeText } from "./kind.ts";
import { LineMatcher } from "./line-matcher.ts";
import { type Line, LineReader } from "./line-reader.ts";
import { Pace } from "./pace.ts";
import { leftOut, type WalkNotes, walk } from "./walk.ts";

const DEFAULT_LINES = 250;
const DEFAULT_FILES = 100;
const MAX_FILE_BYTES = 50 * 1024 * 1024;
/** Of all files together. */
const MAX_BYTES = 2 * 1024 * 1024 * 1024;
const ANSWER_CHARS = 60_000;
/** What opening a file costs, in bytes looked at. */
const FILE_COST = 2_048;

/** Searches the lines of one file, or of all below a folder, in the order of their names. */
export async function grep(
  confinement: Confinement,
  context: OpenContext,
  input: Input<"grep">,
  signal: AbortSignal,
): Promise<string> {
  const matcher = new LineMatcher(input.pattern, { ignoreCase: input.case_insensitive ?? false });
  const start = await confinement.existing(input.path ?? context.cwd);
  const search = new Search(confinement, input, matcher, signal);
  const info = await lstat(start).catch((thrown) => {
    throw systemError(thrown, `search ${input.path ?? context.cwd}`);
  });
  if (!info.isDirectory()) {
    await search.named(start);
    return search.answer({ unreadable: 0, cut: false }, start);
  }
  const fits = input.glob === undefined ? () => true : pathFilter(input.glob);
  const notes: WalkNotes = { unreadable: 0, cut: false };
  for await (const found of walk(start, notes, signal)) {
    if (search.full) break;
    if (!found.isLink && fits(found.relative)) await search.found(found.path);
  }
  return search.answer(notes, start);
}

/** One search: what it has found, what it has left out, and when it has enough. */
class Search {
  readonly #confinement: Confinement;
  readonly #input: Input<"grep">;
  readonly #matcher: LineMatcher;
  readonly #signal: AbortSignal;
  readonly #pace: Pace;
  readonly #lines: string[] = [];
  readonly #limit: number;
  readonly #skipped = { binary: 0, large: 0, unreadable: 0 };
  #chars = 0;
  /** Files or lines towards the limit. */
  #counted = 0;
  #bytes = 0;
  #stopped: string | undefined;

  constructor(confinement: Confinement, input: Input<"grep">, matcher: LineMatcher, signal: AbortSignal) {
    this.#confinement = confinement;
    this.#input = input;
    this.#matcher = matcher;
    this.#signal = signal;
    this.#pace = new Pace(signal);
    this.#limit = input.head_limit ?? (input.output_mode === "content" ? DEFAULT_LINES : DEFAULT_FILES);
  }

  get full(): boolean {
    return this.#stopped !== undefined;
  }

  /** A file that was asked for by name: whatever is wrong with it is an error. */
  async named(path: string): Promise<void> {
    const file = await this.#confinement.open(path);
    const binary = await this.#search(file);
    if (binary !== undefined) {
      throw new SyscallError(
        "INVALID",
        `${this.#confinement.shown(path)} is a binary file (${binary}): it has no lines.`,
      );
    }
    if (this.#skipped.large > 0) {
      const size = sizeText(file.stat.size);
      throw new SyscallError(
        "INVALID",
        `${this.#confinement.shown(path)} has ${size}; Grep takes files up to ${sizeText(MAX_FILE_BYTES)}. Read it in parts, or search it with a command.`,
      );
    }
  }

  /** A file that a walk has found: what can't be searched is counted. */
  async found(path: string): Promise<void> {
    if (this.#pace.spent(FILE_COST)) await this.#pace.rest();
    try {
      if ((await this.#search(await this.#confinement.openReal(path))) !== undefined) this.#skipped.binary++;
    } catch (thrown) {
      const error = systemError(thrown, `search ${path}`);
      // Gone, or become something else, since it was listed.
      const expected =
        error.code === "NOT_FOUND" || error.code === "PERMISSION" || errnoOf(error.cause) !== "";
      if (!expected) throw error;
      this.#skipped.unreadable++;
    }
  }

  answer(notes: WalkNotes, start: string): string {
    const lines = [...this.#lines];
    if (this.#counted === 0) {
      lines.push(`Nothing in ${this.#confinement.shown(start)} matches ${this.#input.pattern}.`);
    }
    if (this.#stopped !== undefined) lines.push(`[${this.#stopped}]`);
    const { binary, large, unreadable } = this.#skipped;
    if (binary > 0) lines.push(`[Not searched: ${binary} binary ${binary === 1 ? "file" : "files"}.]`);
    if (large > 0) lines.push(`[Not searched: ${large} over ${sizeText(MAX_FILE_BYTES)}.]`);
    if (unreadable > 0) lines.push(`[Not searched: ${unreadable} that could not be read.]`);
    return [...lines, ...leftOut(notes)].join("\n");
  }

  /** Closes the file. Returns the kind of a binary one. */
  async #search(file: OpenedFile): Promise<string | undefined> {
    try {
      if (file.stat.size > MAX_FILE_BYTES) {
        this.#skipped.large++;
        return undefined;
      }
      return await this.#searchOpen(file);
    } finally {
      await file.handle.close();
    }
  }

  async #searchOpen(file: OpenedFile): Promise<string | undefined> {
    const shown = this.#confinement.shown(file.path);
    const mode = this.#input.output_mode ?? "files_with_matches";
    const report = mode === "content" ? new Report(shown, this.#input.context ?? 0) : undefined;
    const lines = new LineReader(this.#matcher, this.#pace);
    let matches = 0;
    const take = (line: Line): boolean => {
      if (line.matched) matches++;
      if (report) for (const text of report.add(line)) this.#say(text);
      if (line.matched && report) this.#count("lines");
      return !this.full && !(mode === "files_with_matches" && matches > 0);
    };
    let first = true;
    for await (const chunk of chunks(file.handle, this.#signal)) {
      const binary = first ? binaryKind(chunk) : undefined;
      if (binary !== undefined) return binary;
      first = false;
      this.#spend(chunk.length);
      if (!(await lines.add(chunk, take))) break;
    }
    if (!lines.stopped) await lines.end(take);
    if (matches > 0 && !report) {
      this.#say(mode === "count" ? `${shown}:${matches}` : shown);
      this.#count("files");
    }
    return undefined;
  }

  #say(text: string): void {
    this.#lines.push(text);
    this.#chars += text.length + 1;
    if (this.#chars > ANSWER_CHARS) {
      this.#stopped ??= "The answer is long enough and stops here. Narrow the pattern, the path or the glob.";
    }
  }

  #count(what: "lines" | "files"): void {
    if (++this.#counted < this.#limit) return;
    this.#stopped ??= `Stopped after ${this.#limit} ${what}; there may be more. Narrow the search or raise head_limit.`;
  }

  #spend(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > MAX_BYTES) {
      this.#stopped ??= `Stopped after ${sizeText(MAX_BYTES)} of text. Search in a folder further down.`;
    }
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
      if (this.#after > 0) {
        this.#after--;
        return [this.#shown(line, "-")];
      }
      if (this.#context > 0) {
        this.#before.push(line);
        if (this.#before.length > this.#context) this.#before.shift();
      }
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
