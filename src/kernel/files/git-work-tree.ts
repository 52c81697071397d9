/** Lists the files of a git work tree that differ from its index, and reads the contents that the index names. */

import type { Stats } from "node:fs";
import { lstat, mkdir, writeFile } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { innerPath } from "../../lib/inner-path.ts";
import { unlessSystemError } from "../../lib/regular-file.ts";
import type { ObjectFormat } from "../../store/changes/object-store.ts";
import { TimeSlices } from "../../store/files/time-slice.ts";
import { parseBatch } from "./git-contents.ts";
import { type CallOptions, Git, type GitOptions, type OwnRepository } from "./git-repository.ts";
import { openIndex, openRepository, type Repository, readIfThere, rootOf } from "./user-repository.ts";

/** Maximum files that are read in parallel. */
const STATS_AT_ONCE = 64;
/** How long git may read files into an index. */
const TAKE_MS = 5_000;
/** Maximum bytes of contents that one call of git returns. */
const MAX_CONTENT_BYTES = 64 * 1024 ** 2;

export type WorkTreeOptions = GitOptions;

/** A file as the index has it. */
export interface IndexEntry {
  kind: "file" | "exec" | "link" | "other";
  /** The name of its content in the user's repository. */
  oid: string;
}

/** A listing: a version by file, such as its modification time, that changes with its content. */
export interface Listing {
  files: Map<string, string>;
  /** What the system says of each; a deleted file has no entry. */
  stats: Map<string, Stats>;
  /** As the index has it; a file that is not in the index has no entry. */
  entries: Map<string, IndexEntry>;
  /** False when git could not read everything. */
  complete: boolean;
}

/**
 * A work tree with its index as it was at `open`. Listings made later compare with the same index, so what is
 * committed or staged meanwhile is still listed. A file that only has another time may be listed.
 */
export class WorkTree {
  readonly #o: WorkTreeOptions;
  #repository: Repository;
  /** Folders with the contents that the index names. */
  #objects: string[];
  readonly #git: Git;
  readonly #userIgnore: UserIgnore;
  #ignored: string | undefined;

  private constructor(o: WorkTreeOptions, repository: Repository, git: Git, userIgnore: UserIgnore) {
    this.#o = o;
    this.#repository = repository;
    this.#objects = [repository.objects];
    this.#git = git;
    this.#userIgnore = userIgnore;
  }

  /** Returns null where there is no work tree or no git. The caller closes it. */
  static async open(o: WorkTreeOptions): Promise<WorkTree | null> {
    const root = await rootOf(o.dir);
    if (root === null) return null;
    const [git, ignore] = await Promise.all([Git.find(o), userIgnore(o.env)]);
    const repository = git && (await openRepository(root));
    return repository ? new WorkTree(o, repository, git, ignore) : null;
  }

  /** The hash by which its repository names contents. */
  get format(): ObjectFormat {
    return this.#repository.format;
  }

