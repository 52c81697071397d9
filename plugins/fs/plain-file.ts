import { stat } from "node:fs/promises";
import { basename, isAbsolute, join, relative, sep } from "node:path";
import {
  type Data,
  type FileStat,
  O_RDONLY,
  O_WRONLY,
  type OpenContext,
  type OpenFlag,
  SyscallError,
  type VFSFile,
} from "rnix/plugin";
import { CHUNK_BYTES } from "./content/read-chunks.ts";
import { replaceFile } from "./content/replace-file.ts";
import { errnoOf, heed, systemError } from "./errors.ts";
import { Confinement, type OpenedFile } from "./paths/confinement.ts";

/** Opens /dev/fs/<path>. For reading it must be there; for writing its place must be one that is allowed. */
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

interface Opening {
  /** Of the host, not yet resolved. */
  path: string;
  devicePath: string;
  flags: OpenFlag;
  context: OpenContext;
  confinement: Confinement;
}

/** The file in its plain sense: a read gives its bytes, a write replaces it. */
class PlainFile implements VFSFile {
  readonly #o: Opening;
  #opened: OpenedFile | undefined;
  #position = 0;

  constructor(o: Opening) {
    this.#o = o;
  }

  async write(data: Data, signal: AbortSignal): Promise<void> {
    const { path, devicePath, flags, context, confinement } = this.#o;
    if (flags === O_RDONLY) throw new SyscallError("PERMISSION", `${devicePath} is open for reading only.`);
    const target = await confinement.target(path);
    const content = typeof data === "string" ? Buffer.from(data) : data;
    context.changed(await replaceFile(confinement, target, content, signal));
    await this.close();
  }

  async read(max: number, signal: AbortSignal): Promise<Data> {
    const { path, devicePath, flags, confinement } = this.#o;
    if (flags === O_WRONLY) throw new SyscallError("PERMISSION", `${devicePath} is open for writing only.`);
    heed(signal);
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
    const { path, devicePath, confinement, flags } = this.#o;
    const file = { name: basename(path), isDevice: false, devicePath };
    try {
      const seen = await confinement.look(path);
      return {
        ...file,
        size: seen.stat.size,
        isFolder: seen.stat.isDirectory(),
        modifiedMs: seen.stat.mtimeMs,
      };
    } catch (thrown) {
      const error = systemError(thrown, `look at ${devicePath}`);
      if (flags !== O_RDONLY && error.code === "NOT_FOUND") return { ...file, size: 0 };
      throw error;
    }
  }
}

/**
 * What follows /dev/fs is a path of the host (seeds 2.3) or one relative to the working folder. It is the
 * host's when it lies in a folder the run may touch, or when only the host's root has its first part.
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
  return !(await isThere(join(cwd, first))) && (await isThere(first)) ? subpath : local;
}

async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (thrown) {
    if (["ENOENT", "ENOTDIR", "EACCES", "ELOOP"].includes(errnoOf(thrown))) return false;
    throw systemError(thrown, `look at ${path}`);
  }
}
