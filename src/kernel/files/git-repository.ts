/**
 * Starts git: the only place that does.
 *
 * git runs on a private repository with a private configuration. Of the user's repository it gets a copy of the index,
 * the ignore patterns and, to read contents, the folder of objects. So nothing that can be written into `.git`, an
 * attributes file, the environment or a submodule names a program, a remote or another configuration.
 */

import { constants, existsSync } from "node:fs";
import { access, mkdir, realpath, rm, stat, writeFile } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import { errnoOf } from "../../lib/error-detail.ts";
import { isWithin } from "../../lib/inner-path.ts";
import type { Child, Data, ExecRequest, ExitInfo } from "../../plugin/index.ts";
import type { ObjectFormat } from "../../store/changes/object-store.ts";
import { readToEnd } from "./run-program.ts";
import { copyIndex, isBounded, type Repository } from "./user-repository.ts";

const TIMEOUT_MS = 10_000;
/** For a stopped run: the caller waits for its end. */
const STOPPED_TIMEOUT_MS = 2_000;
const MAX_OUTPUT_BYTES = 4 * 1024 ** 2;
const MAX_ERROR_BYTES = 64 * 1024;

export interface GitOptions {
  dir: string;
  /** Folders in which no program counts as git: the run may write there. */
  untrusted: readonly string[];
  /** The run's environment: PATH to find git, HOME to find the user's ignore patterns. */
  env: Readonly<Record<string, string>>;
  /** For a private repository during a call. No tool of a run writes there, and git does not list it. */
  scratch: string;
  /** Starts a program with `request.env` as its whole environment. */
  exec(request: ExecRequest): Promise<Child>;
}

export interface CallOptions {
  signal?: AbortSignal;
  /** Within 2 s. */
  soon?: boolean;
}

/** What a private repository is made of. */
interface OwnParts {
  format: ObjectFormat;
  index?: Repository["index"];
  /** Folders of objects that git may read. */
  objects?: readonly string[];
  /** The work tree; absent: git gets none. */
  root?: string;
  /** git takes every file for binary. */
  binary?: boolean;
}

interface GitResult {
  exit: ExitInfo;
  output: Buffer;
  /** git has printed more than it may. */
  cut: boolean;
  errors: string;
}

/** A git program that no run can have written. */
export class Git {
  readonly #program: string;
  readonly #o: GitOptions;

  private constructor(program: string, o: GitOptions) {
    this.#program = program;
    this.#o = o;
  }

  /** Returns null when there is none. */
  static async find(o: GitOptions): Promise<Git | null> {
    const program = await findGit(o.env.PATH ?? "/usr/bin:/bin", o.untrusted);
    return program === null ? null : new Git(program, o);
  }

  /** Makes a private repository for the duration of `work`. */
  async within<T>(parts: OwnParts, work: (own: OwnRepository) => Promise<T>): Promise<T> {
    const dir = join(this.#o.scratch, `git-${crypto.randomUUID()}`);
    try {
      await makeOwn(dir, parts);
      const run: OwnRepository["run"] = (args, o) => this.#run(dir, parts.root, args, o);
      return await work({ dir, run });
    } finally {
      await rm(dir, { recursive: true, force: true });
    }
  }

  /** A private repository that was kept, with the work tree `root`. */
  open(dir: string, root: string): OwnRepository {
    return { dir, run: (args, o) => this.#run(dir, root, args, o) };
  }

  async #run(
    dir: string,
    root: string | undefined,
    args: readonly string[],
    {
      env,
      usersConfiguration,
      stdin,
      signal,
      soon = false,
      timeoutMs = TIMEOUT_MS,
      most = MAX_OUTPUT_BYTES,
    }: RunOptions = {},
  ): Promise<GitResult> {
    const child = await this.#o.exec({
      argv: [this.#program, ...args],
      cwd: root === undefined ? dir : this.#o.dir,
      env: {
        ...isolatedEnv(dir, root),
        ...(usersConfiguration ?? { GIT_CONFIG_GLOBAL: "/dev/null", XDG_CONFIG_HOME: dir }),
        ...env,
        GIT_DIR: dir,
        PATH: `${dirname(this.#program)}:/usr/bin:/bin`,
      },
      timeoutMs: soon ? STOPPED_TIMEOUT_MS : timeoutMs,
      stdin,
      // All of it is read while git runs.
      maxOutput: 0,
      life: "call",
    });
    return collect(child, most, signal);
  }
}

/** A private repository, which its owner removes. */
export interface OwnRepository {
  /** The folder of the repository. */
  dir: string;
  run(args: readonly string[], o?: RunOptions): Promise<GitResult>;
}

interface RunOptions extends CallOptions {
  env?: Record<string, string>;
  /** git reads the user's own configuration, which these variables lead to. */
  usersConfiguration?: Record<string, string>;
  stdin?: Data;
  /** Maximum bytes of output. */
  most?: number;
  timeoutMs?: number;
}

