/** What the input line offers while a person types: `/commands` with their descriptions, and `@files`. */

import { type Stats, statSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { unlessSystemError } from "../../lib/regular-file.ts";
import { fuzzyFind, fuzzyScore } from "./fuzzy.ts";
import type { ProjectFiles } from "./project-files.ts";

const MAX_SUGGESTIONS = 50;

export interface Suggestion {
  /** Replaces the typed part. */
  text: string;
  label: string;
  about: string;
  /** A folder: the next part can be typed right behind it. */
  goesOn?: boolean;
  /** A command that waits for its arguments. */
  needsMore?: boolean;
}

export interface Suggestions {
  /** `history`: past messages, which replace the whole text. */
  kind: "command" | "argument" | "file" | "history";
  /** Where the typed part begins, in the line; it ends at the cursor. */
  from: number;
  items: Suggestion[];
}

export interface CompletableCommand {
  /** Without the slash. A name that ends in ":" is the beginning of names, which `values` completes. */
  name: string;
  about: string;
  /** Such as `[model]`. */
  hint?: string;
  /** The values of its argument, with what they mean. Asked while the argument is typed. */
  values?(): Promise<readonly { value: string; about: string }[]>;
}

interface CompletionSources {
  commands(): readonly CompletableCommand[];
  files: Pick<ProjectFiles, "entries" | "complete"> | null;
  cwd: string;
}

/** Suggests what may follow the text before the cursor. */
export class Completer {
  readonly #sources: CompletionSources;

  constructor(sources: CompletionSources) {
    this.#sources = sources;
  }

  /** What is known at once: the names of commands. `isFirstLine`: commands stand at the beginning only. */
  now(before: string, isFirstLine: boolean): Suggestions | null {
    const typed = isFirstLine ? /^\/(\S*)$/.exec(before)?.[1] : undefined;
    if (typed === undefined || this.#argument(before)) return null;
    const query = typed.toLowerCase();
    const scored = this.#sources.commands().flatMap((command, at) => {
      const score = commandScore(query, command.name);
      return score === null ? [] : [{ command, score, at }];
    });
    scored.sort((a, b) => b.score - a.score || a.at - b.at);
    const items = scored.map(({ command: { name, about, hint } }) => ({
      text: name.endsWith(":") ? `/${name}` : `/${name} `,
      label: hint === undefined ? `/${name}` : `/${name} ${hint}`,
      about,
      goesOn: name.endsWith(":"),
      needsMore: takesArguments(hint),
    }));
    return { kind: "command", from: 0, items: items.slice(0, MAX_SUGGESTIONS) };
  }

  /** What takes a moment: files, and the values of a command's argument. null: nothing fits, or `signal` ended it. */
  async soon(before: string, isFirstLine: boolean, signal: AbortSignal): Promise<Suggestions | null> {
    const file = fileTyped(before);
    if (file !== null) return this.#files(file, signal);
    const argument = isFirstLine ? this.#argument(before) : null;
    if (argument === null) return null;
    const { typed, isName } = argument;
    const values = await argument.values();
    if (signal.aborted) return null;
    const about = new Map(values.map(({ value, about }) => [value, about]));
    const found = await fuzzyFind(typed, [...about.keys()], MAX_SUGGESTIONS, signal);
    const items = (found ?? []).map((value) => ({
      text: isName ? `${value} ` : value,
      label: value,
      about: about.get(value) ?? "",
      needsMore: isName && takesArguments(about.get(value)),
    }));
    return items.length === 0 ? null : { kind: "argument", from: before.length - typed.length, items };
  }

  /** The argument that is being typed, or the rest of a name behind ":". The commands are read from files. */
  #argument(before: string): TypedArgument | null {
    const [, begin, rest, name = begin, word = rest] =
      /^\/(?:([^\s:]+:)(\S*)|(\S+) +(\S*))$/.exec(before) ?? [];
    if (name === undefined || word === undefined) return null;
    const values = this.#sources.commands().find((command) => command.name === name)?.values;
    return values === undefined ? null : { typed: word, values, isName: begin !== undefined };
  }

  async #files(typed: TypedFile, signal: AbortSignal): Promise<Suggestions | null> {
    const isElsewhere = /^(?:\/|~|\.\.?(?:\/|$))/.test(typed.path);
    const { cwd } = this.#sources;
    const paths = await (isElsewhere ? inFolder(typed.path, cwd) : this.#found(typed.path, signal));
    if (paths === null || paths.length === 0) return null;
    const items = paths.map((path) => {
      const goesOn = path.endsWith("/");
      return { text: fileMention(path) + (goesOn ? "" : " "), label: path, about: "", goesOn };
    });
    return { kind: "file", from: typed.from, items };
  }

  async #found(query: string, signal: AbortSignal): Promise<string[] | null> {
    const { files } = this.#sources;
    if (files === null) return null;
    if (files.entries.length === 0) await files.complete;
    if (signal.aborted) return null;
    return fuzzyFind(query, files.entries, MAX_SUGGESTIONS, signal);
  }
}

