/** Compares contents that are kept beside a run, by git in a private repository. */

import { isUtf8 } from "node:buffer";
import { appendFile } from "node:fs/promises";
import { join } from "node:path";
import type { FileState } from "../../store/changes/change-log.ts";
import { ObjectStore, type TreeEntry } from "../../store/changes/object-store.ts";
import type { Git } from "./git-repository.ts";

const MAX_PATCH_BYTES = 8 * 1024 ** 2;
const MAX_TREE_BYTES = 64 * 1024 ** 2;

/** A file before and after; null: there is none. Both contents are kept. */
interface ComparedFile {
  before: FileState | null;
  after: FileState | null;
}

/** The lines that a change adds and removes; null for a binary file. */
export interface LineCounts {
  added: number | null;
  removed: number | null;
}

/** Counts lines for each pair, in order, and makes the patch of the named ones. */
export class GitDiff {
  readonly #git: Git;
  readonly #store: ObjectStore;

  constructor(git: Git, store: ObjectStore) {
    this.#git = git;
    this.#store = store;
  }

  async counts(pairs: readonly ComparedFile[]): Promise<LineCounts[]> {
    if (pairs.length === 0) return [];
    const named = new Map(pairs.map((pair, i) => [String(i), pair]));
    const output = await this.#compare(named, ["--numstat", "-z", "--no-renames"], 64 * 1024 ** 2);
    const counts = pairs.map((): LineCounts => ({ added: 0, removed: 0 }));
    const lines = output?.toString().matchAll(/(\d+|-)\t(\d+|-)\t(\d+)\0/g) ?? [];
    for (const [, added = "", removed = "", name] of lines) {
      const isText = added !== "-" && removed !== "-";
      counts[Number(name)] = {
        added: isText ? Number(added) : null,
        removed: isText ? Number(removed) : null,
      };
    }
    return counts;
  }

  /** Returns the patch of the files, which have their paths as keys; null if it would be too long. */
  async patch(files: ReadonlyMap<string, ComparedFile>): Promise<string | null> {
    const texts = new Map<string, ComparedFile>();
    const others = new Map<string, ComparedFile>();
    for (const [path, file] of files) ((await this.#isUtf8(file)) ? texts : others).set(path, file);
    const parts = [
      await this.#compare(texts, PATCH, MAX_PATCH_BYTES),
      // Text in another encoding can't be in a text, so git takes it for binary.
      await this.#compare(others, PATCH, MAX_PATCH_BYTES, { binary: true }),
    ];
    const whole = parts.every((part) => part !== null) ? Buffer.concat(parts) : null;
    return whole === null || whole.length > MAX_PATCH_BYTES ? null : whole.toString();
  }

  async #isUtf8({ before, after }: ComparedFile): Promise<boolean> {
    for (const state of [before, after]) {
      const content = state?.oid ? await this.#store.get(state.oid) : null;
      if (content && !isUtf8(content) && !content.includes(0)) return false;
    }
    return true;
  }

  async #compare(
    files: ReadonlyMap<string, ComparedFile>,
    how: readonly string[],
    most: number,
    { binary = false }: { binary?: boolean } = {},
  ): Promise<Buffer | null> {
    if (files.size === 0) return Buffer.alloc(0);
    const all = [...files];
    const parts = { format: "sha1" as const, objects: [this.#store.objects], binary };
    return this.#git.within(parts, async (own) => {
      const trees = new ObjectStore({ dir: own.dir, maxBytes: MAX_TREE_BYTES });
      const tree = (when: keyof ComparedFile) =>
        treeOf(
          trees,
          all.map(([path, one]) => [path, one[when]]),
        );
      const before = await tree("before");
      const after = await tree("after");
      const args = ["diff-tree", "-r", "--no-ext-diff", "--no-textconv", ...how, before, after];
      await appendFile(join(own.dir, "objects/info/alternates"), `${trees.objects}\n`);
      const { exit, output, cut } = await own.run(args, { most });
      return exit.code === 0 && !cut ? output : null;
    });
  }
}

/** Writes the folders that hold these files; returns the name of the topmost. */
async function treeOf(
  store: ObjectStore,
  files: readonly (readonly [string, FileState | null])[],
): Promise<string> {
  const entries: TreeEntry[] = [];
  const below = new Map<string, [string, FileState | null][]>();
  for (const [path, state] of files) {
    if (state === null || state.oid === null || state.kind === "other") continue;
    const slash = path.indexOf("/");
    if (slash < 0) entries.push({ mode: MODES[state.kind], name: path, oid: state.oid });
    else {
      const folder = path.slice(0, slash);
      below.getOrInsert(folder, []).push([path.slice(slash + 1), state]);
    }
  }
  for (const [name, inside] of below) entries.push({ mode: "40000", name, oid: await treeOf(store, inside) });
  return store.putTree(entries);
}

const PATCH = ["-p", "--binary", "-M", "--no-color"];
const MODES = { file: "100644", exec: "100755", link: "120000" } as const;
