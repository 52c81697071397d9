/** What sandbox this machine can make, found by running a program in one. */

import { existsSync } from "node:fs";
import { readRegularSync } from "../lib/regular-file.ts";
import { resultOf } from "../os/user-programs.ts";
import { bubblewrap } from "./bubblewrap.ts";

export type SandboxProbe =
  | { works: true; mechanism: "bubblewrap"; program: string }
  /** `why`: what is missing. `advice`: how to get it. */
  | { works: false; why: string; advice: string };

const PROBE_MS = 10_000;
const MAX_BYTES = 4096;

/** Runs /bin/sh in a sandbox with the mounts that every sandbox has. */
export async function probeSandbox(env: Readonly<Record<string, string | undefined>>): Promise<SandboxProbe> {
  if (process.platform !== "linux") {
    return {
      works: false,
      why: `there is no sandbox for ${process.platform} yet`,
      advice: "run it in a container, or with --sandbox auto",
    };
  }
  const program = Bun.which("bwrap", { PATH: env.PATH ?? "" });
  if (program === null) {
    return {
      works: false,
      why: "bubblewrap is not installed",
      advice: "apt-get install bubblewrap (or dnf, pacman, apk: the package has the same name)",
    };
  }
  const mounts = [{ kind: "folder", to: "/tmp" }] as const;
  const argv = bubblewrap({ program, mounts, cwd: "/", isRoot: process.getuid?.() === 0 });
  const limits = { cwd: "/", env, timeoutMs: PROBE_MS, maxBytes: MAX_BYTES };
  const result = await resultOf([...argv, "/bin/sh", "-c", `echo ${PROOF}`], limits);
  if (result?.code === 0 && result.output === PROOF) return { works: true, mechanism: "bubblewrap", program };
  return {
    works: false,
    why: `${program} makes no sandbox here: ${result?.output || "no output"}`,
    advice: advice(),
  };
}

const PROOF = "confined";

/** What keeps user namespaces off here: the settings of the system say it. */
function advice(): string {
  if (/microsoft/i.test(textOf("/proc/sys/kernel/osrelease")) && !existsSync("/run/WSL"))
    return "WSL 1 has no namespaces: convert it to WSL 2 (wsl --set-version DISTRO 2)";
  if (existsSync("/.dockerenv") || existsSync("/run/.containerenv"))
    return "this is a container: start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined, or with a seccomp profile that allows clone, unshare, mount, umount2 and pivot_root";
  if (textOf("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").trim() === "1")
    return "Ubuntu's AppArmor refuses user namespaces: apt-get install apparmor-profiles, cp /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ and systemctl reload apparmor; or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
  if (textOf("/proc/sys/user/max_user_namespaces").trim() === "0")
    return "user namespaces are switched off: sysctl -w user.max_user_namespaces=15000";
  if (textOf("/proc/sys/kernel/unprivileged_userns_clone").trim() === "0")
    return "user namespaces are switched off: sysctl -w kernel.unprivileged_userns_clone=1";
  return "allow this user to make user namespaces";
}

function textOf(path: string): string {
  return existsSync(path) ? readRegularSync(path, MAX_BYTES).toString("utf8") : "";
}
