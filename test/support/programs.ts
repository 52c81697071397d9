/** The programs of a kernel whose ledger is in a temporary folder. */

import { join } from "node:path";
import { Children, type ChildrenOptions } from "../../src/os/children.ts";

export function programsIn(dir: string, options: Partial<ChildrenOptions> = {}): Children {
  return new Children({
    ledgerDir: join(dir, "children"),
    // The marks of its programs follow from it, and a kernel kills all processes with the mark of an ended program.
    kernelId: `test-${crypto.randomUUID()}`,
    graceMs: 1_000,
    memoryBytes: 65_536,
    diskBytes: 1 << 24,
    ...options,
  });
}
