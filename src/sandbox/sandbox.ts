/** Confines a program: its command line and environment become those of a program in a sandbox. */

import { mkdirSync } from "node:fs";
import { delimiter } from "node:path";
import { bubblewrap } from "./bubblewrap.ts";
import type { Sandbox } from "./level.ts";
import type { Mount } from "./mount.ts";
import { BINARY_DIR, mountsOf, type SandboxScope } from "./policy.ts";

/** A program to start, or the confined one in its place. */
export interface SandboxedProgram {
  argv: readonly string[];
  cwd: string;
  env: Readonly<Record<string, string>>;
}

/**
 * The command line of bubblewrap and the environment of a program in a sandbox. Looks at the file system: a path that is
 * not there is not named.
 */
export function sandboxed(
  { program }: Sandbox,
  scope: SandboxScope,
  { cwd, env }: Pick<SandboxedProgram, "cwd" | "env">,
): { confine: string[]; env: Record<string, string>; mounts: Mount[] } {
  for (const folder of [scope.temp, scope.home])
    if (folder !== null) mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { PATH = "" } = env;
  const mounts = mountsOf(scope);
  return {
    mounts,
    confine: bubblewrap({ program, mounts, cwd, isRoot: scope.isRoot }),
    env: { ...env, TMPDIR: "/tmp", PATH: `${BINARY_DIR}${delimiter}${PATH}` },
  };
}