/** Names of pictures, which are sent as such. */
export const IMAGE = /\.(?:png|jpe?g|gif|webp)$/i;

/** `@path` as it stands in a message; quoted where the path has spaces. */
export function fileMention(path: string): string {
  if (!/[\s"']/.test(path)) return `@${path}`;
  // An open quote behind a folder, so that the next part can be typed.
  return path.endsWith("/") ? `@"${path}` : `@"${path}"`;
}

/** The paths that a message mentions as `@path` or `@"a path"`, as written. */
export function mentionedPaths(text: string): string[] {
  const found = [...text.matchAll(/(?<=^|[\s([{])@(?:"([^"\n]+)"|([^\s"]+))/g)];
  return [
    ...new Set(found.map((match) => match[1] ?? (match[2] ?? "").replace(/[.,;:!?)\]}]+$/, ""))),
  ].filter((path) => path !== "");
}

/** The absolute path of a mention; `~/` is the home folder. */
export function mentionedFile(path: string, cwd: string): string {
  return resolve(cwd, path.replace(/^~(?=\/|$)/, homedir()));
}

/** Arguments are shown as `<name>` or `[name]`. */
function takesArguments(hint = ""): boolean {
  return /^[<[]/.test(hint);
}

interface TypedArgument extends Required<Pick<CompletableCommand, "values">> {
  typed: string;
  isName: boolean;
}

interface TypedFile {
  from: number;
  /** Without the `@` and the quote. */
  path: string;
}

/** The file that is being typed at the end of the text. */
function fileTyped(before: string): TypedFile | null {
  const match = /(?:^|[\s([{])(@(?:"([^"]*)|([^\s"]*)))$/.exec(before);
  if (match === null) return null;
  return { from: before.length - (match[1] ?? "").length, path: match[2] ?? match[3] ?? "" };
}

/** Prefixes before letters anywhere: `/re` is /resume and not /tree. A name after ":" can be meant alone. */
function commandScore(query: string, name: string): number | null {
  if (name.toLowerCase().startsWith(query)) return 1000;
  return fuzzyScore(query, name.replaceAll(":", "/"));
}

/** The entries of a folder outside the list, such as `../`, `~/` and `/tmp/`. */
async function inFolder(typed: string, cwd: string): Promise<string[]> {
  const path = /^(?:~|\.\.?)$/.test(typed) ? `${typed}/` : typed;
  const at = path.lastIndexOf("/") + 1;
  const [shown, begin] = [path.slice(0, at), path.slice(at).toLowerCase()];
  const dir = mentionedFile(shown, cwd);
  const entries = (await unlessSystemError(readdir(dir, { withFileTypes: true }))) ?? [];
  return entries
    .filter(({ name }) => name.toLowerCase().startsWith(begin) && (begin !== "" || !name.startsWith(".")))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .slice(0, MAX_SUGGESTIONS)
    .map((entry) => `${shown}${entry.name}${isFolder(entry, join(dir, entry.name)) ? "/" : ""}`);
}

function isFolder(entry: { isDirectory(): boolean; isSymbolicLink(): boolean }, path: string): boolean {
  if (!entry.isSymbolicLink()) return entry.isDirectory();
  return statOrNull(path)?.isDirectory() ?? false;
}

/** The path of a picture that was dropped on the terminal, which writes it quoted, escaped or as a URL. null for any other text. */
export function droppedImage(text: string, isFile: (path: string) => boolean): string | null {
  const line = text.trim();
  if (line.includes("\n") || line.length > 4096) return null;
  const unquoted = /^(["'])(.*)\1$/.exec(line)?.[2] ?? line.replace(/\\(.)/g, "$1");
  const path = unquoted.startsWith("file://") ? pathOfUrl(unquoted) : unquoted;
  return /^(?:\/|~\/)/.test(path) && IMAGE.test(path) && isFile(path) ? path : null;
}

function pathOfUrl(url: string): string {
  try {
    return decodeURIComponent(new URL(url).pathname);
  } catch {
    return url;
  }
}

/** null where nothing is, and where it can't be reached: a name too long, a path through a file, no access, a loop. */
export function statOrNull(path: string): Stats | null {
  if (path.includes("\0")) return null;
  try {
    return statSync(path, { throwIfNoEntry: false }) ?? null;
  } catch (error) {
    if (errnoOf(error) !== undefined) return null;
    throw error;
  }
}
