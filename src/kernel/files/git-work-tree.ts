/** Lists the files of a git work tree that differ from its index, and reads the contents that the index names. */

import type { Stats } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { bytesOf, isOddName, nameOf } from "../../lib/file-name.ts";
import { innerPath } from "../../lib/inner-path.ts";
import { eachParallel } from "../../lib/parallel.ts";
import { blobName, type ObjectFormat } from "../../store/changes/object-store.ts";
import { TimeSlices } from "../../store/files/time-slice.ts";
import { FileStates } from "./file-states.ts";
import { type CallOptions, Git, type GitOptions, type OwnRepository, parseBatch } from "./git-repository.ts";
import { contentOf, type FolderWatch, type IndexEntry, type Suspect, statOf, TreeScan } from "./tree-scan.ts";
import {
  indexBytes,
  openIndex,
  openRepository,
  type Repository,
  readIfThere,
  rootOf,
} from "./user-repository.ts";

/** Maximum files that are read in parallel. */
const STATS_AT_ONCE = 64;
/** Up to this number of files whose times differ are compared here, and this number of bytes. */
const MANY = 64;
const MAX_COMPARED_BYTES = 16 * 1024 ** 2;
const SMALL = 64 * 1024;
/** Maximum names that git is asked about by name. */
const MAX_ASKED = 500;
/** The clock of a file system is coarser than ours. */
const SLACK_MS = 25;
/** How long git may read files into an index. */
const TAKE_MS = 5_000;
/** Maximum bytes of contents that one call of git returns. */
const MAX_CONTENT_BYTES = 64 * 1024 ** 2;

export interface WorkTreeOptions extends GitOptions {
  now(): number;
  /** Opens what sees the changes of folders; null where nothing does. */
  watch(): FolderWatch | null;
}

/** `whole`: looks at all files, not only at those that were seen to change. */
export type ListOptions = CallOptions & { whole?: boolean };

/** A listing: a version by file, such as its modification time, that changes with its content. */
export interface Listing {
  files: Map<string, string>;
  /** What the system says of each; a deleted file has no entry. */
  stats: Map<string, Stats>;
  /** The files' entries in the index, by path; undefined for a file that the index lacks. */
  entries: ReadonlyMap<string, IndexEntry | undefined>;
  /**
   * Whether a file is older than the first listing. "here": it was ignored; "elsewhere": it was not listed; "listed": it
   * was, by this or another name. `isReplaced`: another file has its name since it was last seen.
   */
  isOlder(path: string, isReplaced?: boolean): "here" | "elsewhere" | "listed" | false;
  /** The name that a file of the first listing had there. */
  formerName(path: string): string | undefined;
  /** False when something could not be read. */
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
  /** What the files were at the last listing. */
  #scan: TreeScan | undefined;
  /** What sees the changes for the newest scan. */
  #watch: FolderWatch | null = null;
  /** The index is our own, of files as they are. */
  #isTaken = false;
  /** When the first listing was begun. */
  readonly #begunMs: number;

