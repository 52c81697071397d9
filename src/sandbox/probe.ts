/** What sandbox this machine can make, found by running a program in one. */

import { existsSync } from "node:fs";
import { readRegularSync } from "../lib/regular-file.ts";
import { ownCommand } from "../os/own-program.ts";
import { resultOf } from "../os/user-programs.ts";
import { landlock } from "./landlock.ts";
import type { Sandbox } from "./policy.ts";
import { bubblewrap } from "./sandbox.ts";
import { seatbelt } from "./seatbelt.ts";

type Made = Pick<Sandbox, "mechanism" | "program">;

export type SandboxProbe =
  | ({ works: true } & Made)
  /** `why`: what is missing. `advice`: how to get it. `lesser`: what works, and is not whole. */
  | { works: false; why: string; advice: string; lesser?: Made | undefined };

const PROBE_MS = 10_000;
const MAX_BYTES = 4096;

/** Runs /bin/sh in a sandbox with the mounts that every sandbox has. */
export async function probeSandbox(env: Environment): Promise<SandboxProbe> {
  const mounts = [{ kind: "folder", to: "/tmp" }] as const;
  if (process.platform !== "linux") {
    const program = "/usr/bin/sandbox-exec";
    const works = process.platform === "darwin" && (await proof(seatbelt(program, mounts), env)) === null;
    return {
      works: false,
      why: `there is no whole sandbox for ${process.platform} yet`,
      advice: "run it in a container",
      lesser: works ? { mechanism: "seatbelt", program } : undefined,
    };
  }
  const program = Bun.which("bwrap", { PATH: env.PATH ?? "" });
  if (program === null) {
    return {
      works: false,
      why: "bubblewrap is not installed",
      advice: "apt-get install bubblewrap (or dnf, pacman, apk: the package has the same name)",
      lesser: await landlockHere(env),
    };
  }
  const argv = bubblewrap({ program, mounts, cwd: "/", isRoot: process.getuid?.() === 0 });
  const failure = await proof(argv, env);
  if (failure === null) return { works: true, mechanism: "bubblewrap", program };
  const why = `${program} makes no sandbox here: ${failure || "no output"}`;
  return { works: false, why, advice: advice(), lesser: await landlockHere(env) };
}

async function landlockHere(env: Environment): Promise<Made | undefined> {
  const [program = "", ...more] = ownCommand();
  // Only the compiled binary has the mode that becomes another program.
  if (more.length > 0) return undefined;
  const grants = { read: ["/usr", "/bin", "/lib", "/lib64", "/etc"], write: [] };
  return (await proof(landlock(program, grants), env)) === null
    ? { mechanism: "landlock", program }
    : undefined;
}

/** null: a program has run in it. Otherwise what it has printed. */
async function proof(confine: readonly string[], env: Environment): Promise<string | null> {
  const limits = { cwd: "/", env, timeoutMs: PROBE_MS, maxBytes: MAX_BYTES };
  const result = await resultOf([...confine, "/bin/sh", "-c", `echo ${PROOF}`], limits);
  return result?.code === 0 && result.output === PROOF ? null : (result?.output ?? "");
}

type Environment = Readonly<Record<string, string | undefined>>;

const PROOF = "confined";

/** Settings that are 0 where user namespaces are switched off, and what switches them on. */
const USER_NAMESPACES = [
  { file: "/proc/sys/user/max_user_namespaces", setting: "user.max_user_namespaces=15000" },
  { file: "/proc/sys/kernel/unprivileged_userns_clone", setting: "kernel.unprivileged_userns_clone=1" },
];

/** What keeps user namespaces off here: the settings of the system say it. */
function advice(): string {
  if (/microsoft/i.test(textOf("/proc/sys/kernel/osrelease")) && !existsSync("/run/WSL"))
    return "WSL 1 has no namespaces: convert it to WSL 2 (wsl --set-version DISTRO 2)";
  // Root needs none. In a container, too, the setting decides before its options do.
  const off =
    process.getuid?.() === 0 ? undefined : USER_NAMESPACES.find(({ file }) => textOf(file).trim() === "0");
  if (off) return `user namespaces are switched off: sysctl -w ${off.setting}`;
  if (existsSync("/.dockerenv") || existsSync("/run/.containerenv"))
    return "this is a container: start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined, or with a seccomp profile that allows clone, unshare, mount, umount2 and pivot_root";
  if (textOf("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").trim() === "1")
    return "Ubuntu's AppArmor refuses user namespaces: apt-get install apparmor-profiles, cp /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ and systemctl reload apparmor; or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
  return "allow this user to make user namespaces";
}

function textOf(path: string): string {
  return existsSync(path) ? readRegularSync(path, MAX_BYTES).toString("utf8") : "";
}
