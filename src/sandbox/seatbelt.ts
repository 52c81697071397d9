/** The command line of a program that Seatbelt confines, on macOS: `sandbox-exec` with a profile. */

import type { Mount } from "./policy.ts";

/** Devices that programs write, and folders that are not private here. */
const WRITABLE = ["/dev", "/private/tmp", "/private/var/tmp"];

/** The program and its arguments follow. */
export function seatbelt(program: string, mounts: readonly Mount[]): string[] {
  return [program, "-p", seatbeltProfile(mounts)];
}

/** The last rule that fits a path counts, as the last mount does. */
export function seatbeltProfile(mounts: readonly Mount[]): string {
  const rules = mounts.flatMap((mount) => (isShared(mount.to) ? sharedRules(mount) : rulesOf(mount)));
  return [
    "(version 1)",
    "(allow default)",
    `(deny file-write* ${below("/")})`,
    ...WRITABLE.map((path) => `(allow file-write* ${below(path)})`),
    ...rules,
  ].join("\n");
}

function rulesOf(mount: Mount): string[] {
  if (!("from" in mount)) return [`(deny file-read* file-write* ${below(mount.to)})`];
  const { kind, from, to } = mount;
  const replaced = from === to ? [] : [`(deny file-read* file-write* ${below(to)})`];
  return kind === "write"
    ? [...replaced, `(allow file-read* file-write* ${below(from)})`]
    : [...replaced, `(deny file-write* ${below(from)})`, `(allow file-read* ${below(from)})`];
}

/** The private folder is there, but not in their place. */
function sharedRules(mount: Mount): string[] {
  return "from" in mount ? [`(allow file-read* file-write* ${below(mount.from)})`] : [];
}

function isShared(path: string): boolean {
  return path === "/tmp" || path === "/var/tmp";
}

function below(path: string): string {
  return `(subpath ${JSON.stringify(path)})`;
}
