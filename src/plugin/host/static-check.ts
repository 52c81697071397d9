import { readFile, stat } from "node:fs/promises";
import { SyscallError } from "../index.ts";
import { mayUseMacro } from "./macros.ts";
import { type Problem, problemText } from "./report.ts";
import { type FileDigest, sha256 } from "./stock-files.ts";

export interface StaticCheck {
  /** Every file the plugin is made of, absolute, its libraries included: what trust is about. */
  files: FileDigest[];
  /** Syntax errors, missing files, missing exports. Empty: it can be loaded. */
  problems: Problem[];
}

/** Files of one plugin: a plugin is a driver with its libraries, not a tree to be walked without end. */
const MOST_FILES = 5_000;
const MOST_BYTES = 16 * 2 ** 20;

/** Reads a plugin and everything it imports without running any of it. */
export async function staticCheck(entry: string): Promise<StaticCheck> {
  const files = new Map<string, string>();
  const problems: Problem[] = [];
  const result = await Bun.build({
    entrypoints: [entry],
    target: "bun",
    external: ["rnix/plugin"],
    // Aliases of a tsconfig.json beside it don't hold when it runs, so they must not hold here.
    tsconfig: "/dev/null",
    throw: false,
    plugins: [
      {
        name: "read",
        setup(builder) {
          builder.onLoad({ filter: /.*/, namespace: "file" }, async ({ path, loader }) => {
            const contents = await readBounded(path);
            const problem = refusal(path, contents, files.size);
            if (contents) files.set(path, sha256(contents));
            if (contents && !problem) return { contents, loader };
            if (problem) problems.push(problem);
            return { contents: "", loader: "js" };
          });
        },
      },
    ],
  });
  // An import of a refused file is no error of its own.
  if (!result.success && problems.length === 0) problems.push(...result.logs.filter(isError).map(asProblem));
  return { files: sorted(files), problems };
}

/** Throws INVALID with everything that is wrong, for who wants it loaded or nothing. */
export function refuse(name: string, problems: readonly Problem[]): never {
  const list = problems.map(problemText).join("; ");
  throw new SyscallError("INVALID", `Plugin ${name} can't be loaded: ${list}`);
}

/** Null for what is no plain file (reading a pipe would never end) or larger than a source ever is. */
async function readBounded(path: string): Promise<Buffer | null> {
  const found = await stat(path);
  return found.isFile() && found.size <= MOST_BYTES ? readFile(path) : null;
}

const SOURCE = /\.[cm]?[jt]sx?$/;

function refusal(file: string, contents: Buffer | null, count: number): Problem | undefined {
  if (!contents) return { file, message: `It is no plain file of at most ${MOST_BYTES >> 20} MiB.` };
  if (count >= MOST_FILES) return { file, message: `The plugin is made of more than ${MOST_FILES} files.` };
  if (SOURCE.test(file) && mayUseMacro(contents.toString())) {
    return {
      file,
      message:
        "It uses a Bun macro, which would run before anybody trusted it. Import the function and call it.",
    };
  }
  return undefined;
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
