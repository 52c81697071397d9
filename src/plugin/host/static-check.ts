import { dirname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { readRegular } from "../../lib/regular-file.ts";
import { SyscallError } from "../index.ts";
import { mayUseMacro } from "./macros.ts";
import type { Problem } from "./report.ts";
import { type FileDigest, sha256 } from "./stock-files.ts";

export interface StaticCheck {
  /** Every file the plugin is made of, absolute, its libraries included: what trust is about. */
  files: FileDigest[];
  /** Syntax errors, missing files, missing exports. Empty: it can be loaded. */
  problems: Problem[];
  /**
   * The plugin as one module, made of exactly these files: what was read is what runs, however a file, a
   * tsconfig.json or a package.json changes meanwhile. Null when there are problems.
   */
  code: string | null;
}

/** Files of one plugin: a plugin is a driver with its libraries, not a tree to be walked without end. */
const MAX_FILES = 5_000;
const MAX_SOURCE_BYTES = 16 * 2 ** 20;

/** Reads a plugin and everything it imports without running any of it. */
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
    // Aliases in a project's tsconfig.json could lead an import elsewhere than where it seems to go.
    tsconfig: "/dev/null",
    define: PLACES,
    // A file that is imported as a file is known by its own path: nothing is written anywhere.
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
  // An import of a refused file is no error of its own.
  if (!result.success && problems.length === 0) problems.push(...result.logs.filter(isError).map(asProblem));
  const output = problems.length === 0 ? await result.outputs[0]?.text() : undefined;
  return { files: sorted(files), problems, code: output === undefined ? null : withWholePaths(output) };
}

/** Null for what is no plain file (reading a pipe would never end) or larger than a source ever is. */
async function readBounded(path: string): Promise<Buffer | null> {
  try {
    return await readRegular(path, MAX_SOURCE_BYTES);
  } catch (thrown) {
    if (thrown instanceof SyscallError && thrown.code === "INVALID") return null;
    throw thrown;
  }
}

function refusal(file: string, contents: Buffer | null, count: number): Problem | undefined {
  if (!contents) return { file, message: `It is no plain file of at most ${MAX_SOURCE_BYTES >> 20} MiB.` };
  if (count >= MAX_FILES) return { file, message: `The plugin is made of more than ${MAX_FILES} files.` };
  // Whatever it is called: an import's attribute may make a source of any file.
  if (!mayUseMacro(contents.toString())) return undefined;
  return {
    file,
    message:
      "It uses a Bun macro, which would run before anybody trusted it. Import the function and call it.",
  };
}

/** Where a file says it lies: each file's own constants, set before its first statement. */
const PLACES = {
  "import.meta.dir": "__rnixDir",
  "import.meta.dirname": "__rnixDir",
  "import.meta.path": "__rnixPath",
  "import.meta.filename": "__rnixPath",
  "import.meta.url": "__rnixUrl",
};

const SOURCE = /\.[cm]?[jt]sx?$/;

/**
 * The file as the bundler takes it: in one module with the others, a source still knows where it lies. Of
 * what is no source only the import's attribute says what it is, and only Bun has seen that.
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
  // On the line that is there, so that line numbers stay; after a hashbang, which must come first.
  const [hashbang = ""] = /^#!.*\n/.exec(text) ?? [];
  return { contents: `${hashbang}${own}${text.slice(hashbang.length)}`, loader };
}

const SOURCE_MAP = /\/\/# sourceMappingURL=data:application\/json;base64,([\w+/=]+)\s*$/;

interface SourceMap {
  sources: string[];
}

/** Bun names sources relative to the current folder; an error has to name them wherever it is read. */
function withWholePaths(code: string): string {
  const encoded = SOURCE_MAP.exec(code)?.[1];
  if (encoded === undefined) return code;
  const map: SourceMap = JSON.parse(Buffer.from(encoded, "base64").toString());
  // Bun wants the contents' list to be there; the texts themselves would only be kept twice.
  const sourcesContent = map.sources.map(() => "");
  const whole = { ...map, sourcesContent, sources: map.sources.map((source) => resolve(source)) };
  const data = Buffer.from(JSON.stringify(whole)).toString("base64");
  return code.replace(SOURCE_MAP, `//# sourceMappingURL=data:application/json;base64,${data}`);
}

function isError(log: BuildMessage | ResolveMessage): boolean {
  return log.level === "error";
}

function asProblem({ message, position }: BuildMessage | ResolveMessage): Problem {
  if (!position) return { message };
  return { message, file: position.file, line: position.line, column: position.column };
}

function sorted(files: Map<string, string>): FileDigest[] {
  return [...files].map(([path, digest]) => ({ path, digest })).sort((a, b) => (a.path < b.path ? -1 : 1));
}