  private constructor(o: WorkTreeOptions, repository: Repository, git: Git, userIgnore: UserIgnore) {
    this.#o = o;
    this.#begunMs = o.now();
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

  /**
   * Lists the files that are not ignored and differ from the index, or did once; null when that can't be known. git
   * runs only for names that an ignore pattern may match. `soon`: within 2 s.
   */
  async list({ whole, ...call }: ListOptions = {}): Promise<Listing | null> {
    const isFirst = this.#scan === undefined;
    const scan = this.#scan ?? (await this.#begin(call));
    if (scan === null) return null;
    if (!isFirst) await scan.again(whole);
    const { errors = "" } =
      scan.unknown.size > 0 ? ((await this.#decide(scan, call)) ?? { errors: null }) : {};
    if (errors === null) return null;
    this.#scan = scan;
    const listed = await this.#states([...scan.dirty.keys(), ...scan.untracked]);
    if (isFirst) for (const [path, { ino }] of listed.stats) scan.formerNames.set(ino % 2 ** 32, path);
    const isOlder: Listing["isOlder"] = (path, isReplaced = false) => {
      if (!isReplaced && scan.wasIgnored(path)) return "here";
      const stat = listed.stats.get(path);
      // Some file systems, such as NFS, do not know when a file was made.
      const born = stat?.birthtimeMs || (stat?.mtimeMs ?? 0);
      if (!stat || born >= this.#begunMs - SLACK_MS || stat.isDirectory()) return false;
      return scan.formerNames.has(stat.ino % 2 ** 32) ? "listed" : "elsewhere";
    };
    const formerName = (path: string): string | undefined =>
      scan.formerNames.get((listed.stats.get(path)?.ino ?? 0) % 2 ** 32);
    return { ...listed, entries: scan.dirty, isOlder, formerName, complete: errors === "" && scan.complete };
  }

  /** Looks at all files for the first time. */
  async #begin(call: CallOptions): Promise<TreeScan | null> {
    const { index, format, root } = this.#repository;
    this.#ignored ??= await this.ignorePatterns(call);
    const begun = await TreeScan.begin({
      dir: this.#o.dir,
      root,
      format,
      patterns: this.#ignored,
      now: this.#o.now,
      watch: () => {
        this.#watch?.close();
        this.#watch = this.#o.watch();
        return this.#watch;
      },
      index: index && {
        bytes: await indexBytes(index.handle),
        mtimeMs: this.#isTaken ? Infinity : index.mtimeMs,
      },
    });
    if (begun === null) return null;
    const { scan, suspects } = begun;
    const changed = await this.#changedOf(suspects, call);
    if (changed === null) return null;
    for (const { path, entry } of changed) scan.dirty.set(path, entry);
    return scan;
  }

  /** Returns the suspects whose content differs from the index. If they are many, git compares them. */
  async #changedOf(suspects: readonly Suspect[], call: CallOptions): Promise<readonly Suspect[] | null> {
    const { format, index, root } = this.#repository;
    const bytes = suspects.reduce((sum, { size }) => sum + size, 0);
    if (suspects.length > MANY || bytes > MAX_COMPARED_BYTES) {
      const result = await this.#git.within({ format, index, root }, (own) => own.run(TRACKED, call));
      if (result.exit.code !== 0 || result.cut) return null;
      const found = new Set(namesIn(result.output));
      return suspects.filter(({ path }) => found.has(path));
    }
    const states = new FileStates({
      put: (content) => blobName(format, content),
      most: MAX_COMPARED_BYTES,
      format,
    });
    const slices = new TimeSlices();
    const unsure: Suspect[] = [];
    for (const suspect of suspects) {
      if (!hasContent(join(this.#o.dir, suspect.path), suspect.entry, format)) unsure.push(suspect);
      await slices.pause();
    }
    const changed: Suspect[] = [];
    await eachParallel(unsure, STATS_AT_ONCE, async (suspect) => {
      const seen = await states.read(join(this.#o.dir, suspect.path));
      const { kind, oid } = suspect.entry;
      if (seen?.state.kind !== kind || seen.usersName !== oid) changed.push(suspect);
    });
    return changed;
  }

  /** Asks git which of the unknown names are ignored. Returns null when it fails. */
  #decide(scan: TreeScan, call: CallOptions): Promise<{ errors: string } | null> {
    const { index, format, root } = this.#repository;
    const prefix = innerPath(root, this.#o.dir) || "";
    const within = prefix === "" ? "" : `${prefix}/`;
    return this.#git.within({ format, index, root }, async (own) => {
      await writeFile(join(own.dir, "info/exclude"), this.#ignored ?? "");
      const o = { ...call, most: MAX_CONTENT_BYTES };
      const { exit, output, errors, cut } = await own.run([...UNTRACKED, ...asked(scan.unknown)], o);
      if (exit.code !== 0 || cut) return null;
      const listed = (mark: string): string[] =>
        namesIn(output).flatMap((line) =>
          line.startsWith(`${mark} ${within}`) ? [line.slice(3 + within.length)] : [],
        );
      scan.decided(listed("??").filter(Boolean), listed("!!").filter(Boolean));
      return { errors };
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
      const stdin = Buffer.concat(paths.map((path) => bytesOf(`${path}\0`)));
      const o = { ...call, stdin, env: { GIT_OBJECT_DIRECTORY: objects }, timeoutMs: TAKE_MS };
      const how = (await packsMany(own, call)) ? ["-c", "core.bigFileThreshold=1"] : [];
      const { exit } = await own.run([...how, "update-index", "--add", "--remove", "-z", "--stdin"], o);
      // The index is opened now, because its folder is removed next.
      return exit.code === 0 ? openIndex(join(own.dir, "index")) : null;
    });
    if (taken === null) return false;
    await index?.handle.close();
    this.#scan = undefined;
    this.#isTaken = true;
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
      // Most contents fit into one answer.
      const all = await own.run(["cat-file", "--batch"], {
        ...call,
        stdin: `${oids.join("\n")}\n`,
        most: MAX_CONTENT_BYTES,
      });
      if (!all.cut) {
        for (const [oid, content] of parseBatch(all.output))
          if (content.length <= most) found.set(oid, content);
        return found;
      }
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
    if (!index || objects.includes("\n") || !(await this.#mayConvert(call))) return found;
    return this.#git.within({ format, index, root, objects: [objects] }, async (own) => {
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
    this.#watch?.close();
    await this.#repository.index?.handle.close();
  }

  async #mayConvert(call: CallOptions): Promise<boolean> {
    const { config, attributes } = this.#repository;
    if (attributes?.trim()) return true;
    const configs = [config, this.#userIgnore.configs];
    if (configs.some((text) => text && /autocrlf|attributesfile|include/i.test(text))) return true;
    return (this.#scan ?? (await this.#begin(call)))?.names(".gitattributes") ?? false;
  }

  /** Returns them in git's order: the user's own, those of `info/exclude`, then ours. */
  async ignorePatterns(call: CallOptions): Promise<string> {
    const { root, exclude } = this.#repository;
    const parts = [await this.#usersOwn(call), exclude];
    const scratch = innerPath(root, this.#o.scratch);
    if (scratch !== null) parts.push(`/${scratch.replace(/[*?[\\]/g, "\\$&")}/`);
    return parts.map((part) => `${part ?? ""}\n`).join("");
  }

  /** git reads the user's configuration only to find the file of ignore patterns, and only if it may name one. */
  async #usersOwn(call: CallOptions): Promise<string | null> {
    const { text, mayBeNamed } = this.#userIgnore;
    if (!mayBeNamed) return text;
    const { HOME = "/", XDG_CONFIG_HOME } = this.#o.env;
    const usersConfiguration = { HOME, ...(XDG_CONFIG_HOME && { XDG_CONFIG_HOME }) };
    const { exit, output } = await this.#git.within({ format: this.#repository.format }, (own) =>
      own.run(["config", "--null", "--type=path", "--get", "core.excludesFile"], {
        ...call,
        usersConfiguration,
      }),
    );
    const named = output.toString().replace(/\0$/, "");
    if (exit.code !== 0) return text;
    return isAbsolute(named) && named !== "/dev/null" ? readIfThere(named) : null;
  }

  async #states(paths: readonly string[]): Promise<Pick<Listing, "files" | "stats">> {
    const files: Listing["files"] = new Map();
    const stats: Listing["stats"] = new Map();
    const slices = new TimeSlices();
    for (const path of new Set(paths)) {
      const stat = statOf(join(this.#o.dir, path));
      files.set(path, stat ? versionOf(stat) : DELETED);
      if (stat) stats.set(path, stat);
      await slices.pause();
    }
    return { files, stats };
  }
}

/** Whether a small file is as the index has it. It is read in place: calls off the thread take ten times as long. */
function hasContent(path: string, { kind, oid }: IndexEntry, format: ObjectFormat): boolean {
  const stat = statOf(path);
  if (!stat?.isFile() || stat.size > SMALL || kind !== (stat.mode & 0o100 ? "exec" : "file")) return false;
  const content = contentOf(path, SMALL);
  if (content === null) return false;
  const hash = new Bun.CryptoHasher(format).update(`blob ${content.length}\0`);
  return hash.update(content).digest("hex") === oid;
}

/** Since 2.37 git writes what it takes for large files into one pack, which is much faster than a file for each. */
async function packsMany(own: OwnRepository, call: CallOptions): Promise<boolean> {
  const { output } = await own.run(["--version"], call);
  const [, major, minor] = /(\d+)\.(\d+)/.exec(output.toString()) ?? [];
  return Number(major) > 2 || (Number(major) === 2 && Number(minor) >= 37);
}

/** The version of a file that is not there. */
export const DELETED = "not there";

function versionOf({ ctimeMs, ino, size, mode }: Stats): string {
  return `${ctimeMs} ${ino} ${size} ${mode}`;
}

// git reads neither objects nor HEAD, and runs nothing in a submodule.
const TRACKED = ["diff-files", "--name-only", "-z", "--no-renames", "--relative", "--ignore-submodules=all"];
const UNTRACKED = [
  ...["status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--ignored=matching"],
  ...["--ignore-submodules=all", "--"],
];

/** The names, or the folders that hold them where there are too many, or their names are not UTF-8. */
function asked(names: ReadonlySet<string>): string[] {
  if (names.size > MAX_ASKED) return ["."];
  return [...new Set([...names].map((name) => (isOddName(name) ? "." : name)))];
}

function namesIn(output: Buffer): string[] {
  const names: string[] = [];
  for (let at = 0; at < output.length; ) {
    const end = output.indexOf(0, at);
    if (end < 0) break;
    names.push(nameOf(output.subarray(at, end)));
    at = end + 1;
  }
  return names;
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