async function collect(child: Child, most: number, signal?: AbortSignal): Promise<GitResult> {
  const output: Uint8Array[] = [];
  const errors: Uint8Array[] = [];
  let bytes = 0;
  let errorBytes = 0;
  const take = (fd: number, data: Uint8Array): void => {
    if (fd === 2) {
      if (errorBytes < MAX_ERROR_BYTES) errors.push(data);
      errorBytes += data.length;
    } else {
      bytes += data.length;
      if (bytes <= most) output.push(data);
    }
  };
  return {
    exit: await readToEnd(child, take, signal),
    output: Buffer.concat(output),
    cut: bytes > most,
    errors: Buffer.concat(errors).toString(),
  };
}

/** Makes a repository without commits. Its configuration names no program; its index is the user's. */
async function makeOwn(
  dir: string,
  { format, index, objects = [], binary = false }: OwnParts,
): Promise<void> {
  const readable = await Promise.all(objects.map(async (one) => ((await isBounded(one)) ? [one] : [])));
  await mkdir(join(dir, "objects/info"), { recursive: true, mode: 0o700 });
  await mkdir(join(dir, "info"), { mode: 0o700 });
  await Promise.all([
    mkdir(join(dir, "refs"), { mode: 0o700 }),
    writeFile(join(dir, "HEAD"), "ref: refs/heads/none\n"),
    writeFile(join(dir, "config"), configuration(format)),
    // Files are taken as they are, whatever attributes the work tree has.
    writeFile(
      join(dir, "info/attributes"),
      `* -text -filter -ident -working-tree-encoding !merge ${binary ? "-" : "!"}diff\n`,
    ),
    objects.length > 0 &&
      writeFile(
        join(dir, "objects/info/alternates"),
        readable
          .flat()
          .map((one) => `${one}\n`)
          .join(""),
      ),
    index && copyIndex(index.handle, index.mtimeMs, join(dir, "index")),
  ]);
}

function isolatedEnv(own: string, root: string | undefined): Record<string, string> {
  return {
    LC_ALL: "C",
    HOME: own,
    ...(root !== undefined && { GIT_WORK_TREE: root }),
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_ATTR_NOSYSTEM: "1",
    GIT_LITERAL_PATHSPECS: "1",
    GIT_OPTIONAL_LOCKS: "0",
    GIT_NO_LAZY_FETCH: "1",
    GIT_NO_REPLACE_OBJECTS: "1",
    GIT_ALLOW_PROTOCOL: "",
    GIT_TERMINAL_PROMPT: "0",
  };
}

/** `sparseCheckout` lists files outside of a sparse checkout too. */
function configuration(format: ObjectFormat): string {
  const mac = process.platform === "darwin" ? ["ignoreCase = true", "precomposeUnicode = true"] : [];
  const core = [
    ...["repositoryFormatVersion = 1", "bare = false", "fsmonitor = false", "untrackedCache = false"],
    ...["hooksPath = /dev/null", "attributesFile = /dev/null", "autocrlf = false", "quotePath = false"],
    // What git writes here is never the only copy of anything.
    ...["fsync = none", "looseCompression = 1"],
    ...["sparseCheckout = true", "sparseCheckoutCone = false", ...mac],
  ];
  return `[core]\n\t${core.join("\n\t")}\n[protocol]\n\tallow = never\n[extensions]\n\tobjectFormat = ${format}\n`;
}

/** Returns the first git on the PATH that no run can have written. */
async function findGit(path: string, untrusted: readonly string[]): Promise<string | null> {
  const folders = await Promise.all(untrusted.map((folder) => realpath(folder).catch(() => folder)));
  for (const folder of path.split(":").filter(isAbsolute)) {
    const program = join(folder, "git");
    // A PATH has a dozen folders, and a call off the thread takes ten times as long as this one.
    if (!existsSync(program)) continue;
    try {
      await access(program, constants.X_OK);
      if (!(await stat(program)).isFile()) continue;
      const places = [await realpath(folder), await realpath(program), program];
      if (!places.some((place) => folders.some((own) => isWithin(own, place)))) return program;
    } catch (thrown) {
      // Missing or not executable: try the next folder, as a shell does.
      if (errnoOf(thrown) === undefined) throw thrown;
    }
  }
  return null;
}

/** Parses `<oid> blob <size>\n<content>\n…`. */
export function* parseBatch(output: Buffer): Generator<[string, Uint8Array]> {
  for (let at = 0; at < output.length; ) {
    const end = output.indexOf(10, at);
    if (end < 0) return;
    const [, oid, size] = /^([0-9a-f]+) blob (\d+)$/.exec(output.toString("latin1", at, end)) ?? [];
    at = end + 1;
    if (oid === undefined) continue;
    const content = output.subarray(at, at + Number(size));
    if (content.length < Number(size)) return;
    yield [oid, content];
    at += Number(size) + 1;
  }
}
