/** Reads a plugin and its imports without running them. */

import { dirname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { readRegular } from "../../lib/regular-file.ts";
import { SyscallError } from "../index.ts";
import type { Problem } from "./report.ts";
import { type FileDigest, MAX_SOURCE_BYTES, sha256 } from "./stock-files.ts";

export interface StaticCheck {
  /** All files of the plugin with its libraries, absolute. Trust binds them. */
  files: FileDigest[];
  /** Syntax errors, missing files, missing exports. Empty if it can be loaded. */
  problems: Problem[];
  /**
   * The plugin as one module, made of exactly these files. It runs as it was read, whatever changes meanwhile. null when
   * there are problems.
   */
  code: string | null;
}

/** The limit of files of one plugin with its libraries. */
const MAX_FILES = 5_000;

/** Reads a plugin and all its imports without running any code. */
export async function staticCheck(entry: string): Promise<StaticCheck> {
  const files = new Map<string, string>();
  const problems: Problem[] = [];
  const result = await Bun.build({
    entrypoints: [entry],
    target: "bun",
    format: "esm",
    sourcemap: "inline",
    env: "disable",
    external: ["rnix/plugin"],
    // Aliases in a project's tsconfig.json could redirect an import.
    tsconfig: "/dev/null",
    define: PLACES,
    // A file that is imported as a file keeps its own path: nothing is written.
    root: "/",
    publicPath: "/",
    naming: { asset: "[dir]/[name].[ext]" },
    throw: false,
    plugins: [
      {
        name: "read",
        setup(builder) {
          builder.onLoad({ filter: /.*/, namespace: "file" }, async ({ path, loader }) => {
            const contents = await readBounded(path);
            const problem = refusal(path, contents, files.size);
            if (contents) files.set(path, sha256(contents));
            if (contents && !problem) return asModule(path, contents, loader);
            if (problem) problems.push(problem);
            return { contents: "", loader: "js" };
          });
        },
      },
    ],
  });
  // The import of a refused file is not reported a second time.
  if (!result.success && problems.length === 0)
    problems.push(...result.logs.filter(({ level }) => level === "error").map(asProblem));
  const output = problems.length === 0 ? await result.outputs[0]?.text() : undefined;
  return { files: sorted(files), problems, code: output === undefined ? null : withWholePaths(output) };
}

/** null for anything but a regular file (reading a pipe would never end), and for a file above the limit. */
async function readBounded(path: string): Promise<Buffer | null> {
  try {
    return await readRegular(path, MAX_SOURCE_BYTES);
  } catch (thrown) {
    if (thrown instanceof SyscallError && thrown.code === "INVALID") return null;
    throw thrown;
  }
}

function refusal(file: string, contents: Buffer | null, count: number): Problem | undefined {
  if (!contents)
    return { file, message: `It is not a regular file of at most ${MAX_SOURCE_BYTES >> 20} MiB.` };
  if (count >= MAX_FILES) return { file, message: `The plugin has more than ${MAX_FILES} files.` };
  // Whatever its name: an import attribute can load any file as source.
  if (!mayUseMacro(contents.toString())) return undefined;
  return {
    file,
    message:
      "It uses a Bun macro, which would run before the plugin is trusted. Import the function and call it.",
  };
}

/** The constants for a file's own path, set before its first statement. */
const PLACES = {
  "import.meta.dir": "__rnixDir",
  "import.meta.dirname": "__rnixDir",
  "import.meta.path": "__rnixPath",
  "import.meta.filename": "__rnixPath",
  "import.meta.url": "__rnixUrl",
};

const SOURCE = /\.[cm]?[jt]sx?$/;

/**
 * The file as the bundler gets it. A source keeps its own path within the single module. For other files only Bun knows
 * the import attribute, which decides their type.
 */
function asModule(path: string, contents: Buffer, loader: Bun.Loader): Bun.OnLoadResult | undefined {
  const quoted = JSON.stringify(path);
  if (loader === "napi") {
    const open = `const m = { exports: {} }; process.dlopen(m, ${quoted}); module.exports = m.exports;`;
    return { contents: open, loader: "js" };
  }
  if (!SOURCE.test(path)) return undefined;
  if (!contents.includes("import.meta.")) return { contents, loader };
  const url = JSON.stringify(pathToFileURL(path).href);
  const own = `const __rnixDir = ${JSON.stringify(dirname(path))}, __rnixPath = ${quoted}, __rnixUrl = ${url};`;
  const text = contents.toString();
  // On the existing first line, so that line numbers stay, and after a hashbang, which must come first.
  const [hashbang = ""] = /^#!.*\n/.exec(text) ?? [];
  return { contents: `${hashbang}${own}${text.slice(hashbang.length)}`, loader };
}

const SOURCE_MAP = /\/\/# sourceMappingURL=data:application\/json;base64,([\w+/=]+)\s*$/;

interface SourceMap {
  sources: string[];
}

/** Makes Bun's relative source names absolute, so that errors name them from any folder. */
function withWholePaths(code: string): string {
  const encoded = SOURCE_MAP.exec(code)?.[1];
  if (encoded === undefined) return code;
  const map: SourceMap = JSON.parse(Buffer.from(encoded, "base64").toString());
  // Bun requires the list of contents; the texts themselves would only take memory.
  const sourcesContent = map.sources.map(() => "");
  const whole = { ...map, sourcesContent, sources: map.sources.map((source) => resolve(source)) };
  const data = Buffer.from(JSON.stringify(whole)).toString("base64");
  return code.replace(SOURCE_MAP, `//# sourceMappingURL=data:application/json;base64,${data}`);
}

function asProblem({ message, position }: BuildMessage | ResolveMessage): Problem {
  if (!position) return { message };
  const { file, line, column, lineText } = position;
  // The first line of the module has our constants before it.
  const source = lineText === "" || lineText.includes("__rnixDir") ? undefined : lineText;
  return { message, file, line, column, source };
}

function sorted(files: Map<string, string>): FileDigest[] {
  return [...files].map(([path, digest]) => ({ path, digest })).sort((a, b) => (a.path < b.path ? -1 : 1));
}

/**
 * Whether a source may use a Bun macro: an import with the attribute `type: "macro"`, or from "macro:…". Bun runs macros
 * in this process while it reads a file, and does not list them among the files. So a plugin would run when it is only
 * read, and code outside its list of files could change unnoticed. In doubt the answer is yes: for a source with an
 * attribute list and the string "macro" anywhere after it.
 */
export function mayUseMacro(source: string): boolean {
  const afterBlanks = blankSkipper(source);
  for (const { 0: word, index } of source.matchAll(/\b(?:from|import)\b/g)) {
    const start = afterBlanks(index + word.length);
    if (/^["']/.test(source.charAt(start)) && unescaped(quoted(source, start)).startsWith("macro:"))
      return true;
  }
  for (const { 0: word, index } of source.matchAll(/\b(?:with|assert)\b/g)) {
    const start = afterBlanks(index + word.length);
    // After the first list the whole rest is searched, so that no comment or string can hide a macro.
    if (source.charAt(start) === "{") return /["'`]macro["'`]/.test(unescaped(source.slice(start)));
  }
  return false;
}

/** Finds the first position from the given one that is neither blank nor comment. */
function blankSkipper(source: string): (at: number) => number {
  const blockEnd = endFinder(source, "*/");
  const lineEnd = endFinder(source, "\n");
  return (at) => {
    for (let place = at; ; ) {
      while (place < source.length && /\s/.test(source.charAt(place))) place++;
      if (source.startsWith("/*", place)) place = blockEnd(place + 2);
      else if (/^(?:\/\/|<!--|-->)/.test(source.slice(place, place + 4))) place = lineEnd(place);
      else return place;
    }
  };
}

/** Remembers its last answer, so that unclosed comments are not searched repeatedly. */
function endFinder(source: string, mark: string): (from: number) => number {
  let searched = 0;
  let found = -1;
  return (from) => {
    if (found < 0 || from < searched || from > found) {
      const next = source.indexOf(mark, from);
      searched = from;
      found = next < 0 ? source.length : next;
    }
    return Math.min(found + mark.length, source.length);
  };
}

/** The text between the quote at `start` and the next one of its kind. */
function quoted(source: string, start: number): string {
  const end = source.indexOf(source.charAt(start), start + 1);
  return source.slice(start + 1, end < 0 ? source.length : end);
}

const ESCAPES =
  /\\(?:u\{([\da-f]+)\}|u([\da-f]{4})|x([\da-f]{2})|([0-7]{1,3})|(\r\n|[\n\r\u2028\u2029])|([\s\S]))/gi;

/** Decodes all escapes: to Bun, `"\x6dacro"` is "macro". */
function unescaped(source: string): string {
  if (!source.includes("\\")) return source;
  return source.replace(ESCAPES, (all, point, unit, byte, octal, lineEnd, other) => {
    if (lineEnd !== undefined) return "";
    if (octal !== undefined) return String.fromCharCode(Number.parseInt(octal, 8));
    const hex = point ?? unit ?? byte;
    if (hex === undefined) return /[bfnrtv]/.test(other) ? " " : other;
    const code = Number.parseInt(hex, 16);
    return code > 0x10ffff ? all : String.fromCodePoint(code);
  });
}
