/** Confines a program: its command line and environment become those of a program in a sandbox. */

import { mkdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { bubblewrap } from "./bubblewrap.ts";
import { grantsOf } from "./grants.ts";
import { landlock } from "./landlock.ts";
import type { Sandbox } from "./level.ts";
import type { Mount } from "./mount.ts";
import { BINARY_DIR, mountsOf, type SandboxScope } from "./policy.ts";
import { seatbelt } from "./seatbelt.ts";

/** A program to start, or the confined one in its place. */
export interface SandboxedProgram {
  argv: readonly string[];
  cwd: string;
  env: Readonly<Record<string, string>>;
}

/**
 * The command line before that of a program in a sandbox, and its environment. Looks at the file system: a path that is not
 * there is not named.
 */
export function sandboxed(
  { mechanism, program }: Sandbox,
  scope: SandboxScope,
  { cwd, env }: Pick<SandboxedProgram, "cwd" | "env">,
): { confine: string[]; env: Record<string, string>; mounts: Mount[] } {
  for (const folder of [scope.temp, scope.home])
    if (folder !== null) mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { PATH = "" } = env;
  const mounts = mountsOf(scope);
  if (mechanism === "landlock")
    return {
      mounts,
      confine: landlock(program, grantsOf(mounts, scope.project)),
      env: withCaches(env, scope),
    };
  if (mechanism === "seatbelt")
    return { mounts, confine: seatbelt(program, mounts), env: withCaches(env, scope) };
  return {
    mounts,
    confine: bubblewrap({ program, mounts, cwd, isRoot: scope.isRoot }),
    env: { ...env, TMPDIR: "/tmp", PATH: `${BINARY_DIR}${delimiter}${PATH}` },
  };
}

/** The home of the user stays, and can't be written: caches have their place in the private one. */
function withCaches(
  env: SandboxedProgram["env"],
  { temp, home }: Pick<SandboxScope, "temp" | "home">,
): Record<string, string> {
  return {
    ...env,
    ...(temp !== null && { TMPDIR: temp }),
    XDG_CACHE_HOME: join(home, ".cache"),
    npm_config_cache: join(home, ".npm"),
    GOMODCACHE: join(home, "go/pkg/mod"),
    BUN_INSTALL_CACHE_DIR: join(home, ".bun/cache"),
  };
}
