/** Reads what a file is now, and keeps its content beside the run. */

import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from "node:fs";
import { lstat, open, readlink } from "node:fs/promises";
import { errnoOf } from "../../lib/error-detail.ts";
import { pathOf } from "../../lib/file-name.ts";
import { kindOf, readOpened, unlessSystemError } from "../../lib/regular-file.ts";
import { formatSize } from "../../lib/size.ts";
import { SyscallError } from "../../plugin/index.ts";
import type { FileState } from "../../store/changes/change-log.ts";
import { blobName, type ObjectFormat } from "../../store/changes/object-store.ts";
import type { IndexEntry } from "./tree-scan.ts";

/** O_NONBLOCK: a FIFO that replaced the file would block. */
const OPEN = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY;
/** Files of at most this size are read in place: calls off the thread take ten times as long. */
const SMALL = 64 * 1024;
const EXECUTABLE = 0o100;
const PERMISSIONS = 0o7777;

/** A file, and the name of its content in the user's repository. */
export interface SeenFile {
  state: FileState;
  usersName: string | null;
}

interface FileStatesOptions {
  /** Keeps a content and returns its name; only names it where nothing is to be kept. */
  put(content: Uint8Array): Promise<string>;
  /** Files with more bytes are not read. */
  most: number;
  /** How the user's repository names contents. */
  format: ObjectFormat;
}

export class FileStates {
  readonly #o: FileStatesOptions;
  /** Why no more contents are kept. */
  #full: string | undefined;

  constructor(o: FileStatesOptions) {
    this.#o = o;
  }

  get most(): number {
    return this.#o.most;
  }

  /**
   * Returns null when there is no such file, or a folder. Never fails because of the file: the state says what was not
   * kept.
   */
  async read(path: string): Promise<SeenFile | null> {
    const found = await unlessSystemError(lstat(pathOf(path)));
    if (found === null || found.isDirectory()) return null;
    if (found.isSymbolicLink())
      return this.#kept("link", undefined, found, () => readlink(pathOf(path), { encoding: "buffer" }));
    if (!found.isFile()) return { state: other(kindOf(found)), usersName: null };
    const kind = found.mode & EXECUTABLE ? "exec" : "file";
    return this.#kept(kind, found.mode & PERMISSIONS, found, () => this.#content(path, found));
  }

  /** What a file is, without its content. */
  async glance(path: string, lost: string): Promise<SeenFile | null> {
    const found = await unlessSystemError(lstat(pathOf(path)));
    if (found === null || found.isDirectory()) return null;
    if (!found.isFile() && !found.isSymbolicLink()) return this.read(path);
    const kind = found.isSymbolicLink() ? "link" : found.mode & EXECUTABLE ? "exec" : "file";
    const mode = found.isSymbolicLink() ? undefined : found.mode & PERMISSIONS;
    return { state: { kind, oid: null, size: found.size, mode, lost }, usersName: null };
  }

  async keep(kind: FileState["kind"], content: Uint8Array): Promise<FileState> {
    return { kind, ...(await this.#put(content)), size: content.length };
  }

  async #kept(
    kind: FileState["kind"],
    mode: number | undefined,
    { size }: Stats,
    load: () => Promise<Uint8Array>,
  ): Promise<SeenFile | null> {
    const facts = { kind, ...(mode !== undefined && { mode }) };
    const unkept = (lost: string): SeenFile => ({
      state: { ...facts, oid: null, size, lost },
      usersName: null,
    });
    if (size > this.#o.most) return unkept(`it has more than ${formatSize(this.#o.most)} (undo_file_size)`);
    if (this.#full !== undefined) return unkept(this.#full);
    try {
      const content = await load();
      const stored = await this.#put(content);
      const { format } = this.#o;
      const usersName = format === "sha1" ? stored.oid : await blobName(format, content);
      return { state: { ...facts, ...stored, size: content.length }, usersName };
    } catch (thrown) {
      if (errnoOf(thrown) === "ENOENT") return null;
      if (errnoOf(thrown) === undefined && !(thrown instanceof SyscallError)) throw thrown;
      return unkept(reasonOf(thrown));
    }
  }

  async #put(content: Uint8Array): Promise<Pick<FileState, "oid" | "lost">> {
    try {
      return { oid: await this.#o.put(content) };
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
      // Files that could not be kept are not read for nothing.
      if (thrown.code === "EXHAUSTED") this.#full = thrown.message;
      return { oid: null, lost: thrown.message };
    }
  }

  async #content(path: string, expected: Stats): Promise<Uint8Array> {
    const small = expected.size <= SMALL ? smallContent(path) : null;
    if (small !== null) return small;
    const handle = await open(pathOf(path), OPEN);
    try {
      const found = requireFile(await handle.stat());
      return await readOpened(path, handle, Math.max(found.size, expected.size), this.#o.most);
    } finally {
      await handle.close();
    }
  }
}

/** Returns null when it has grown since. */
function smallContent(path: string): Uint8Array | null {
  const fd = openSync(pathOf(path), OPEN);
  try {
    requireFile(fstatSync(fd));
    const length = readSync(fd, buffer, 0, buffer.length, 0);
    return length > SMALL ? null : buffer.slice(0, length);
  } finally {
    closeSync(fd);
  }
}

/** Shared: each content is copied from it at once. */
const buffer = new Uint8Array(SMALL + 1);

function requireFile(found: Stats): Stats {
  if (found.isFile()) return found;
  throw new SyscallError("INVALID", `it was replaced by ${kindOf(found)}`);
}

/** What is never touched. */
export function other(what: string): FileState {
  return { kind: "other", oid: null, size: 0, lost: `it is ${what}, which is left alone` };
}

function reasonOf(thrown: unknown): string {
  if (thrown instanceof SyscallError) return thrown.message;
  return `it could not be read (${errnoOf(thrown)})`;
}

const CONVERTED = "git converts it, and what was in the work tree was not kept";

interface Committed {
  /** Contents that git has given, by their names. */
  contents: ReadonlyMap<string, Uint8Array> | undefined;
  format: ObjectFormat;
  states: FileStates;
}

/** Keeps the content that an entry of the index names, and returns its state. */
export async function stateOfEntry(
  { kind, oid, mode, converted }: IndexEntry & { converted?: number },
  { contents, format, states }: Committed,
): Promise<FileState> {
  if (kind === "other") return other("a submodule");
  const content = contents?.get(oid);
  if (content && (await blobName(format, content)) === oid) {
    const raw = converted === undefined || content.length === converted ? content : withReturns(content);
    if (converted === undefined || raw.length === converted)
      return { ...(await states.keep(kind, raw)), mode };
    return { kind, oid: null, mode, size: converted, lost: CONVERTED };
  }
  return { kind, oid: null, mode, size: 0, lost: "git no longer has its former content, or it is too large" };
}

/** Converts line ends to CR LF, as git does when it checks out text with that setting. */
function withReturns(content: Uint8Array): Uint8Array {
  return Buffer.from(Buffer.from(content).toString("latin1").replace(/\r?\n/g, "\r\n"), "latin1");
}
