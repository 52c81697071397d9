/** Confines a program: its command line and environment become those of a program in a sandbox. */

import { mkdirSync } from "node:fs";
import { delimiter, join } from "node:path";
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

/** Rights that builds of root use on files, with their numbers (capabilities(7)). All others, such as those to mount or to make devices, are dropped. */
export const ROOT_RIGHTS = {
  CHOWN: 0,
  DAC_OVERRIDE: 1,
  FOWNER: 3,
  FSETID: 4,
  KILL: 5,
  SETGID: 6,
  SETUID: 7,
  NET_BIND_SERVICE: 10,
};

interface BubblewrapOptions {
  program: string;
  mounts: readonly Mount[];
  cwd: string;
  isRoot: boolean;
}

/**
 * A read-only view of the system, with processes, devices and IPC of its own. The program and its arguments follow. Not
 * `--die-with-parent`: what a program left is ended by its owner, after the time that it has to end by itself.
 */
export function bubblewrap({ program, mounts, cwd, isRoot }: BubblewrapOptions): string[] {
  return [
    program,
    "--unshare-pid",
    "--unshare-ipc",
    ...(isRoot
      ? ["--cap-drop", "ALL", ...Object.keys(ROOT_RIGHTS).flatMap((right) => ["--cap-add", `CAP_${right}`])]
      : []),
    ...["--ro-bind", "/", "/"],
    ...["--dev", "/dev"],
    ...["--proc", "/proc"],
    // Root could set a program of the kernel there. Bubblewrap covers them only where they look writable to it.
    ...["/proc/sys", "/proc/sysrq-trigger"].flatMap((path) => ["--ro-bind-try", path, path]),
    ...mounts.flatMap(argumentsOf),
    ...["--chdir", cwd],
    "--",
  ];
}

function argumentsOf(mount: Mount): string[] {
  switch (mount.kind) {
    case "read":
      return ["--ro-bind", mount.from, mount.to];
    case "write":
      return ["--bind", mount.from, mount.to];
    case "folder":
      return ["--perms", "0700", "--tmpfs", mount.to];
    case "closed":
      return ["--perms", "0555", "--tmpfs", mount.to, "--remount-ro", mount.to];
    case "file":
      return ["--ro-bind", "/dev/null", mount.to];
  }
}
