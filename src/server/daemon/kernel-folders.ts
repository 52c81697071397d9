/** The folders of kernels in the user's data folder. */

import { join } from "node:path";

/** In the user's data folder, of each kernel: its lock, the ledger of its programs, and their link to the binary. */
export function kernelFolders(userDataDir: string): { locks: string; ledgers: string; programs: string } {
  return {
    locks: join(userDataDir, "kernels"),
    ledgers: join(userDataDir, "children"),
    programs: join(userDataDir, "bin"),
  };
}
