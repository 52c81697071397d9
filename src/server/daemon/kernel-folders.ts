import { join } from "node:path";

/** In the user's data folder: the locks of the kernels, and the ledgers of their programs. */
export function kernelFolders(userDataDir: string): { locks: string; ledgers: string } {
  return { locks: join(userDataDir, "kernels"), ledgers: join(userDataDir, "children") };
}
