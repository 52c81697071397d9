/** Reads the files of one commit from git objects. */

import type { OwnRepository } from "../../kernel/files/git-repository.ts";
import { parseBatch } from "../../kernel/files/git-repository.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { ObjectFormat } from "../../store/changes/object-store.ts";
import { TimeSlices } from "../../store/files/time-slice.ts";

/** A file of a commit. */
export interface TreeFile {
  /** Relative to the tree. */
  path: string;
  kind: "file" | "exec" | "link" | "submodule";
  oid: string;
  size: number;
}

const KINDS: Record<string, TreeFile["kind"]> = {
  "100644": "file",
  "100664": "file",
  "100755": "exec",
  "120000": "link",
  "160000": "submodule",
};
const MAX_LIST_BYTES = 64 * 1024 ** 2;
const BATCH_BYTES = 16 * 1024 ** 2;

/** One folder of a commit, with all below it. */
export class GitTree {
  readonly #own: OwnRepository;
  readonly #oid: string;
  readonly #format: ObjectFormat;

  private constructor(own: OwnRepository, oid: string, format: ObjectFormat) {
    this.#own = own;
    this.#oid = oid;
    this.#format = format;
  }

  /** null when the commit has no such folder. `folder`: relative to the repository, "" for all of it. */
  static async open(
    own: OwnRepository,
    commit: string,
    folder: string,
    format: ObjectFormat,
  ): Promise<GitTree | null> {
    const { exit, output } = await own.run(["rev-parse", "--verify", "--quiet", `${commit}:${folder}`]);
    return exit.code === 0 ? new GitTree(own, output.toString().trim(), format) : null;
  }

  /** All files at and below these paths; without a path, all of the tree. */
  async files(paths: readonly string[] = []): Promise<TreeFile[]> {
    const args = ["ls-tree", "-r", "-l", "-z", "--full-tree", this.#oid, "--", ...paths];
    const { exit, output, cut, errors } = await this.#own.run(args, { most: MAX_LIST_BYTES });
    if (exit.code !== 0 || cut) throw unreadable(cut ? "the list of its files is too long" : errors);
    const slices = new TimeSlices();
    const files: TreeFile[] = [];
    for (const [, mode = "", oid = "", size = "", path = ""] of output
      .toString()
      .matchAll(/(\d{6}) \w+ ([0-9a-f]+) +(\S+)\t([^\0]*)\0/g)) {
      const kind = KINDS[mode];
      if (kind !== undefined && isPlain(path)) files.push({ path, kind, oid, size: Number(size) || 0 });
      await slices.pause();
    }
    return files;
  }

  /** Returns the contents by name. Each is compared with its name. */
  async contents(files: readonly TreeFile[]): Promise<Map<string, Uint8Array>> {
    const found = new Map<string, Uint8Array>();
    const sizes = new Map(files.map(({ oid, size }) => [oid, size]));
    for (const batch of batches([...sizes])) {
      const stdin = batch.map(([oid]) => `${oid}\n`).join("");
      const most = batch.reduce((sum, [, size]) => sum + size + 200, 0);
      const { exit, output, errors } = await this.#own.run(["cat-file", "--batch"], { stdin, most });
      if (exit.code !== 0) throw unreadable(errors);
      for (const [oid, content] of parseBatch(output)) {
        if (oid === nameOf(content, this.#format)) found.set(oid, content);
      }
    }
    if (found.size < sizes.size) {
      const message =
        "--base: contents of this commit are missing here, as in a partial clone. Fetch them: git fetch --refetch --no-filter origin, and the branch.";
      throw new SyscallError("INVALID", message);
    }
    return found;
  }
}

/** The name of a file's content in git. */
export function nameOf(content: Uint8Array, format: ObjectFormat): string {
  const hash = new Bun.CryptoHasher(format);
  return hash.update(`blob ${content.length}\0`).update(content).digest("hex");
}

/** A tree that git did not write may name a folder above. */
function isPlain(path: string): boolean {
  return path.split("/").every((part) => part !== "" && part !== "." && part !== "..");
}

function* batches(sizes: readonly (readonly [string, number])[]): Generator<(readonly [string, number])[]> {
  let batch: (readonly [string, number])[] = [];
  let bytes = 0;
  for (const one of sizes) {
    if (bytes + one[1] > BATCH_BYTES && batch.length > 0) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(one);
    bytes += one[1];
  }
  if (batch.length > 0) yield batch;
}

function unreadable(why: string): SyscallError {
  const message = `--base: git can't read the files of this commit: ${why.trim().slice(0, 300)}. Fetch it again: git fetch origin REF --depth=1`;
  return new SyscallError("INVALID", message);
}
