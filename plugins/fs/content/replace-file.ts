/** Writes a file atomically. */

import { constants, type Stats } from "node:fs";
import { access, type FileHandle, lstat, open, rename, unlink } from "node:fs/promises";
import { join } from "node:path";
import { SyscallError } from "rnix/plugin";
import { errnoOf, systemError } from "../errors.ts";
import type { Confinement } from "../paths/confinement.ts";
import type { Folder } from "../paths/folder.ts";
import type { WriteTarget } from "../paths/write-target.ts";

const CREATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
const MODE_BITS = 0o7777;

/**
 * Replaces the target's content atomically: writes a temporary file beside it, then renames it. The mode of the old file
 * is kept. INVALID when the file has changed since `target` was made. Everything happens in the open folder that was
 * checked. Returns the file's real path.
 */
export async function replaceFile(
  confinement: Confinement,
  target: WriteTarget,
  content: Uint8Array,
  signal: AbortSignal,
): Promise<string> {
  signal.throwIfAborted();
  try {
    const folder = await confinement.openFolder(target);
    try {
      // A rename would replace even a read-only file.
      if (target.stat) await access(folder.at(target.name), constants.W_OK);
      const path = join(await folder.path(), target.name);
      await replaceIn(folder, target, content, signal, () => confinement.changing(path));
      return path;
    } finally {
      await folder.close();
    }
  } catch (thrown) {
    throw systemError(thrown, `write ${confinement.shown(target.path)}`);
  }
}

async function replaceIn(
  folder: Folder,
  target: WriteTarget,
  content: Uint8Array,
  signal: AbortSignal,
  beforeChange: () => Promise<void>,
): Promise<void> {
  const temporary = folder.at(`.rnix-${crypto.randomUUID()}.tmp`);
  const handle = await open(temporary, CREATE, target.stat ? target.stat.mode & MODE_BITS : 0o666);
  try {
    try {
      await handle.writeFile(content, { signal });
      if (target.stat) await keepOwnerAndMode(handle, target.stat);
    } finally {
      await handle.close();
    }
    await beforeChange();
    await checkUnchanged(folder.at(target.name), target);
    signal.throwIfAborted();
    await rename(temporary, folder.at(target.name));
  } catch (thrown) {
    await unlink(temporary);
    signal.throwIfAborted();
    throw thrown;
  }
}

/** Sets the owner first: changing it clears bits of the mode. */
async function keepOwnerAndMode(handle: FileHandle, was: Stats): Promise<void> {
  const now = await handle.stat();
  if (now.uid !== was.uid || now.gid !== was.gid) {
    try {
      await handle.chown(was.uid, was.gid);
    } catch (thrown) {
      // Only root may change the owner; otherwise the file belongs to this user, as with any editor.
      if (errnoOf(thrown) !== "EPERM") throw thrown;
    }
  }
  await handle.chmod(was.mode & MODE_BITS);
}

async function checkUnchanged(path: string, target: WriteTarget): Promise<void> {
  const now = await statIfExists(path);
  const was = target.stat;
  if (!now && !was) return;
  if (now && was && now.ino === was.ino && now.size === was.size && now.mtimeMs === was.mtimeMs) return;
  const message = `${target.path} was changed by another program meanwhile. Nothing was written; read it again first.`;
  throw new SyscallError("INVALID", message);
}

async function statIfExists(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (thrown) {
    if (errnoOf(thrown) === "ENOENT") return undefined;
    throw thrown;
  }
}
