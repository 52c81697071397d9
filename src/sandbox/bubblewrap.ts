/** The command line of bubblewrap for a list of mounts. */

import type { Mount } from "./mount.ts";

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
