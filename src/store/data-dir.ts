import { basename, dirname, join } from "node:path";
import { makeFolder, replaceDocumentNow } from "./document.ts";
import { errno, type FsPort, ioError, realFs } from "./fs-port.ts";

/**
 * Makes a data folder, mode 0700. Where it is a project's own, `.rnix/data`, the first run also leaves a
 * `.gitignore` in `.rnix/` that keeps `data/` out of the repository. One that is there is not touched. True when the
 * data folder was made here.
 */
export function prepareDataDir(dataDir: string, fs: FsPort = realFs): boolean {
  const made = makeFolder(dataDir, fs);
  const parent = dirname(dataDir);
  if (basename(dataDir) !== "data" || basename(parent) !== ".rnix") return made;
  const ignore = join(parent, ".gitignore");
  if (!exists(ignore, fs)) writeIgnore(ignore, fs);
  return made;
}

function writeIgnore(ignore: string, fs: FsPort): void {
  try {
    replaceDocumentNow(ignore, "data/\n", fs);
  } catch (error) {
    // Another rnix that begins here at this moment writes it under the same name.
    if (!exists(ignore, fs)) throw error;
  }
}

function exists(path: string, fs: FsPort): boolean {
  try {
    fs.close(fs.open(path, "read"));
    return true;
  } catch (error) {
    if (errno(error) === "ENOENT") return false;
    throw ioError(error, `read ${basename(path)}`, path);
  }
}
