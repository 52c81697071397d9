/** The open file of /dev/fs/<path>: the bytes of one file. */

import { stat } from "node:fs/promises";
import { basename, isAbsolute, join, relative, sep } from "node:path";
import {
  type Data,
  type FileStat,
  O_RDONLY,
  type OpenContext,
  type OpenFlag,
  type VFSFile,
} from "rnix/plugin";
import { CHUNK_BYTES } from "./content/read-chunks.ts";
import { replaceFile } from "./content/replace-file.ts";
import { errnoOf, systemError } from "./errors.ts";
import { Confinement, type OpenedFile } from "./paths/confinement.ts";

/** Opens /dev/fs/<path>. To read, it must exist; to write, its path must be allowed. */
export async function openPlainFile(
  subpath: string,
  flags: OpenFlag,
  context: OpenContext,
): Promise<VFSFile> {
  const path = await hostPath(subpath, context);
  const confinement = new Confinement(context);
  if (flags === O_RDONLY) await confinement.look(path);
  else await confinement.target(path);
  return new PlainFile({ path, devicePath: `/dev/fs${subpath}`, flags, context, confinement });
}

interface OpenRequest {
  /** On the host, with symlinks not yet resolved. */
  path: string;
  devicePath: string;
  flags: OpenFlag;
  context: OpenContext;
  confinement: Confinement;
}

/** A file of the host: a read returns its bytes, a write replaces it. */
class PlainFile implements VFSFile {
  readonly #request: OpenRequest;
  #opened: OpenedFile | undefined;
  #position = 0;

  constructor(request: OpenRequest) {
    this.#request = request;
  }

  async write(data: Data, signal: AbortSignal): Promise<void> {
    const { path, context, confinement } = this.#request;
    const target = await confinement.target(path);
    const content = typeof data === "string" ? Buffer.from(data) : data;
    context.changed(await replaceFile(confinement, target, content, signal));
    await this.close();
  }

  async read(max: number, signal: AbortSignal): Promise<Data> {
    const { path, devicePath, confinement } = this.#request;
    signal.throwIfAborted();
    if (this.#opened) await confinement.recheck(this.#opened);
    else this.#opened = await confinement.open(path);
    const buffer = new Uint8Array(Math.min(max, CHUNK_BYTES));
    try {
      const { bytesRead } = await this.#opened.handle.read(buffer, 0, buffer.length, this.#position);
      this.#position += bytesRead;
      return buffer.subarray(0, bytesRead);
    } catch (thrown) {
      throw systemError(thrown, `read ${devicePath}`);
    }
  }

  async close(): Promise<void> {
    const opened = this.#opened;
    this.#opened = undefined;
    this.#position = 0;
    await opened?.handle.close();
  }

  async stat(): Promise<FileStat> {
    const { path, devicePath, confinement, flags } = this.#request;
    const file = { name: basename(path), isDevice: false, devicePath };
    try {
      const { stat } = await confinement.look(path);
      return { ...file, size: stat.size, isFolder: stat.isDirectory(), modifiedMs: stat.mtimeMs };
    } catch (thrown) {
      const error = systemError(thrown, `look at ${devicePath}`);
      if (flags !== O_RDONLY && error.code === "NOT_FOUND") return { ...file, size: 0 };
      throw error;
    }
  }
}

/**
 * The path after /dev/fs is absolute (seeds 2.3) or relative to the working folder. It is absolute when it is in a folder
 * of the run, or when its first segment exists only in the root of the host.
 */
async function hostPath(subpath: string, context: OpenContext): Promise<string> {
  const { cwd, project, folders } = context;
  const local = join(cwd, subpath);
  const inside = [project.dir, cwd, ...folders].some((root) => {
    const inner = relative(root, subpath);
    return inner !== ".." && !inner.startsWith(`..${sep}`) && !isAbsolute(inner);
  });
  if (inside) return subpath;
  if (subpath.includes("\0")) return local;
  const first = `/${subpath.split("/").find((part) => part !== "" && part !== ".") ?? ""}`;
  if (first === "/..") return local;
  return !(await exists(join(cwd, first))) && (await exists(first)) ? subpath : local;
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (thrown) {
    if (["ENOENT", "ENOTDIR", "EACCES", "ELOOP"].includes(errnoOf(thrown))) return false;
    throw systemError(thrown, `look at ${path}`);
  }
}