  /** Lists the files that are not ignored and differ from the index; null when git fails. `soon`: within 2 s. */
  list(call: CallOptions = {}): Promise<Listing | null> {
    const { index, format, root } = this.#repository;
    return this.#git.within({ format, index, root }, async (own) => {
      this.#ignored ??= await this.#ignorePatterns(own, call);
      const patterns = join(own.dir, "ignored");
      await writeFile(patterns, this.#ignored);
      // Two programs side by side are faster than the one call of git that does both.
      const [tracked, untracked] = await Promise.all([
        own.run(TRACKED, call),
        own.run([...UNTRACKED, `--exclude-from=${patterns}`], call),
      ]);
      const results = [tracked, untracked];
      if (results.some(({ exit, cut }) => exit.code !== 0 || cut)) return null;
      const entries = parseRaw(tracked.output.toString());
      const paths = [...entries.keys(), ...untracked.output.toString().split("\0")].filter(Boolean);
      const complete = results.every(({ errors }) => errors === "");
      return { ...(await this.#states(new Set(paths))), entries: withoutAbsent(entries), complete };
    });
  }

  /**
   * Takes these files as they are into the index with which later listings compare, and their contents into a folder of
   * objects. The user's index and objects stay as they are. Returns false when git fails, and nothing has changed.
   */
  async take(paths: readonly string[], objects: string, call: CallOptions = {}): Promise<boolean> {
    const { format, index, root } = this.#repository;
    if (format !== "sha1") return false;
    await mkdir(objects, { recursive: true, mode: 0o700 });
    const taken = await this.#git.within({ format, index, root }, async (own) => {
      const stdin = paths.map((path) => `${path}\0`).join("");
      const o = { ...call, stdin, env: { GIT_OBJECT_DIRECTORY: objects }, timeoutMs: TAKE_MS };
      const how = (await packsMany(own, call)) ? ["-c", "core.bigFileThreshold=1"] : [];
      const { exit } = await own.run([...how, "update-index", "--add", "--remove", "-z", "--stdin"], o);
      // Its folder is removed; the open file stays.
      return exit.code === 0 ? openIndex(join(own.dir, "index")) : null;
    });
    if (taken === null) return false;
    await index?.handle.close();
    this.#repository = { ...this.#repository, index: taken };
    this.#objects = [...this.#objects, objects];
    return true;
  }

  /**
   * Reads contents by their names in the user's repository. Absent in the result: missing, or larger than `most` bytes.
   */
  contents(oids: readonly string[], most: number, call: CallOptions = {}): Promise<Map<string, Uint8Array>> {
    const { format } = this.#repository;
    const objects = this.#objects.filter((folder) => !folder.includes("\n"));
    const found = new Map<string, Uint8Array>();
    if (oids.length === 0) return Promise.resolve(found);
    return this.#git.within({ format, objects }, async (own) => {
      const sizes = await sizesOf(own, oids, call);
      const left = [...sizes].filter(([, size]) => size <= most);
      while (left.length > 0) {
        const batch: string[] = [];
        for (let bytes = 0; left.length > 0 && (batch.length === 0 || bytes < MAX_CONTENT_BYTES / 2); ) {
          const [oid, size] = left.pop() ?? ["", 0];
          batch.push(oid);
          bytes += size;
        }
        const stdin = `${batch.join("\n")}\n`;
        const { output } = await own.run(["cat-file", "--batch"], { ...call, stdin, most: BATCH_BYTES });
        for (const [oid, content] of parseBatch(output)) found.set(oid, content);
      }
      return found;
    });
  }

  /**
   * Returns the files whose bytes differ from what the index names, because git converts them: line endings, filters
   * such as LFS; with their size in the work tree. It looks only where the repository asks for a conversion.
   */
  async converted(call: CallOptions = {}): Promise<Map<string, number>> {
    const { format, index, root, objects } = this.#repository;
    const found = new Map<string, number>();
    if (!index || objects.includes("\n")) return found;
    return this.#git.within({ format, index, root, objects: [objects] }, async (own) => {
      if (!(await this.#mayConvert(own, call))) return found;
      const { output } = await own.run(["ls-files", "-z", "-s", "--debug"], {
        ...call,
        most: MAX_CONTENT_BYTES,
      });
      const indexed = await parseDebug(output.toString());
      const sizes = await sizesOf(own, [...new Set(indexed.map(({ oid }) => oid))], call);
      for (const { path, oid, size } of indexed) if (size !== (sizes.get(oid) ?? size)) found.set(path, size);
      return found;
    });
  }

  async close(): Promise<void> {
    await this.#repository.index?.handle.close();
  }

  async #mayConvert(own: OwnRepository, call: CallOptions): Promise<boolean> {
    const { config, attributes } = this.#repository;
    if (attributes?.trim()) return true;
    if (
      [config, this.#userIgnore.configs].some((text) => text && /autocrlf|attributesfile|include/i.test(text))
    )
      return true;
    const env = { GIT_LITERAL_PATHSPECS: "0" };
    const { output } = await own.run(["ls-files", "-z", "--", ":(top,glob)**/.gitattributes"], {
      ...call,
      env,
    });
    return output.length > 0;
  }

  /** Returns them in git's order: the user's own, those of `info/exclude`, then ours. */
  async #ignorePatterns(own: OwnRepository, call: CallOptions): Promise<string> {
    const { root, exclude } = this.#repository;
    const parts = [await this.#usersOwn(own, call), exclude];
    const scratch = innerPath(root, this.#o.scratch);
    if (scratch !== null) parts.push(`/${scratch.replace(/[*?[\\]/g, "\\$&")}/`);
    return parts.map((part) => `${part ?? ""}\n`).join("");
  }

  /** git reads the user's configuration only to find the file of ignore patterns, and only if it may name one. */
  async #usersOwn(own: OwnRepository, call: CallOptions): Promise<string | null> {
    const { text, mayBeNamed } = this.#userIgnore;
    if (!mayBeNamed) return text;
    const { HOME = "/", XDG_CONFIG_HOME } = this.#o.env;
    const { exit, output } = await own.run(
      ["config", "--null", "--type=path", "--get", "core.excludesFile"],
      { ...call, usersConfiguration: { HOME, ...(XDG_CONFIG_HOME && { XDG_CONFIG_HOME }) } },
    );
    const named = output.toString().replace(/\0$/, "");
    if (exit.code !== 0) return text;
    return isAbsolute(named) && named !== "/dev/null" ? readIfThere(named) : null;
  }

  async #states(paths: ReadonlySet<string>): Promise<Pick<Listing, "files" | "stats">> {
    const files: Listing["files"] = new Map();
    const stats: Listing["stats"] = new Map();
    const left = [...paths];
    while (left.length > 0) {
      const part = left.splice(-STATS_AT_ONCE);
      const found = await Promise.all(part.map((path) => unlessSystemError(lstat(join(this.#o.dir, path)))));
      part.forEach((path, i) => {
        const stat = found[i];
        files.set(path, stat ? versionOf(stat) : DELETED);
        if (stat) stats.set(path, stat);
      });
    }
    return { files, stats };
  }
}

/** Since 2.37 git writes what it takes for large files into one pack, which is much faster than a file for each. */
async function packsMany(own: OwnRepository, call: CallOptions): Promise<boolean> {
  const { output } = await own.run(["--version"], call);
  const [, major, minor] = /(\d+)\.(\d+)/.exec(output.toString()) ?? [];
  return Number(major) > 2 || (Number(major) === 2 && Number(minor) >= 37);
}

/** The version of a file that is not there. */
export const DELETED = "not there";

function versionOf({ mtimeMs, size, mode }: Stats): string {
  return `${mtimeMs} ${size} ${mode}`;
}

// Both print paths relative to their folder. git reads neither objects nor HEAD, and runs nothing in a submodule.
const TRACKED = ["diff-files", "--raw", "-z", "--no-renames", "--relative", "--ignore-submodules=dirty"];
const UNTRACKED = ["ls-files", "-z", "-o", "--exclude-per-directory=.gitignore"];

const MODES: Record<string, IndexEntry["kind"]> = { "100644": "file", "100755": "exec", "120000": "link" };
const UNMERGED = "000000";
const ABSENT: IndexEntry = { kind: "other", oid: "" };

/** Parses `:<mode> <mode> <oid> <oid> <letter>\0<path>\0…`. A file with a conflict has a line more, without a mode. */
function parseRaw(output: string): Map<string, IndexEntry> {
  const parts = output.split("\0");
  const found = new Map<string, IndexEntry>();
  for (let i = 0; i + 1 < parts.length; i += 2) {
    const [mode = "", , oid = ""] = (parts[i] ?? "").replace(/^:/, "").split(" ");
    const path = parts[i + 1] ?? "";
    if (mode !== UNMERGED) found.set(path, { kind: MODES[mode] ?? "other", oid });
    else if (!found.has(path)) found.set(path, ABSENT);
  }
  return found;
}

function withoutAbsent(entries: Map<string, IndexEntry>): Map<string, IndexEntry> {
  return new Map([...entries].filter(([, entry]) => entry !== ABSENT));
}

/** Parses `ls-files -s --debug`: `mode oid stage\tpath\0` and lines of which one has the size. */
async function parseDebug(output: string): Promise<{ path: string; oid: string; size: number }[]> {
  const pattern = /(\d{6}) ([0-9a-f]+) (\d)\t([^\0]*)\0(?: {2}.*\n)*? {2}size: (\d+)\tflags: .*\n/g;
  const slices = new TimeSlices();
  const found: { path: string; oid: string; size: number }[] = [];
  for (const [, mode, oid = "", , path = "", size] of output.matchAll(pattern)) {
    if (mode === "100644" || mode === "100755") found.push({ path, oid, size: Number(size) });
    await slices.pause();
  }
  return found;
}

const BATCH_BYTES = MAX_CONTENT_BYTES + 128 * 1024 ** 2;

/** The sizes of contents by name; a missing one has none. */
async function sizesOf(
  own: OwnRepository,
  oids: readonly string[],
  call: CallOptions,
): Promise<Map<string, number>> {
  const stdin = `${oids.join("\n")}\n`;
  const { output } = await own.run(["cat-file", "--batch-check"], {
    ...call,
    stdin,
    most: MAX_CONTENT_BYTES,
  });
  const slices = new TimeSlices();
  const sizes = new Map<string, number>();
  for (const [, oid = "", size] of output.toString().matchAll(/^([0-9a-f]+) blob (\d+)$/gm)) {
    sizes.set(oid, Number(size));
    await slices.pause();
  }
  return sizes;
}

/** What the user ignores in every repository. */
interface UserIgnore {
  /** The text of git's default file, for the case that no configuration names one. */
  text: string | null;
  /** True when the user's configuration may name another file. */
  mayBeNamed: boolean;
  /** The user's configuration. */
  configs: string;
}

async function userIgnore({ HOME = "/", XDG_CONFIG_HOME }: WorkTreeOptions["env"]): Promise<UserIgnore> {
  const folder = join(XDG_CONFIG_HOME || join(HOME, ".config"), "git");
  const [text, ...configs] = await Promise.all(
    [join(folder, "ignore"), join(folder, "config"), join(HOME, ".gitconfig")].map(readIfThere),
  );
  const all = configs.join("\n");
  return { text: text ?? null, mayBeNamed: /excludesfile|include/i.test(all), configs: all };
}
